//! Kernels that accompany a matmul: the epilogue on a product in memory, and side sums.

use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::{Argument, OperandForm};
use crate::codegen::schedule::map::Map;
use crate::codegen::schedule::row::Row;
use crate::codegen::types::LARGEST_NARROW;
use crate::device_model::DeviceModel;
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, MatmulBody, Side, SideSum,
};
use crate::ir::{DType, Monoid};

impl KernelSpec {
    /// The epilogue of a matmul whose product, of that type, a library computes. It reads [`Argument::Product`], which may
    /// share the memory of a result.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn epilogue(kernel: &Kernel, dtype: DType, device: DeviceModel) -> KernelSpec {
        let body = matmul_body(kernel);
        let mut operands = OperandForm::of(kernel);
        let domain = body.epilogue.domain;
        let n_points = domain.points(Class::Element);
        let access = Access::strided(&[n_points], &[1]);
        let load = FusedOp::Load { operand: operands.len(), access, index: None };
        operands.push(OperandForm {
            argument: Argument::Product,
            dtype,
            is_written: false,
            is_empty: n_points == 0,
            is_wide: n_points > LARGEST_NARROW,
            may_share: true,
            is_atomic: false,
            as_bits: false,
        });
        operands.iter_mut().for_each(|operand| operand.may_share |= operand.is_written);
        let insts = body.epilogue.insts.iter().map(|inst| match inst.op {
            FusedOp::Accumulator => FusedInst { op: load.clone(), dtype, class: Class::Element },
            _ => inst.clone(),
        });
        let fused = FusedBody { domain, insts: insts.collect() };
        KernelSpec::of_used_operands(fused, Map, operands, device)
    }

    /// The side sums of a matmul, one launch each.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn side_sums(kernel: &Kernel, device: DeviceModel) -> Vec<KernelSpec> {
        let body = matmul_body(kernel);
        body.side_sums.iter().map(|sum| side_sum(kernel, body, sum, device)).collect()
    }
}

/// The body of a matmul.
///
/// # Panics
/// If the kernel is no matmul.
pub fn matmul_body(kernel: &Kernel) -> &MatmulBody {
    match &kernel.body {
        KernelBody::Matmul(body) => body,
        _ => crate::bug!("`{}` is no matmul", kernel.name),
    }
}

fn side_sum(kernel: &Kernel, body: &MatmulBody, sum: &SideSum, device: DeviceModel) -> KernelSpec {
    let &MatmulBody { batch, m, n, k, dtype, .. } = body;
    let (matrix, domain, extents, strides) = match sum.side {
        Side::Lhs => {
            let matrix = body.lhs;
            let domain = Domain { outer: batch * m, row: k, inner: 1 };
            (matrix, domain, [batch, m, k], [matrix.batch, matrix.row, matrix.col])
        }
        Side::Rhs => {
            let matrix = body.rhs;
            let domain = Domain { outer: batch, row: k, inner: n };
            (matrix, domain, [batch, k, n], [matrix.batch, matrix.row, matrix.col])
        }
    };
    let mut access = Access::strided(&extents, &strides);
    access.levels[0].offset = matrix.offset;
    let inst = |op: FusedOp, class: Class| FusedInst { op, dtype, class };
    let n_rows = domain.points(Class::Row);
    let result = Access::strided(&[n_rows], &[1]);
    let insts = vec![
        inst(FusedOp::Load { operand: matrix.operand, access, index: None }, Class::Element),
        inst(FusedOp::Reduce { monoid: Monoid::Sum, value: 0 }, Class::Row),
        inst(FusedOp::Store { operand: sum.operand, access: result, value: 1, index: None }, Class::Row),
    ];
    KernelSpec::of_used_operands(FusedBody { domain, insts }, Row, OperandForm::of(kernel), device)
}
