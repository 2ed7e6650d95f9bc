//! The product of one tile.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::super::simd::isa::{Float, Isa, Kernel, dispatch};
use super::super::simd::lanes::Lanes;
use super::matrix::{Matrix, TileMut};
use super::tiles::{MAX_ROWS, STRIP, WIDEST};
use super::uneven::Right;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::Range;

/// Longest run along the contracted axis between two visits to the output.
const RUN: usize = 256;

/// The columns of a panel.
const PANEL: usize = 256;
/// The bytes of a matrix that lies in memory rather than in a cache of one core.
const FAR: usize = 1 << 20;

/// The packed strips of B, with room for a vector behind them, and a register block at the edge; one for each worker.
#[repr(align(64))]
pub struct Scratch<T> {
    panel: [T; RUN * PANEL + STRIP],
    edge: [T; MAX_ROWS * STRIP],
}

impl<T: Float> Scratch<T> {
    /// Scratch memory for one worker, whose pages are taken when they are used.
    pub fn new() -> Box<Scratch<T>> {
        let layout = Layout::new::<Scratch<T>>();
        // SAFETY: the layout is not empty; floats of zero bits are zeros; the box frees the memory with this layout.
        unsafe {
            let start = alloc_zeroed(layout).cast::<Scratch<T>>();
            if start.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(start)
        }
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
    if a.n_columns == 0 {
        (0..out.n_rows).for_each(|row_idx| out.row(row_idx).fill(T::default()));
    }
    run_tile(TileKernel { scratch, a, b: b.into(), out, is_added: false });
}

/// `out += a · b`, on the calling thread; shapes as for [`gemm_tile`].
///
/// # Panics
/// If shapes differ.
pub fn add_gemm_tile<T: Float>(scratch: &mut Scratch<T>, a: Matrix<T>, b: Matrix<T>, out: &mut TileMut<T>) {
    run_tile(TileKernel { scratch, a, b: b.into(), out, is_added: true });
}

fn run_tile<T: Float>(kernel: TileKernel<T>) {
    let [k, n] = kernel.b.shape();
    let (a, out) = (kernel.a, &kernel.out);
    assert_eq!((a.n_rows, n, a.n_columns), (out.n_rows, out.n_columns, k));
    dispatch(kernel);
}

/// A tile as a loop of an instruction set.
pub(super) struct TileKernel<'a, 'b, T> {
    pub scratch: &'a mut Scratch<T>,
    pub a: Matrix<'a, T>,
    pub b: Right<'a, T>,
    pub out: &'a mut TileMut<'b, T>,
    /// Whether the product is added to the tile.
    pub is_added: bool,
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
        let panel = if self.is_far() { PANEL } else { 2 * V::N };
        for column in (0..n).step_by(panel) {
            let columns = column..(column + panel).min(n);
            for depth in (0..k).step_by(RUN) {
                let depths = depth..(depth + RUN).min(k);
                self.pack::<V>(depths.clone(), columns.clone());
                for first in columns.clone().step_by(2 * V::N) {
                    let n_columns = (columns.end - first).min(2 * V::N);
                    let start = (first - column) * depths.len();
                    let strip = Strip { column: first, n_columns, depth, run: depths.len(), start };
                    if n_columns <= V::N {
                        self.run_strip::<V, 1>(strip)
                    } else {
                        self.run_strip::<V, 2>(strip)
                    }
                }
            }
        }
    }

    /// Whether a whole panel of B is packed before it is multiplied: if B lies in memory as rows, which are read fastest
    /// along a row, or A lies in memory and would be read again for each strip.
    fn is_far(&self) -> bool {
        let is_far = |n_elements: usize| n_elements * size_of::<T>() > FAR;
        let b_is_far = matches!(self.b, Right::Even(b) if b.column_stride == 1
            && is_far(b.n_rows * b.row_stride.unsigned_abs()));
        b_is_far || is_far(2 * self.a.n_rows * self.a.n_columns)
    }

    /// Packs some rows and columns of B as strips, padded with zeros to whole vectors.
    #[inline(always)]
    fn pack<V: Lanes<Scalar = T>>(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let mut first = columns.start;
        if let Right::Even(b) = self.b
            && b.column_stride == 1
        {
            first += pack_rows::<V>(b.part(rows.clone(), columns.clone()), &mut self.scratch.panel);
        }
        for column in (first..columns.end).step_by(2 * V::N) {
            let out = &mut self.scratch.panel[(column - columns.start) * rows.len()..];
            let columns = column..(column + 2 * V::N).min(columns.end);
            match self.b {
                Right::Even(b) => pack_strip::<V>(b.part(rows.clone(), columns), out),
                Right::Uneven(b) => b.pack::<V>(rows.clone(), columns, out),
            }
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
        let is_first = strip.depth == 0 && !self.is_added;
        // SAFETY: `Matrix` and `TileMut` hold their shapes in bounds and `gemm_tile` compared them; the strip is
        // packed for this run; `V` belongs to the instruction set that `dispatch` found.
        unsafe {
            let a = self.a.at(row, strip.depth);
            let sums = sum_products::<V, R, NV>(
                a,
                row_stride,
                column_stride,
                self.scratch.panel.as_ptr().add(strip.start),
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

/// Copies a matrix to rows of two vectors, padded with zeros.
#[inline(always)]
fn pack_strip<V: Lanes>(b: Matrix<V::Scalar>, out: &mut [V::Scalar]) {
    if b.row_stride == 1 && b.n_columns == 2 * V::N {
        return copy_transposed::<V>(b, out);
    }
    for (p, row) in out.chunks_exact_mut(2 * V::N).take(b.n_rows).enumerate() {
        let (values, padding) = row.split_at_mut(b.n_columns);
        for (j, value) in values.iter_mut().enumerate() {
            // SAFETY: inside the matrix.
            *value = unsafe { *b.at(p, j) };
        }
        padding.fill(V::Scalar::default());
    }
}

/// Copies a matrix with unit row stride to rows of two vectors, in square blocks that are transposed in registers.
#[inline(always)]
fn copy_transposed<V: Lanes>(b: Matrix<V::Scalar>, out: &mut [V::Scalar]) {
    let width = 2 * V::N;
    assert!(b.n_columns == width && out.len() >= b.n_rows * width);
    let (whole, start) = (b.n_rows / V::N * V::N, out.as_mut_ptr());
    for p in (0..whole).step_by(V::N) {
        for j in [0, V::N] {
            // SAFETY: a column of a matrix with unit row stride is a slice; `out` has as many rows of two vectors.
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
fn pack_rows<V: Lanes>(b: Matrix<V::Scalar>, out: &mut [V::Scalar]) -> usize {
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

/// Columns `column..column + n_columns` of B, rows `depth..depth + run`, packed from element `start` of the panel on.
#[derive(Clone, Copy)]
struct Strip {
    column: usize,
    n_columns: usize,
    depth: usize,
    run: usize,
    start: usize,
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
