//! Reductions of blocks of columns behind a product in memory, where tensor cores do not fold them in registers.

use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::{Argument, OperandForm};
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::map::Map;
use crate::codegen::schedule::matmul_point::{MatmulByPoint, ProductForm};
use crate::codegen::schedule::row::Row;
use crate::codegen::types::LARGEST_NARROW;
use crate::device_model::DeviceModel;
use crate::fusion::{Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, MatmulBody, RowConsumer};

/// Kernels around a dense product in memory.
struct InMemory<'k> {
    kernel: &'k Kernel,
    body: &'k MatmulBody,
    device: DeviceModel,
}

impl InMemory<'_> {
    fn n_points(&self) -> usize {
        self.body.epilogue.domain.points(Class::Element)
    }

    /// The position of the product among the operands.
    fn product(&self) -> usize {
        self.kernel.operands.len()
    }

    fn inst(&self, op: FusedOp, class: Class) -> FusedInst {
        FusedInst { op, dtype: self.body.dtype.accumulator(), class }
    }

    fn load(&self) -> FusedInst {
        let access = Access::strided(&[self.n_points()], &[1]);
        self.inst(FusedOp::Load { operand: self.product(), access, index: None }, Class::Element)
    }

    fn store(&self, value: usize) -> FusedInst {
        let access = Access::strided(&[self.n_points()], &[1]);
        let operand = self.product();
        self.inst(FusedOp::Store { operand, access, value, index: None }, Class::Element)
    }

    fn operands(&self) -> Vec<OperandForm> {
        let n = self.n_points();
        let mut operands = OperandForm::of(self.kernel);
        operands.push(OperandForm {
            argument: Argument::Product,
            dtype: self.body.dtype.accumulator(),
            is_written: true,
            is_empty: n == 0,
            is_wide: n > LARGEST_NARROW,
            may_share: true,
            is_atomic: false,
            as_bits: false,
        });
        operands
    }

    /// The epilogue, which replaces the product by its scores; none if it computes nothing.
    fn scores(&self) -> Option<KernelSpec> {
        let FusedBody { domain, insts } = &self.body.epilogue;
        let value = self.body.epilogue.folded()?;
        if insts[value].op == FusedOp::Accumulator {
            return None;
        }
        let insts = insts.iter().map(|inst| match inst.op {
            FusedOp::Accumulator => self.load(),
            FusedOp::Fold { value } => self.store(value),
            _ => inst.clone(),
        });
        let body = FusedBody { domain: *domain, insts: insts.collect() };
        Some(KernelSpec::of_used_operands(body, Map, self.operands(), self.device))
    }
}

impl KernelSpec {
    /// The launches that reduce blocks of columns of a product that lies in [`Argument::Product`]. They overwrite it. None if
    /// the matmul has no such fold.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn column_blocks(kernel: &Kernel, device: DeviceModel) -> Option<Vec<KernelSpec>> {
        let body = matmul_body(kernel);
        let rows = body.rows.as_deref()?;
        let RowConsumer::Blocks { monoid, columns, .. } = rows.consumer else { return None };
        let product = InMemory { kernel, body, device };
        let domain = Domain { outer: product.n_points() / columns, row: columns, inner: 1 };
        let mut insts = vec![product.load(), product.inst(FusedOp::Reduce { monoid, value: 0 }, Class::Row)];
        let access = Access::strided(&[domain.outer], &[1]);
        for &operand in &rows.results {
            let op = FusedOp::Store { operand, access: access.clone(), value: 1, index: None };
            insts.push(FusedInst { op, dtype: kernel.operands[operand].ty.dtype, class: Class::Row });
        }
        let reduced = FusedBody { domain, insts };
        let reduced = KernelSpec::of_used_operands(reduced, Row, product.operands(), device);
        Some(product.scores().into_iter().chain([reduced]).collect())
    }

    /// The product of a matmul alone, which goes to [`Argument::Product`]; for what no library computes.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn product_alone(kernel: &Kernel, device: DeviceModel) -> KernelSpec {
        let body = matmul_body(kernel);
        let product = InMemory { kernel, body, device };
        let insts = vec![product.inst(FusedOp::Accumulator, Class::Element), product.store(0)];
        let stored = FusedBody { domain: body.epilogue.domain, insts };
        KernelSpec::new(stored, MatmulByPoint(ProductForm::of(body)), product.operands(), device)
    }
}
