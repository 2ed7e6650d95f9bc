//! The product of one tile.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::super::simd::isa::{Float, Isa, Kernel, dispatch};
use super::super::simd::lanes::Lanes;
use super::matrix::{Matrix, TileMut};
use super::tiles::{MAX_ROWS, STRIP};
use super::uneven::Right;

/// Longest run along the contracted axis between two visits to the output.
const RUN: usize = 256;

/// The packed strip of B, with room for a vector behind it, and a register block at the edge; one for each worker.
#[repr(align(64))]
pub struct Scratch<T> {
    strip: [T; (RUN + 1) * STRIP],
    edge: [T; MAX_ROWS * STRIP],
}

impl<T: Float> Scratch<T> {
    /// Scratch memory for one worker.
    pub fn new() -> Box<Scratch<T>> {
        Box::new(Scratch { strip: [T::default(); (RUN + 1) * STRIP], edge: [T::default(); MAX_ROWS * STRIP] })
    }
}

/// `out = a · b`, on the calling thread.
///
/// Shapes: a `[m, k]`, b `[k, n]`, out `[m, n]`. With `k = 0` the product is 0.
///
/// # Panics
/// If shapes differ.
pub fn gemm_tile<'a, T: Float>(
    scratch: &mut Scratch<T>,
    a: Matrix<'a, T>,
    b: impl Into<Right<'a, T>>,
    out: &mut TileMut<T>,
) {
    let b = b.into();
    let [k, n] = b.shape();
    assert_eq!((a.n_rows, n, a.n_columns), (out.n_rows, out.n_columns, k));
    if k == 0 {
        (0..out.n_rows).for_each(|row_idx| out.row(row_idx).fill(T::default()));
    }
    dispatch(TileKernel { scratch, a, b, out });
}

/// A tile as a loop of an instruction set.
pub(super) struct TileKernel<'a, 'b, T> {
    pub scratch: &'a mut Scratch<T>,
    pub a: Matrix<'a, T>,
    pub b: Right<'a, T>,
    pub out: &'a mut TileMut<'b, T>,
}

impl<T: Float> Kernel for TileKernel<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        self.run_lanes::<T::Vector<I>>();
    }
}

impl<T: Float> TileKernel<'_, '_, T> {
    #[inline(always)]
    fn run_lanes<V: Lanes<Scalar = T>>(mut self) {
        let (n, k) = (self.out.n_columns, self.a.n_columns);
        for column in (0..n).step_by(2 * V::N) {
            let n_columns = (n - column).min(2 * V::N);
            for depth in (0..k).step_by(RUN) {
                let strip = Strip { column, n_columns, depth, run: (k - depth).min(RUN) };
                self.copy_strip::<V>(strip);
                if n_columns <= V::N { self.run_strip::<V, 1>(strip) } else { self.run_strip::<V, 2>(strip) }
            }
        }
    }

    /// Packs a strip of B, padded with zeros to whole vectors.
    #[inline(always)]
    fn copy_strip<V: Lanes<Scalar = T>>(&mut self, strip: Strip) {
        let rows = strip.depth..strip.depth + strip.run;
        let columns = strip.column..strip.column + strip.n_columns;
        let b = match self.b {
            Right::Even(b) => b.part(rows, columns),
            Right::Uneven(b) => return b.pack::<V>(rows, columns, &mut self.scratch.strip),
        };
        let rows = self.scratch.strip.chunks_exact_mut(2 * V::N).take(strip.run);
        if b.row_stride == 1 && strip.n_columns == 2 * V::N {
            return copy_transposed(b, &mut self.scratch.strip, 2 * V::N);
        }
        for (p, row) in rows.enumerate() {
            let (values, padding) = row.split_at_mut(strip.n_columns);
            if b.column_stride == 1 {
                // SAFETY: a row of a matrix with unit column stride is a slice.
                values.copy_from_slice(unsafe { std::slice::from_raw_parts(b.at(p, 0), strip.n_columns) });
            } else {
                for (j, value) in values.iter_mut().enumerate() {
                    // SAFETY: inside the matrix.
                    *value = unsafe { *b.at(p, j) };
                }
            }
            padding.fill(T::default());
        }
    }

    #[inline(always)]
    fn run_strip<V: Lanes<Scalar = T>, const NV: usize>(&mut self, strip: Strip) {
        let m = self.out.n_rows;
        for row in (0..m).step_by(V::ROWS) {
            match (m - row).min(V::ROWS) {
                1 => self.run_block::<V, 1, NV>(strip, row),
                2 => self.run_block::<V, 2, NV>(strip, row),
                3 => self.run_block::<V, 3, NV>(strip, row),
                4 => self.run_block::<V, 4, NV>(strip, row),
                5 => self.run_block::<V, 5, NV>(strip, row),
                6 => self.run_block::<V, 6, NV>(strip, row),
                7 => self.run_block::<V, 7, NV>(strip, row),
                _ => self.run_block::<V, 8, NV>(strip, row),
            }
        }
    }

