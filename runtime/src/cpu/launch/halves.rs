//! Operands of half precision. Of bf16, two neighbours along the contracted axis stand in the place of one `f32`: an operand
//! whose neighbours lie side by side is read where it is, in half the bytes, and others are copied as such pairs. One
//! instruction multiplies pairs on some processors (AVX512-BF16), or tiles of them (AMX); on others, registers are split.
//! Operands of f16 are copied to `f32`.

use super::super::interp::{Buffer, View, cast};
use super::super::memory::Memory;
use super::super::pool::Pool;
use super::call::Call;
use super::scratch::WorkerScratch;
use crate::device::DeviceError;
use engine_core::fusion::{MatmulBody, MatrixOperand, Side};
use engine_core::ir::DType;
use engine_core::op::simd::has_pairs;
use engine_numerics::gemm::{Matrix, has_tiles};

/// The numbers that are converted at a time.
const BLOCK: usize = 256;
/// The rows of a copy whose numbers are read together, as neighbours.
const TURNED: usize = 16;

/// Both operands of a product of half precision.
pub struct Halves {
    is_pairs: bool,
    sides: [Half; 2],
}

/// An operand as a matrix of `f32` or of pairs.
struct Half {
    /// The operand, as it is given.
    given: Given,
    /// The copy, if it is not read where it is.
    copy: Option<Memory>,
    /// Where elements lie, in the copy or in the operand.
    offset: i64,
    batch: i64,
    strides: [i64; 2],
    shape: [usize; 2],
}

/// An operand in memory: elements along the contracted axis and along the other one.
#[derive(Clone, Copy)]
struct Given {
    operand: MatrixOperand,
    n_batches: usize,
    n_contracted: usize,
    n_others: usize,
    contracted: i64,
    other: i64,
    /// Whether rows of the copy run along the contracted axis, although other elements are neighbours.
    is_turned: bool,
}

impl Given {
    fn new(body: &MatmulBody, side: Side, is_pairs: bool) -> Given {
        let (operand, n_others, contracted, other) = match side {
            Side::Lhs => (body.lhs, body.m, body.lhs.col, body.lhs.row),
            Side::Rhs => (body.rhs, body.n, body.rhs.row, body.rhs.col),
        };
        // Tiles of AMX take rows of the left matrix whose pairs are neighbours.
        let is_turned = is_pairs && side == Side::Lhs && other == 1 && n_others >= TURNED && has_tiles();
        Given { operand, n_batches: body.batch, n_contracted: body.k, n_others, contracted, other, is_turned }
    }

    /// Whether rows of a copy run along the other axis.
    fn is_across(&self) -> bool {
        self.other == 1 && !self.is_turned
    }

    /// Whether pairs lie side by side, at even places.
    fn is_of_pairs(&self) -> bool {
        let MatrixOperand { offset, batch, .. } = self.operand;
        let is_even = [offset, batch, self.other, self.n_contracted as i64].iter().all(|x| x % 2 == 0);
        is_even && self.contracted == 1
    }

    /// The numbers or pairs along the contracted axis.
    fn n_along(&self, is_pairs: bool) -> usize {
        if is_pairs { self.n_contracted.div_ceil(2) } else { self.n_contracted }
    }

    /// The number of rows of a copy, and their length. Rows run along the axis whose elements are neighbours, unless they are
    /// turned.
    fn rows_of_copy(&self, is_pairs: bool) -> [usize; 2] {
        let n = self.n_along(is_pairs);
        if self.is_across() { [n, self.n_others] } else { [self.n_others, n] }
    }
}

impl Halves {
    /// The operands of a product, if they are of half precision.
    ///
    /// # Errors
    /// If memory for copies does not suffice.
    pub fn new(body: &MatmulBody) -> Result<Option<Halves>, DeviceError> {
        if body.dtype.accumulator() == body.dtype {
            return Ok(None);
        }
        // Sums beside the product read both operands in `f32`.
        let is_pairs = body.dtype == DType::BF16 && body.side_sums.is_empty() && has_pairs();
        let side = |side: Side| Half::new(Given::new(body, side, is_pairs), is_pairs, side);
        Ok(Some(Halves { is_pairs, sides: [side(Side::Lhs)?, side(Side::Rhs)?] }))
    }

