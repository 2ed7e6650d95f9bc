//! Products of a few rows with windows of an image, such as depthwise convolutions. Threads read the windows where they lie, each
//! for some neighbouring rows of the result's image.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, Term};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::scalar::widened;
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::map::at_point;
use crate::codegen::schedule::matmul_point::{multiplied_and_added, with_sum};
use crate::codegen::types::THREADS;
use crate::device_model::DeviceModel;
use crate::fusion::{Axis, FewWindows, Kernel, MatmulBody, Side, UnevenAxes};
use crate::ir::DType;
use cubecl_core::ir::{Builtin, Variable};
use std::collections::HashMap;

/// The most points of a thread.
const MOST_EACH: usize = 4;

/// A matrix as its axes on an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Matrix {
    operand: usize,
    offset: i64,
    axes: UnevenAxes,
}

impl Matrix {
    fn of(body: &MatmulBody, side: Side) -> Matrix {
        let matrix = if side == Side::Lhs { body.lhs } else { body.rhs };
        Matrix { operand: matrix.operand, offset: matrix.offset, axes: body.axes(side) }
    }
}

/// A thread sums the products of a few points, which lie one row of the image apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MatmulOfWindows {
    n_batches: usize,
    m: usize,
    n: usize,
    dtype: DType,
    lhs: Matrix,
    rhs: Matrix,
    /// The points of a thread, their distance in the result, and that in the image.
    each: usize,
    pitch: usize,
    stride: i64,
}

impl MatmulOfWindows {
    fn of(body: &MatmulBody) -> MatmulOfWindows {
        let (lhs, rhs) = (Matrix::of(body, Side::Lhs), Matrix::of(body, Side::Rhs));
        let (each, pitch, stride) = match rhs.axes.columns[..] {
            [.., rows, columns] => {
                let each = (1..=MOST_EACH).rev().find(|each| rows.extent.is_multiple_of(*each)).unwrap_or(1);
                (each, columns.extent, rows.stride)
            }
            _ => (1, body.n, 0),
        };
        let (n_batches, m, n, dtype) = (body.batch, body.m, body.n, body.dtype);
        MatmulOfWindows { n_batches, m, n, dtype, lhs, rhs, each, pitch, stride }
    }

    /// The matrix, the row and the first column of a thread.
    fn place(&self, code: &mut Code, thread: Variable) -> [Variable; 3] {
        let (along, block) = (code.modulo(thread, self.pitch), code.divided(thread, self.pitch));
        let n_blocks = self.n / self.pitch / self.each;
        let (row, block) = (code.divided(block, n_blocks), code.modulo(block, n_blocks));
        let start = code.scaled(block, (self.each * self.pitch) as i64);
        let column = code.add_at(start, along);
        [code.divided(row, self.m), code.modulo(row, self.m), column]
    }

    /// The sums of a thread. An element of the image that several of its windows have is read once.
    fn sums(&self, code: &mut Code, buffers: &Buffers, [batch, row, column]: [Variable; 3]) -> Vec<Variable> {
        let (lhs, rhs) = (&self.lhs, &self.rhs);
        let left = element(code, lhs.offset, [(&lhs.axes.batch, batch), (&lhs.axes.rows, row)]);
        let right = element(code, rhs.offset, [(&rhs.axes.batch, batch), (&rhs.axes.columns, column)]);
        let (weights, parts) = (offsets(&lhs.axes.columns), offsets(&rhs.axes.rows));
        let elem = code.device.register(self.dtype.accumulator());
        let zero = code.constant(elem, 0.0);
        let mut sums = vec![zero; self.each];
        let mut known: HashMap<i64, Variable> = HashMap::new();
        for (weight, part) in weights.into_iter().zip(parts) {
            let a = self.load(code, buffers, (lhs.operand, left), weight);
            for (i, sum) in sums.iter_mut().enumerate() {
                let offset = part + i as i64 * self.stride;
                let b = match known.get(&offset) {
                    Some(b) => *b,
                    None => self.load(code, buffers, (rhs.operand, right), offset),
                };
                known.insert(offset, b);
                *sum = multiplied_and_added(code, elem, a, b, *sum);
            }
        }
        sums
    }

    fn load(
        &self,
        code: &mut Code,
        buffers: &Buffers,
        (operand, first): (usize, Variable),
        offset: i64,
    ) -> Variable {
        let offset = code.at(offset);
        let index = code.add_at(first, offset);
        let stored = buffers.load(code, operand, index);
        let value = widened(code, self.dtype, stored);
        code.cast(code.device.register(self.dtype.accumulator()), value)
    }
}

/// The element at coordinates along groups of axes.
fn element(code: &mut Code, offset: i64, groups: [(&Vec<Axis>, Variable); 2]) -> Variable {
    let mut terms = vec![];
    for (axes, coordinate) in groups {
        let mut rest = coordinate;
        for (i, axis) in axes.iter().enumerate().rev() {
            let own = if i == 0 { rest } else { code.modulo(rest, axis.extent) };
            rest = if i == 0 { rest } else { code.divided(rest, axis.extent) };
            terms.push(Term { value: own, extent: axis.extent, stride: axis.stride });
        }
    }
    code.element_number(offset, &terms)
}

/// The offsets of all points of axes, in order.
fn offsets(axes: &[Axis]) -> Vec<i64> {
    axes.iter().fold(vec![0], |offsets, axis| {
        let steps = || (0..axis.extent as i64).map(|i| i * axis.stride);
        offsets.iter().flat_map(|offset| steps().map(move |step| offset + step)).collect()
    })
}

impl Schedule for MatmulOfWindows {
    fn entry(&self) -> &'static str {
        "windows"
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.n_batches * self.m * self.n / self.each
    }

    fn blocks(&self, _: &KernelSpec, n_points: usize) -> usize {
        n_points.div_ceil(THREADS)
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let thread = code.builtin(Builtin::AbsolutePos);
        let is_point = code.less(thread, kernel.points());
        let mut result = Ok(());
        code.when(is_point, |code| {
            let place = self.place(code, thread);
            let sums = self.sums(code, kernel.buffers, place);
            let [batch, row, column] = place;
            let row = {
                let first = code.scaled(batch, self.m as i64);
                code.add_at(first, row)
            };
            let first = code.scaled(row, self.n as i64);
            let first = code.add_at(first, column);
            for (i, sum) in sums.into_iter().enumerate() {
                let step = code.at((i * self.pitch) as i64);
                let point = code.add_at(first, step);
                let registers = with_sum(code, &body, sum);
                result = result.clone().and(at_point(code, &body, point, registers));
            }
        });
        result
    }
}

impl KernelSpec {
    /// A product of a few rows with windows as one launch; none of other matmuls.
    pub fn of_windows(kernel: &Kernel, device: DeviceModel) -> Option<KernelSpec> {
        let body = matmul_body(kernel);
        let few = FewWindows::of_axes([&body.axes(Side::Lhs), &body.axes(Side::Rhs)])?;
        let is_alone = body.side_sums.is_empty() && body.rows.is_none();
        let fits = is_alone && few.is_short() && body.dtype.is_float();
        let schedule = MatmulOfWindows::of(body);
        fits.then(|| KernelSpec::new(body.epilogue.clone(), schedule, OperandForm::of(kernel), device))
    }
}
