//! Contractions: the epilogue at each point of a product that the kernel adds up itself, or that lies in memory; and
//! sums of an operand beside it.
//!
//! Large products are cut into tiles ([`crate::codegen::schedule::matmul_blocked`]). Else short sums are added up by a thread per point. Longer ones are rows to be reduced, so a plane of threads shares each,
//! and the epilogue runs once per row.

use crate::codegen::ir::builder::Code;
use crate::codegen::ops::body::{BodyCode, Memory};
use crate::codegen::ops::scalar::widened;
use crate::codegen::schedule::map::at_point;
use crate::codegen::schedule::split_k;
use crate::codegen::target::Target;
use crate::codegen::{
    Argument, Buffers, CodegenError, Form, KernelSpec, LARGEST_NARROW, OperandForm, operand_forms,
};
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, MatmulBody, MatrixOperand, Reg,
    Side, SideSum,
};
use crate::ir::{Binary, DType, Monoid, Scalar};
use cubecl_core::ir::{Arithmetic, Builtin, ElemType, Variable};

/// What is multiplied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProductForm {
    /// Rows and columns of the result.
    pub m: usize,
    pub n: usize,
    /// Extent summed over.
    pub k: usize,
    pub lhs: MatrixOperand,
    pub rhs: MatrixOperand,
    /// Element type of the matrices.
    pub dtype: DType,
}

impl ProductForm {
    pub fn of(body: &MatmulBody) -> ProductForm {
        let MatmulBody { m, n, k, lhs, rhs, dtype, .. } = *body;
        ProductForm { m, n, k, lhs, rhs, dtype }
    }
}

/// Emits a contraction: a thread per point of the result adds up its products in the order of the contracted axis.
pub fn contract(
    code: &mut Code,
    tile: &FusedBody,
    buffers: &Buffers,
    product: &ProductForm,
    n_points: Variable,
) -> Result<(), CodegenError> {
    let point = code.builtin(Builtin::AbsolutePos);
    let is_point = code.less(point, n_points);
    let tile_code = BodyCode { tile, buffers, shared: buffers };
    let mut result = Ok(());
    code.when(is_point, |code| {
        let sum = product.at(code, buffers, point);
        let is_sum = |inst: &FusedInst| inst.op == FusedOp::Accumulator;
        let registers = tile.insts.iter().map(|inst| is_sum(inst).then_some(sum)).collect();
        result = at_point(code, &tile_code, point, registers);
    });
    result
}

impl ProductForm {
    /// The product at a point of the result.
    pub fn at(&self, code: &mut Code, buffers: &Buffers, point: Variable) -> Variable {
        let (row, column) = (code.divided(point, self.n), code.modulo(point, self.n));
        self.in_row(code, buffers, row, column)
    }

    /// The same at a column of a row; rows are counted through all matrices.
    pub fn in_row(&self, code: &mut Code, buffers: &Buffers, row: Variable, column: Variable) -> Variable {
        let (batch, row) = (code.divided(row, self.m), code.modulo(row, self.m));
        let elem = code.target.register(self.dtype.accumulator());
        let zero = code.constant(elem, 0.0);
        let total = code.mutable(zero);
        let lhs = first(code, &self.lhs, [(batch, self.lhs.batch), (row, self.lhs.row)]);
        let rhs = first(code, &self.rhs, [(batch, self.rhs.batch), (column, self.rhs.col)]);
        let (start, end) = (code.at(0), code.at(self.k as i64));
        code.range(start, end, 1, |code, i| {
            let a = self.element(code, buffers, &self.lhs, lhs, (i, self.lhs.col));
            let b = self.element(code, buffers, &self.rhs, rhs, (i, self.rhs.row));
            let next = multiplied_and_added(code, elem, a, b, total);
            code.assign(total, next);
        });
        code.snapshot(total)
    }

