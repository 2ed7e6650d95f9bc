//! The last columns of a product, if they are too few for a vector: a sum of products along the rows of both matrices.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::matrix::{Matrix, TileMut};
use super::tiles::WIDEST;
use engine_core::op::simd::{Float, Lanes};
use std::ops::Range;

/// The most columns that are thin. More are faster as a vector.
const MOST: usize = 4;
/// The rows of a block.
pub(super) const ROWS: usize = 8;
/// Rows of at most so many bytes are read one after the other, which is the order in memory: at most 2 KiB by measurement.
/// Longer rows are read side by side.
const SHORT_BYTES: usize = 1 << 11;

/// How many of the last columns are thin, for a matrix A.
#[inline(always)]
pub fn n_columns<V: Lanes>(n_columns: usize, a: &Matrix<V::Scalar>) -> usize {
    let n_left = n_columns % V::N;
    let is_fast = a.column_stride == 1 && V::N >= ROWS && a.n_columns >= 4 * V::N && !V::IS_PAIRS;
    if is_fast && n_left <= MOST { n_left } else { 0 }
}

/// Copies some elements of a column.
///
/// # Panics
/// If there are more than fit.
#[inline(always)]
pub fn pack<T: Copy>(at: impl Fn(usize) -> T, rows: Range<usize>, out: &mut [T]) {
    out[..rows.len()].iter_mut().zip(rows).for_each(|(out, row)| *out = at(row));
}

/// `Σ_p rows[i][p] · x[p]` for each row.
///
/// # Safety
/// The rows and `x` must have `n` elements, and vectors at least as many lanes as there are rows; see [`Lanes`].
#[inline(always)]
pub unsafe fn sums_of_products<V: Lanes<Scalar: Float>>(
    rows: [*const V::Scalar; ROWS],
    x: *const V::Scalar,
    n: usize,
) -> [V::Scalar; ROWS] {
    let whole = n / V::N * V::N;
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [V::splat(V::Scalar::default()); ROWS];
        if n * size_of::<V::Scalar>() <= SHORT_BYTES {
            for i in 0..ROWS {
                for p in (0..whole).step_by(V::N) {
                    sums[i] = V::load(rows[i].add(p)).mul_add(V::load(x.add(p)), sums[i]);
                }
            }
        } else {
            for p in (0..whole).step_by(V::N) {
                let x = V::load(x.add(p));
                for i in 0..ROWS {
                    sums[i] = V::load(rows[i].add(p)).mul_add(x, sums[i]);
                }
            }
        }
        let mut sums = sums_of_lanes(sums);
        for p in whole..n {
            for i in 0..ROWS {
                sums[i] += *rows[i].add(p) * *x.add(p);
            }
        }
        sums
    }
}

/// A matrix A with unit column stride, and a column of B.
pub struct Thin<'a, T> {
    pub a: Matrix<'a, T>,
    pub b: &'a [T],
}

impl<T: Float> Thin<'_, T> {
    /// Sets a column of the result to the products, or adds them to it.
    #[inline(always)]
    pub fn run<V: Lanes<Scalar = T>>(&self, out: &mut TileMut<T>, column: usize, is_first: bool) {
        assert!(self.b.len() >= self.a.n_columns && self.a.column_stride == 1);
        for first in (0..self.a.n_rows).step_by(ROWS) {
            // Past the end the last row is read again.
            let rows = std::array::from_fn(|i| self.a.at((first + i).min(self.a.n_rows - 1), 0));
            // SAFETY: the rows are inside A, and the vectors belong to the instruction set that runs.
            let sums = unsafe { sums_of_products::<V>(rows, self.b.as_ptr(), self.a.n_columns) };
            for i in 0..ROWS.min(self.a.n_rows - first) {
                let out = &mut out.row(first + i)[column];
                if is_first { *out = sums[i] } else { *out += sums[i] }
            }
        }
    }
}

/// The sum of the lanes of each vector. Each round adds the halves of two vectors, whose lanes then alternate.
///
/// # Safety
/// Vectors must have at least as many lanes as there are of them; see [`Lanes`].
#[inline(always)]
unsafe fn sums_of_lanes<V: Lanes<Scalar: Float>>(mut vectors: [V; ROWS]) -> [V::Scalar; ROWS] {
    let mut n = ROWS;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            // SAFETY: the caller's.
            unsafe {
                let (low, high) = vectors[i].interleave(vectors[i + n]);
                vectors[i] = low.plus(high);
            }
        }
    }
    let mut lanes = [V::Scalar::default(); WIDEST];
    // SAFETY: the caller's; there is room for the widest vector.
    unsafe { vectors[0].store(lanes.as_mut_ptr()) };
    std::array::from_fn(|i| (i + ROWS..V::N).step_by(ROWS).fold(lanes[i], |sum, lane| sum + lanes[lane]))
}