    /// Whether matrices are of pairs.
    pub fn is_pairs(&self) -> bool {
        self.is_pairs
    }

    /// One matrix of an operand: numbers, or pairs as `f32` of the same bits.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and no worker may write the operand meanwhile.
    pub unsafe fn matrix<'a, T>(&'a self, buffers: &[Buffer], side: Side, batch: usize) -> Matrix<'a, T> {
        let half = &self.sides[side as usize];
        let (start, bytes) = match &half.copy {
            Some(copy) => (copy.start(), copy.bytes()),
            None => {
                let buffer = buffers[half.given.operand.operand];
                (buffer.start, 2 * buffer.len)
            }
        };
        // SAFETY: the caller's: there are as many bytes, and pairs lie at even places.
        let elements = unsafe { std::slice::from_raw_parts(start.cast::<T>(), bytes / size_of::<T>()) };
        let offset = half.offset + batch as i64 * half.batch;
        Matrix::new(elements, offset as isize, half.shape, half.strides.map(|stride| stride as isize))
    }

    /// Fills the copies.
    ///
    /// # Safety
    /// As for [`Halves::matrix`].
    pub unsafe fn copy(&self, dtype: DType, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        for half in &self.sides {
            let Some(copy) = &half.copy else { continue };
            let (given, start) = (half.given, copy.start() as usize);
            let source = call.buffers[given.operand.operand];
            let [n_rows, row] = given.rows_of_copy(self.is_pairs);
            let height = if given.is_turned { TURNED } else { 1 };
            let n_chunks = n_rows.div_ceil(height);
            pool.run_with(given.n_batches * n_chunks, workers, |chunk, _| {
                // The closure captures the whole buffer, because its pointer alone is not `Send`.
                let source: Buffer = source;
                let (batch, row_idx) = (chunk / n_chunks, chunk % n_chunks * height);
                let out = (start as *mut u8).wrapping_add(4 * (batch * n_rows + row_idx) * row);
                // SAFETY: the caller's: a buffer of half-precision numbers. Rows of the copy are disjoint.
                unsafe {
                    let halves = std::slice::from_raw_parts(source.start.cast::<u16>(), source.len);
                    let first = given.operand.offset + batch as i64 * given.operand.batch;
                    let n_copied = height.min(n_rows - row_idx);
                    let row_idx = row_idx as i64;
                    if self.is_pairs {
                        let out = std::slice::from_raw_parts_mut(out.cast::<u32>(), n_copied * row);
                        return match given.is_turned {
                            true => turn_pairs(&given, halves, first + row_idx, row, out),
                            false => copy_pairs(&given, halves, [first, row_idx], out),
                        };
                    }
                    let (across, along) = match given.other {
                        1 => (given.contracted, 1),
                        other => (other, given.contracted),
                    };
                    widen(dtype, halves, [first + row_idx * across, along], row, out);
                }
            });
        }
    }
}

impl Half {
    /// Pairs of the operand where it is, or a copy of it.
    fn new(given: Given, is_pairs: bool, side: Side) -> Result<Half, DeviceError> {
        let n = given.n_along(is_pairs);
        let [n_rows, row] = given.rows_of_copy(is_pairs);
        let MatrixOperand { offset, batch, .. } = given.operand;
        let (copy, [offset, batch, contracted, other]) = if is_pairs && given.is_of_pairs() {
            (None, [offset / 2, batch / 2, 1, given.other / 2])
        } else {
            let [contracted, other] = if given.is_across() { [row as i64, 1] } else { [1, row as i64] };
            let copy = Memory::new(4 * given.n_batches * n_rows * row)?;
            (Some(copy), [0, (n_rows * row) as i64, contracted, other])
        };
        let (strides, shape) = match side {
            Side::Lhs => ([other, contracted], [given.n_others, n]),
            Side::Rhs => ([contracted, other], [n, given.n_others]),
        };
        Ok(Half { given, copy, offset, batch, strides, shape })
    }
}