    fn element(
        &self,
        code: &mut Code,
        buffers: &Buffers,
        matrix: &MatrixOperand,
        first: Variable,
        (i, stride): (Variable, i64),
    ) -> Variable {
        let along = code.scaled(i, stride);
        let index = code.add_at(first, along);
        let stored = buffers.load(code, matrix.operand, index);
        let value = widened(code, self.dtype, stored);
        code.cast(code.target.register(self.dtype.accumulator()), value)
    }
}

fn first(code: &mut Code, matrix: &MatrixOperand, steps: [(Variable, i64); 2]) -> Variable {
    steps.into_iter().fold(code.at(matrix.offset), |index, (coordinate, stride)| {
        let step = code.scaled(coordinate, stride);
        code.add_at(index, step)
    })
}

/// `a·b + total`
pub fn multiplied_and_added(
    code: &mut Code,
    elem: ElemType,
    a: Variable,
    b: Variable,
    total: Variable,
) -> Variable {
    if matches!(elem, ElemType::Float(_)) {
        return code.fma(a, b, total);
    }
    let product = code.bin(Arithmetic::Mul, a, b);
    code.bin(Arithmetic::Add, product, total)
}

/// The longest contracted axis that one thread goes along.
const LONGEST_ALONE: usize = 32;

/// The product with its epilogue as one launch, without the sums beside it.
pub fn own_product(kernel: &Kernel, body: &MatmulBody, target: Target) -> KernelSpec {
    if let Some(cut) = split_k::splits(body, Target { has_library: true, ..target }).first()
        && let Some(fused) = split_k::launches(kernel, body, *cut).pop()
    {
        return fused;
    }
    let is_plain = |inst: &FusedInst| inst.class != Class::Row && !matches!(inst.op, FusedOp::Check { .. });
    if body.k > LONGEST_ALONE && body.epilogue.insts.iter().all(is_plain) {
        return with_used_operands(as_rows(body), Form::Row, operand_forms(kernel));
    }
    let (tile, form) = (body.epilogue.clone(), Form::Matmul(ProductForm::of(body)));
    KernelSpec { tile, form, operands: operand_forms(kernel), is_guarded: false, target: Target::CUDA }
}

/// A row of products for each point of the result.
fn as_rows(body: &MatmulBody) -> FusedBody {
    let &MatmulBody { batch, m, n, k, lhs, rhs, dtype, .. } = body;
    let load = |matrix: MatrixOperand, strides: [i64; 4]| {
        let mut access = Access::strided(&[batch, m, n, k], &strides);
        access.levels[0].offset = matrix.offset;
        let op = FusedOp::Load { operand: matrix.operand, access, index: None };
        FusedInst { op, dtype, class: Class::Element }
    };
    let sum = |op: FusedOp, class: Class| FusedInst { op, dtype: dtype.accumulator(), class };
    let mut insts = vec![
        load(lhs, [lhs.batch, lhs.row, 0, lhs.col]),
        load(rhs, [rhs.batch, 0, rhs.col, rhs.row]),
        sum(FusedOp::Scalar(Scalar::Binary(Binary::Mul), vec![0, 1]), Class::Element),
        sum(FusedOp::Reduce { monoid: Monoid::Sum, value: 2 }, Class::Row),
    ];
    let n_own = insts.len();
    let is_sum = |reg: Reg| body.epilogue.insts[reg].op == FusedOp::Accumulator;
    // An accumulator leaves a copy behind, so that registers keep their distance.
    let renamed = |reg: Reg| if is_sum(reg) { n_own - 1 } else { reg + n_own };
    for inst in &body.epilogue.insts {
        let class = if inst.class == Class::Element { Class::Row } else { inst.class };
        let op = match &inst.op {
            FusedOp::Accumulator => FusedOp::Scalar(Scalar::Cast(dtype.accumulator()), vec![n_own - 1]),
            op => with_operands(op, renamed),
        };
        insts.push(FusedInst { op, dtype: inst.dtype, class });
    }
    FusedBody { domain: Domain { outer: batch * m * n, row: k, inner: 1 }, insts }
}