    /// One register block: `R` rows of `NV` vectors.
    #[inline(always)]
    fn run_block<V: Lanes<Scalar = T>, const R: usize, const NV: usize>(&mut self, strip: Strip, row: usize) {
        let Matrix { row_stride, column_stride, .. } = self.a;
        let is_first = strip.depth == 0;
        // SAFETY: `Matrix` and `TileMut` hold their shapes in bounds and `gemm_tile` compared them; the strip is
        // packed for this run; `V` belongs to the instruction set that `dispatch` found.
        unsafe {
            let a = self.a.at(row, strip.depth);
            let sums = sum_products::<V, R, NV>(
                a,
                row_stride,
                column_stride,
                self.scratch.strip.as_ptr(),
                strip.run,
            );
            let out = self.out.start.add(row * self.out.row_stride + strip.column);
            if strip.n_columns == NV * V::N {
                store_block(sums, out, self.out.row_stride, is_first);
            } else {
                store_block(sums, self.scratch.edge.as_mut_ptr(), NV * V::N, true);
                self.copy_edge::<R>(out, strip.n_columns, NV * V::N, is_first);
            }
        }
    }

    /// # Safety
    /// `out` must be valid for `R` rows of `n_columns`.
    #[inline(always)]
    unsafe fn copy_edge<const R: usize>(
        &self,
        out: *mut T,
        n_columns: usize,
        edge_stride: usize,
        is_first: bool,
    ) {
        for i in 0..R {
            for j in 0..n_columns {
                let value = self.scratch.edge[i * edge_stride + j];
                // SAFETY: the caller's.
                let out = unsafe { &mut *out.add(i * self.out.row_stride + j) };
                if is_first { *out = value } else { *out += value }
            }
        }
    }
}

/// Copies a matrix with unit row stride to rows of `width`, in blocks that touch each cache line once.
#[inline(always)]
fn copy_transposed<T: Float>(b: Matrix<T>, out: &mut [T], width: usize) {
    const BLOCK: usize = 16;
    for first in (0..b.n_rows).step_by(BLOCK) {
        let n = (b.n_rows - first).min(BLOCK);
        for j in 0..b.n_columns {
            // SAFETY: a column of a matrix with unit row stride is a slice.
            let column = unsafe { std::slice::from_raw_parts(b.at(first, j), n) };
            for (out, &value) in out[first * width..].chunks_exact_mut(width).zip(column) {
                out[j] = value;
            }
        }
    }
}

/// Columns `column..column + n_columns` of B, rows `depth..depth + run`.
#[derive(Clone, Copy)]
struct Strip {
    column: usize,
    n_columns: usize,
    depth: usize,
    run: usize,
}

/// # Safety
/// `a` must be valid for `R × run` elements at its strides, `strip` for `run` rows of two vectors; see [`Lanes`].
#[inline(always)]
unsafe fn sum_products<V: Lanes, const R: usize, const NV: usize>(
    a: *const V::Scalar,
    row_stride: isize,
    column_stride: isize,
    strip: *const V::Scalar,
    run: usize,
) -> [[V; NV]; R] {
    // SAFETY: the caller's.
    unsafe {
        let zero = V::splat(V::Scalar::default());
        let mut sums = [[zero; NV]; R];
        for p in 0..run {
            let mut b = [zero; NV];
            for v in 0..NV {
                b[v] = V::load(strip.add(p * 2 * V::N + v * V::N));
            }
            for i in 0..R {
                let a = V::splat(*a.offset(i as isize * row_stride + p as isize * column_stride));
                for v in 0..NV {
                    sums[i][v] = a.mul_add(b[v], sums[i][v]);
                }
            }
        }
        sums
    }
}

/// # Safety
/// `out` must be valid for `R` rows of `NV` vectors; see [`Lanes`].
#[inline(always)]
unsafe fn store_block<V: Lanes, const R: usize, const NV: usize>(
    sums: [[V; NV]; R],
    out: *mut V::Scalar,
    row_stride: usize,
    is_first: bool,
) {
    for i in 0..R {
        for v in 0..NV {
            // SAFETY: the caller's.
            unsafe {
                let out = out.add(i * row_stride + v * V::N);
                let sum = if is_first { sums[i][v] } else { sums[i][v].plus(V::load(out)) };
                sum.store(out);
            }
        }
    }
}