/// A pair of bf16 as one word.
fn pair(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Copies rows of `length` pairs whose numbers are neighbours across the rows; `first` is that of the first row.
fn turn_pairs(given: &Given, halves: &[u16], first: i64, length: usize, out: &mut [u32]) {
    let n_rows = out.len() / length.max(1);
    let numbers = |p: usize| &halves[(first + p as i64 * given.contracted) as usize..][..n_rows];
    let zeros = [0; TURNED];
    for place in 0..length {
        let (low, p) = (numbers(2 * place), 2 * place + 1);
        let high = if p < given.n_contracted { numbers(p) } else { &zeros[..n_rows] };
        for (row, (low, high)) in low.iter().zip(high).enumerate() {
            out[row * length + place] = pair(*low, *high);
        }
    }
}

/// Copies a row of pairs. Zero follows the last of an odd number.
fn copy_pairs(given: &Given, halves: &[u16], [first, row]: [i64; 2], out: &mut [u32]) {
    let end = given.n_contracted as i64;
    if given.is_across() {
        let n = out.len();
        let numbers = |p: i64| &halves[(first + p * given.contracted) as usize..][..n];
        let low = out.iter_mut().zip(numbers(2 * row));
        match 2 * row + 1 < end {
            true => low.zip(numbers(2 * row + 1)).for_each(|((out, low), high)| *out = pair(*low, *high)),
            false => low.for_each(|(out, low)| *out = pair(*low, 0)),
        }
        return;
    }
    let start = first + row * given.other;
    let at = |p: i64| if p < end { halves[(start + p * given.contracted) as usize] } else { 0 };
    (0..).zip(out).for_each(|(p, out)| *out = pair(at(2 * p), at(2 * p + 1)));
}

/// Converts `n` numbers, the first one and those in strides behind it, to `f32`.
///
/// # Safety
/// `out` must be valid for `n` numbers.
unsafe fn widen(dtype: DType, halves: &[u16], [first, stride]: [i64; 2], n: usize, out: *mut u8) {
    let mut dense = [0u16; BLOCK];
    for begin in (0..n).step_by(BLOCK) {
        let dense = &mut dense[..BLOCK.min(n - begin)];
        for (i, half) in dense.iter_mut().enumerate() {
            *half = halves[(first + (begin + i) as i64 * stride) as usize];
        }
        let view = View { start: dense.as_ptr().cast(), is_scalar: false };
        // SAFETY: the caller's.
        unsafe { cast(dtype, DType::F32, view, out.wrapping_add(4 * begin), dense.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turned_rows_are_the_columns_of_rows_across() {
        let n_others = TURNED + 4;
        for n_contracted in [1, 6, 7] {
            let operand = MatrixOperand { operand: 0, offset: 0, batch: 0, row: 1, col: n_others as i64 };
            let (contracted, other) = (operand.col, operand.row);
            let across =
                Given { operand, n_batches: 1, n_contracted, n_others, contracted, other, is_turned: false };
            let turned = Given { is_turned: true, ..across };
            let halves: Vec<u16> = (1..=n_others * n_contracted).map(|i| i as u16).collect();
            let ([length, _], [n_rows, _]) = (across.rows_of_copy(true), turned.rows_of_copy(true));
            assert_eq!((length, n_rows), (n_contracted.div_ceil(2), n_others));
            let [mut rows, mut columns] = [0, 0].map(|zero| vec![zero; length * n_others]);
            for (place, row) in columns.chunks_mut(n_others).enumerate() {
                copy_pairs(&across, &halves, [0, place as i64], row);
            }
            for (block, rows) in rows.chunks_mut(TURNED * length).enumerate() {
                turn_pairs(&turned, &halves, (block * TURNED) as i64, length, rows);
            }
            for (i, pair) in rows.iter().enumerate() {
                assert_eq!(*pair, columns[i % length * n_others + i / length], "{n_contracted}, pair {i}");
            }
        }
    }
}
