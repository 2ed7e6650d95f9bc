//! Contractions: the epilogue at each point of a product that the kernel adds up itself, or that lies in memory; and
//! sums of an operand beside it.
//!
//! Large products are cut into tiles ([`super::tiled`]). Else short sums are added up by a thread per point. Longer ones are rows to be reduced, so a plane of threads shares each,
//! and the epilogue runs once per row.

use super::code::Code;
use super::map::at_point;
use super::scalar::widened;
use super::target::Target;
use super::tile::{Memory, TileCode};
use super::{
    Argument, Buffers, EmitError, Form, FusedKernel, LARGEST_NARROW, OperandForm, operand_forms, split,
};
use crate::fuse::{
    Access, Class, ContractBody, Domain, Kernel, KernelBody, MatrixOperand, Reg, Side, SideSum, Tile,
    TileInst, TileOp,
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
    pub fn of(body: &ContractBody) -> ProductForm {
        let ContractBody { m, n, k, lhs, rhs, dtype, .. } = *body;
        ProductForm { m, n, k, lhs, rhs, dtype }
    }
}

/// Emits a contraction: a thread per point of the result adds up its products in the order of the contracted axis.
pub fn contract(
    code: &mut Code,
    tile: &Tile,
    buffers: &Buffers,
    product: &ProductForm,
    n_points: Variable,
) -> Result<(), EmitError> {
    let point = code.builtin(Builtin::AbsolutePos);
    let is_point = code.less(point, n_points);
    let tile_code = TileCode { tile, buffers, shared: buffers };
    let mut result = Ok(());
    code.when(is_point, |code| {
        let sum = product.at(code, buffers, point);
        let is_sum = |inst: &TileInst| inst.op == TileOp::Accumulator;
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
pub fn own_product(kernel: &Kernel, body: &ContractBody, target: Target) -> FusedKernel {
    if let Some(cut) = split::cuts(body, Target { has_library: true, ..target }).first()
        && let Some(fused) = split::launches(kernel, body, *cut).pop()
    {
        return fused;
    }
    let is_plain = |inst: &TileInst| inst.class != Class::Row && !matches!(inst.op, TileOp::Check { .. });
    if body.k > LONGEST_ALONE && body.epilogue.insts.iter().all(is_plain) {
        return with_used_operands(as_rows(body), Form::Row, operand_forms(kernel));
    }
    let (tile, form) = (body.epilogue.clone(), Form::Contract(ProductForm::of(body)));
    FusedKernel { tile, form, operands: operand_forms(kernel), is_guarded: false, target: Target::CUDA }
}

/// A row of products for each point of the result.
fn as_rows(body: &ContractBody) -> Tile {
    let &ContractBody { batch, m, n, k, lhs, rhs, dtype, .. } = body;
    let load = |matrix: MatrixOperand, strides: [i64; 4]| {
        let mut access = Access::strided(&[batch, m, n, k], &strides);
        access.levels[0].offset = matrix.offset;
        let op = TileOp::Load { operand: matrix.operand, access, index: None };
        TileInst { op, dtype, class: Class::Element }
    };
    let sum = |op: TileOp, class: Class| TileInst { op, dtype: dtype.accumulator(), class };
    let mut insts = vec![
        load(lhs, [lhs.batch, lhs.row, 0, lhs.col]),
        load(rhs, [rhs.batch, 0, rhs.col, rhs.row]),
        sum(TileOp::Scalar(Scalar::Binary(Binary::Mul), vec![0, 1]), Class::Element),
        sum(TileOp::Reduce { monoid: Monoid::Sum, value: 2 }, Class::Row),
    ];
    let n_own = insts.len();
    let is_sum = |reg: Reg| body.epilogue.insts[reg].op == TileOp::Accumulator;
    // An accumulator leaves a copy behind, so that registers keep their distance.
    let renamed = |reg: Reg| if is_sum(reg) { n_own - 1 } else { reg + n_own };
    for inst in &body.epilogue.insts {
        let class = if inst.class == Class::Element { Class::Row } else { inst.class };
        let op = match &inst.op {
            TileOp::Accumulator => TileOp::Scalar(Scalar::Cast(dtype.accumulator()), vec![n_own - 1]),
            op => with_operands(op, renamed),
        };
        insts.push(TileInst { op, dtype: inst.dtype, class });
    }
    Tile { domain: Domain { outer: batch * m * n, row: k, inner: 1 }, insts }
}

/// The same with other registers.
pub fn with_operands(op: &TileOp, renamed: impl Fn(Reg) -> Reg) -> TileOp {
    let mut op = op.clone();
    match &mut op {
        TileOp::Load { index, .. } => {
            if let Some((reg, _)) = index {
                *reg = renamed(*reg);
            }
        }
        TileOp::Random { step, iteration, .. } => {
            *step = renamed(*step);
            if let Some(iteration) = iteration {
                *iteration = renamed(*iteration);
            }
        }
        TileOp::Scalar(_, args) => args.iter_mut().for_each(|arg| *arg = renamed(*arg)),
        TileOp::Check { value: reg, .. }
        | TileOp::Reduce { value: reg, .. }
        | TileOp::Fold { value: reg }
        | TileOp::Store { value: reg, .. } => {
            *reg = renamed(*reg);
        }
        TileOp::Const(_) | TileOp::Coord(_) | TileOp::Accumulator => {}
    }
    op
}

impl FusedKernel {
    /// The epilogue of a contraction whose product a library computes: it reads that from [`Argument::Product`], which
    /// may be the memory of a result.
    ///
    /// # Panics
    /// If the kernel is no contraction.
    pub fn epilogue(kernel: &Kernel) -> FusedKernel {
        let body = contract_body(kernel);
        let mut operands = operand_forms(kernel);
        let domain = body.epilogue.domain;
        let (n_points, dtype) = (domain.points(Class::Element), body.dtype.accumulator());
        let access = Access::strided(&[n_points], &[1]);
        let load = TileOp::Load { operand: operands.len(), access, index: None };
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
            TileOp::Accumulator => TileInst { op: load.clone(), dtype, class: Class::Element },
            _ => inst.clone(),
        });
        let tile = Tile { domain, insts: insts.collect() };
        with_used_operands(tile, Form::Map, operands)
    }

    /// A contraction that adds up its own products, without the sums beside it.
    ///
    /// # Panics
    /// If the kernel is no contraction.
    pub fn own_product(kernel: &Kernel) -> FusedKernel {
        own_product(kernel, contract_body(kernel), Target::CUDA)
    }

    /// The sums beside a contraction, each a launch of its own.
    ///
    /// # Panics
    /// If the kernel is no contraction.
    pub fn side_sums(kernel: &Kernel) -> Vec<FusedKernel> {
        let body = contract_body(kernel);
        body.side_sums.iter().map(|sum| side_sum(kernel, body, sum)).collect()
    }
}

/// What a contraction computes.
///
/// # Panics
/// If the kernel is none.
pub fn contract_body(kernel: &Kernel) -> &ContractBody {
    match &kernel.body {
        KernelBody::Contract(body) => body,
        _ => crate::bug!("`{}` is no contraction", kernel.name),
    }
}

fn side_sum(kernel: &Kernel, body: &ContractBody, sum: &SideSum) -> FusedKernel {
    let &ContractBody { batch, m, n, k, dtype, .. } = body;
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
    let inst = |op: TileOp, class: Class| TileInst { op, dtype, class };
    let n_rows = domain.points(Class::Row);
    let result = Access::strided(&[n_rows], &[1]);
    let insts = vec![
        inst(TileOp::Load { operand: matrix.operand, access, index: None }, Class::Element),
        inst(TileOp::Reduce { monoid: Monoid::Sum, value: 0 }, Class::Row),
        inst(TileOp::Store { operand: sum.operand, access: result, value: 1 }, Class::Row),
    ];
    with_used_operands(Tile { domain, insts }, Form::Row, operand_forms(kernel))
}

/// A kernel of the operands that its tile names, so that equal launches have equal texts whatever stands beside them.
pub fn with_used_operands(mut tile: Tile, form: Form, operands: Vec<OperandForm>) -> FusedKernel {
    let mut used: Vec<usize> = tile.insts.iter_mut().filter_map(|inst| operand_of(inst).copied()).collect();
    used.sort_unstable();
    used.dedup();
    for operand in tile.insts.iter_mut().filter_map(operand_of) {
        *operand = used.binary_search(operand).unwrap_or_default();
    }
    let operands = used.into_iter().map(|operand| operands[operand]).collect();
    FusedKernel { tile, form, operands, is_guarded: false, target: Target::CUDA }
}

fn operand_of(inst: &mut TileInst) -> Option<&mut usize> {
    match &mut inst.op {
        TileOp::Load { operand, .. } | TileOp::Store { operand, .. } => Some(operand),
        _ => None,
    }
}
