//! Packing of matrices with even strides.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::matrix::Matrix;
use super::tiles::{MAX_ROWS, WIDEST};
use engine_core::op::simd::Lanes;

/// Copies a matrix to rows of `width` elements, which are whole vectors. What lies behind the columns has no meaning.
#[inline(always)]
pub(super) fn pack_strip<V: Lanes>(b: Matrix<V::Scalar>, width: usize, out: &mut [V::Scalar]) {
    assert!(b.n_columns <= width && width.is_multiple_of(V::N) && out.len() >= b.n_rows * width);
    if b.row_stride == 1 && b.n_columns == width {
        return copy_transposed::<V>(b, out);
    }
    let whole = if b.column_stride == 1 { b.n_columns / V::N * V::N } else { 0 };
    for (p, row) in out.chunks_exact_mut(width).take(b.n_rows).enumerate() {
        for j in (0..whole).step_by(V::N) {
            // SAFETY: the vector is inside a row of the matrix, and inside the row of `out`.
            unsafe { V::load(b.at(p, j)).store(row.as_mut_ptr().add(j)) };
        }
        for j in whole..b.n_columns {
            // SAFETY: inside the matrix.
            row[j] = unsafe { *b.at(p, j) };
        }
    }
}

/// Copies a matrix with unit row stride and columns of whole vectors to its rows, in square blocks that are transposed in
/// registers.
#[inline(always)]
fn copy_transposed<V: Lanes>(b: Matrix<V::Scalar>, out: &mut [V::Scalar]) {
    let width = b.n_columns;
    let (whole, start) = (b.n_rows / V::N * V::N, out.as_mut_ptr());
    for p in (0..whole).step_by(V::N) {
        for j in (0..width).step_by(V::N) {
            // SAFETY: a column of a matrix with unit row stride is a slice; `out` has as many rows.
            unsafe { transpose::<V>(|i| b.at(p, j + i), |i| start.wrapping_add((p + i) * width + j)) };
        }
    }
    for p in whole..b.n_rows {
        for j in 0..width {
            // SAFETY: inside the matrix.
            out[p * width + j] = unsafe { *b.at(p, j) };
        }
    }
}

/// Transposes a square block: the vectors at `from` are its columns, those at `to` its rows.
///
/// # Safety
/// The pointers must be valid for a vector; see [`Lanes`].
#[inline(always)]
unsafe fn transpose<V: Lanes>(
    from: impl Fn(usize) -> *const V::Scalar,
    to: impl Fn(usize) -> *mut V::Scalar,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut block = [V::splat(V::Scalar::default()); WIDEST];
        for i in 0..V::N {
            block[i] = V::load(from(i));
        }
        // Each round doubles the number of columns whose elements of one row are neighbours.
        let mut n_joined = 1;
        while n_joined < V::N {
            let halves = block;
            for i in 0..V::N / 2 {
                (block[2 * i], block[2 * i + 1]) = halves[i].interleave(halves[i + V::N / 2]);
            }
            n_joined *= 2;
        }
        for i in 0..V::N {
            block[i].store(to(i));
        }
    }
}

/// Packs the rows of a matrix as strips, as far as they fill strips; returns the number of those columns. A whole panel is
/// packed at a time, because memory is read fastest in long rows.
#[inline(always)]
pub(super) fn pack_rows<V: Lanes>(b: Matrix<V::Scalar>, out: &mut [V::Scalar]) -> usize {
    let width = 2 * V::N;
    let n_strips = b.n_columns / width;
    assert!(out.len() >= n_strips * b.n_rows * width);
    for p in 0..b.n_rows {
        for strip in 0..n_strips {
            // SAFETY: both vectors are inside a row of the matrix, and inside `out` by the assertion.
            unsafe {
                let (from, to) =
                    (b.at(p, strip * width), out.as_mut_ptr().add((strip * b.n_rows + p) * width));
                V::load(from).store(to);
                V::load(from.add(V::N)).store(to.add(V::N));
            }
        }
    }
    n_strips * width
}

/// Packs the rows of a matrix in blocks of as many as a register block has. The elements of a step are neighbours, those of
/// the next step lie [`MAX_ROWS`] behind.
#[inline(always)]
pub(super) fn pack_blocks<V: Lanes>(a: Matrix<V::Scalar>, out: &mut [V::Scalar]) {
    let [m, run] = a.shape();
    assert!(out.len() >= m.div_ceil(V::ROWS) * run * MAX_ROWS);
    for p in 0..run {
        for (block, first) in (0..m).step_by(V::ROWS).enumerate() {
            let n = (m - first).min(V::ROWS);
            // SAFETY: the rows are inside the matrix; `out` has room for all blocks by the assertion.
            unsafe {
                let to = out.as_mut_ptr().add((block * run + p) * MAX_ROWS);
                if a.row_stride == 1 && n == V::ROWS {
                    to.copy_from_nonoverlapping(a.at(first, p), V::ROWS);
                } else {
                    (0..n).for_each(|i| *to.add(i) = *a.at(first + i, p));
                }
            }
        }
    }
}
