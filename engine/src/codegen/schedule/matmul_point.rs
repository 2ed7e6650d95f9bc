//! Matmuls by a thread per point of the result, for short sums.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::integers::within_type;
use crate::codegen::ops::scalar::widened;
use crate::codegen::schedule::map::at_point;
use crate::codegen::types::THREADS;
use crate::fusion::{FusedInst, FusedOp, MatmulBody, MatrixOperand};
use crate::ir::DType;
use cubecl_core::ir::{Arithmetic, Builtin, ElemType, Variable};

/// The matrices of a product.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProductForm {
    /// Rows and columns of the result.
    pub m: usize,
    pub n: usize,
    /// Extent of the contracted axis.
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

impl ProductForm {
    /// The product at a point of the result.
    pub fn at(&self, code: &mut Code, buffers: &Buffers, point: Variable) -> Variable {
        let (row, column) = (code.divided(point, self.n), code.modulo(point, self.n));
        self.in_row(code, buffers, row, column)
    }

    /// The product at a column of a row; rows are counted through all matrices.
    pub fn in_row(&self, code: &mut Code, buffers: &Buffers, row: Variable, column: Variable) -> Variable {
        let (batch, row) = (code.divided(row, self.m), code.modulo(row, self.m));
        let elem = code.device.register(self.dtype.accumulator());
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
        code.cast(code.device.register(self.dtype.accumulator()), value)
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

/// The registers of a point that know its sum alone. A sum of integers of fewer bits than its register wraps here.
pub fn with_sum(code: &mut Code, body: &BodyCode, sum: Variable) -> Registers {
    let mut of_inst =
        |inst: &FusedInst| (inst.op == FusedOp::Accumulator).then(|| within_type(code, inst.dtype, sum));
    body.body.insts.iter().map(&mut of_inst).collect()
}

/// A thread per point sums its products in the order of the contracted axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulByPoint(pub ProductForm);

impl Schedule for MatmulByPoint {
    fn entry(&self) -> &'static str {
        "matmul"
    }

    fn blocks(&self, _: &KernelSpec, n_points: usize) -> usize {
        n_points.div_ceil(THREADS)
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let point = code.builtin(Builtin::AbsolutePos);
        let is_point = code.less(point, kernel.points());
        let mut result = Ok(());
        code.when(is_point, |code| {
            let sum = self.0.at(code, kernel.buffers, point);
            let registers = with_sum(code, &body, sum);
            result = at_point(code, &body, point, registers);
        });
        result
    }
}