/// The same with other registers.
pub fn with_operands(op: &FusedOp, renamed: impl Fn(Reg) -> Reg) -> FusedOp {
    let mut op = op.clone();
    match &mut op {
        FusedOp::Load { index, .. } => {
            if let Some((reg, _)) = index {
                *reg = renamed(*reg);
            }
        }
        FusedOp::Random { step, iteration, .. } => {
            *step = renamed(*step);
            if let Some(iteration) = iteration {
                *iteration = renamed(*iteration);
            }
        }
        FusedOp::Scalar(_, args) => args.iter_mut().for_each(|arg| *arg = renamed(*arg)),
        FusedOp::Check { value: reg, .. }
        | FusedOp::Reduce { value: reg, .. }
        | FusedOp::Fold { value: reg }
        | FusedOp::Store { value: reg, .. } => {
            *reg = renamed(*reg);
        }
        FusedOp::Const(_) | FusedOp::Coord(_) | FusedOp::Accumulator => {}
    }
    op
}

impl KernelSpec {
    /// The epilogue of a contraction whose product a library computes: it reads that from [`Argument::Product`], which
    /// may be the memory of a result.
    ///
    /// # Panics
    /// If the kernel is no contraction.
    pub fn epilogue(kernel: &Kernel) -> KernelSpec {
        let body = contract_body(kernel);
        let mut operands = operand_forms(kernel);
        let domain = body.epilogue.domain;
        let (n_points, dtype) = (domain.points(Class::Element), body.dtype.accumulator());
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
        let tile = FusedBody { domain, insts: insts.collect() };
        with_used_operands(tile, Form::Map, operands)
    }

    /// A contraction that adds up its own products, without the sums beside it.
    ///
    /// # Panics
    /// If the kernel is no contraction.
    pub fn own_product(kernel: &Kernel) -> KernelSpec {
        own_product(kernel, contract_body(kernel), Target::CUDA)
    }

    /// The sums beside a contraction, each a launch of its own.
    ///
    /// # Panics
    /// If the kernel is no contraction.
    pub fn side_sums(kernel: &Kernel) -> Vec<KernelSpec> {
        let body = contract_body(kernel);
        body.side_sums.iter().map(|sum| side_sum(kernel, body, sum)).collect()
    }
}

/// What a contraction computes.
///
/// # Panics
/// If the kernel is none.
pub fn contract_body(kernel: &Kernel) -> &MatmulBody {
    match &kernel.body {
        KernelBody::Matmul(body) => body,
        _ => crate::bug!("`{}` is no contraction", kernel.name),
    }
}

fn side_sum(kernel: &Kernel, body: &MatmulBody, sum: &SideSum) -> KernelSpec {
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
        inst(FusedOp::Store { operand: sum.operand, access: result, value: 1 }, Class::Row),
    ];
    with_used_operands(FusedBody { domain, insts }, Form::Row, operand_forms(kernel))
}

/// A kernel of the operands that its tile names, so that equal launches have equal texts whatever stands beside them.
pub fn with_used_operands(mut tile: FusedBody, form: Form, operands: Vec<OperandForm>) -> KernelSpec {
    let mut used: Vec<usize> = tile.insts.iter_mut().filter_map(|inst| operand_of(inst).copied()).collect();
    used.sort_unstable();
    used.dedup();
    for operand in tile.insts.iter_mut().filter_map(operand_of) {
        *operand = used.binary_search(operand).unwrap_or_default();
    }
    let operands = used.into_iter().map(|operand| operands[operand]).collect();
    KernelSpec { tile, form, operands, is_guarded: false, target: Target::CUDA }
}

fn operand_of(inst: &mut FusedInst) -> Option<&mut usize> {
    match &mut inst.op {
        FusedOp::Load { operand, .. } | FusedOp::Store { operand, .. } => Some(operand),
        _ => None,
    }
}
