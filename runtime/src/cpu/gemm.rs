//! Matrix products, one output tile at a time.
//!
//! The output is cut into tiles by [`Tiles`], from the shape alone; a tile is computed by one worker, start to end,
//! so its caller can go on with it while it is hot (bias, activation, the sum of its columns). Operands have any
//! strides: transposing costs nothing to ask for. No call allocates: a worker brings its [`Scratch`].
//!
//! Inside a tile a strip of columns of B, as wide as two vectors, is copied densely for a run of up to 256 rows, and
//! stays in the first-level cache while blocks of up to 8 rows of A pass over it with their sums in registers.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::isa::{Isa, Kernel, dispatch};
use super::pool::Pool;
use std::marker::PhantomData;
use std::ops::Range;

/// A matrix in a slice: element (i, j) is `data[offset + i·row_stride + j·column_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    start: *const T,
    n_rows: usize,
    n_columns: usize,
    row_stride: isize,
    column_stride: isize,
    owner: PhantomData<&'a [T]>,
}

// SAFETY: a matrix is a shared view, like a slice.
unsafe impl<T: Sync> Send for Matrix<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Matrix<'_, T> {}

impl<'a, T> Matrix<'a, T> {
    /// A view of a slice; strides may be 0 or negative.
    ///
    /// # Panics
    /// If an element would lie outside the slice.
    pub fn new(data: &'a [T], offset: isize, [n_rows, n_columns]: [usize; 2], strides: [isize; 2]) -> Self {
        let [row_stride, column_stride] = strides;
        let reach = |count: usize, stride: isize| (count as isize - 1) * stride;
        let (rows, columns) = (reach(n_rows, row_stride), reach(n_columns, column_stride));
        let is_empty = n_rows == 0 || n_columns == 0;
        let first = offset + rows.min(0) + columns.min(0);
        let last = offset + rows.max(0) + columns.max(0);
        assert!(is_empty || (0 <= first && last < data.len() as isize), "a matrix reaches out of its slice");
        let start = data.as_ptr().wrapping_offset(offset);
        Matrix { start, n_rows, n_columns, row_stride, column_stride, owner: PhantomData }
    }

    /// A row-major view.
    ///
    /// # Panics
    /// If an element would lie outside the slice.
    pub fn row_major(data: &'a [T], n_rows: usize, n_columns: usize) -> Self {
        Matrix::new(data, 0, [n_rows, n_columns], [n_columns as isize, 1])
    }

    /// The same data with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Matrix {
            n_rows: self.n_columns,
            n_columns: self.n_rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Some of its rows and columns.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.end <= self.n_rows && columns.end <= self.n_columns);
        let start = self.at(rows.start, columns.start);
        Matrix { start, n_rows: rows.len(), n_columns: columns.len(), ..self }
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.n_rows, self.n_columns]
    }

    /// Elements from row to row, and from column to column.
    pub fn strides(&self) -> [isize; 2] {
        [self.row_stride, self.column_stride]
    }

    /// Where an element lies; inside the slice if there is such a row and column.
    pub fn at(&self, row: usize, column: usize) -> *const T {
        self.start.wrapping_offset(row as isize * self.row_stride + column as isize * self.column_stride)
    }
}

/// A part of a row-major matrix that one worker writes.
#[derive(Debug)]
pub struct TileMut<'a, T> {
    start: *mut T,
    n_rows: usize,
    n_columns: usize,
    row_stride: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: a tile is the only access to its elements, like a mutable slice.
unsafe impl<T: Send> Send for TileMut<'_, T> {}

impl<'a, T> TileMut<'a, T> {
    /// A whole matrix as one tile, its rows `row_stride` elements apart.
    ///
    /// # Panics
    /// If an element would lie outside the slice, or rows would overlap.
    pub fn new(data: &'a mut [T], n_rows: usize, n_columns: usize, row_stride: usize) -> Self {
        assert!(n_rows == 0 || (n_rows - 1) * row_stride + n_columns <= data.len());
        assert!(n_columns <= row_stride || n_rows <= 1);
        TileMut { start: data.as_mut_ptr(), n_rows, n_columns, row_stride, owner: PhantomData }
    }

    /// A tile at an address.
    ///
    /// # Safety
    /// The rows must be valid for writes, and nothing else may use them while the tile lives.
    pub unsafe fn from_raw(start: *mut T, n_rows: usize, n_columns: usize, row_stride: usize) -> Self {
        TileMut { start, n_rows, n_columns, row_stride, owner: PhantomData }
    }

    /// How many rows the tile has.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// How many columns the tile has.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// One row of the tile.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&mut self, row_idx: usize) -> &mut [T] {
        assert!(row_idx < self.n_rows);
        // SAFETY: the row is inside the tile, and the tile is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row_idx * self.row_stride), self.n_columns) }
    }

    /// # Safety
    /// Parts that live at the same time must not overlap.
    unsafe fn part(&self, rows: Range<usize>, columns: Range<usize>) -> TileMut<'_, T> {
        debug_assert!(rows.end <= self.n_rows && columns.end <= self.n_columns);
        // SAFETY: within the tile, as asserted; `Tiles` makes ranges inside its shape.
        let start = unsafe { self.start.add(rows.start * self.row_stride + columns.start) };
        TileMut { start, n_rows: rows.len(), n_columns: columns.len(), ..*self }
    }
}

/// How the output of a product is cut: from its shape alone, so that results and work do not depend on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    n_rows: usize,
    n_columns: usize,
    rows: usize,
    columns: usize,
}

impl Tiles {
    /// The cut of an `m × n` output with `k` products an element. With `whole_rows` a tile spans all columns, for
    /// whoever goes on with rows.
    ///
    /// About eight tiles, but none with less than about 100 000 multiplications, which take less time than handing
    /// them out, and none beyond 256 × 256. Columns are cut first: then each strip of B is copied once.
    pub fn new(m: usize, n: usize, k: usize, whole_rows: bool) -> Tiles {
        let n_tiles = (m * n * k / MIN_PRODUCTS).clamp(1, 8);
        let n_column_tiles =
            if whole_rows { 1 } else { n_tiles.max(n.div_ceil(256)).min(n.div_ceil(STRIP)).max(1) };
        let columns = n.div_ceil(n_column_tiles).next_multiple_of(if whole_rows { 1 } else { STRIP }).max(1);
        let rows =
            m.div_ceil(n_tiles.div_ceil(n_column_tiles)).next_multiple_of(MAX_ROWS).clamp(MAX_ROWS, 256);
        Tiles { n_rows: m, n_columns: n, rows, columns }
    }

    /// Rows and columns of the largest tile.
    pub fn largest(&self) -> (usize, usize) {
        (self.rows.min(self.n_rows), self.columns.min(self.n_columns))
    }

    /// How many tiles there are.
    pub fn len(&self) -> usize {
        self.n_rows.div_ceil(self.rows) * self.n_columns.div_ceil(self.columns)
    }

    /// Whether the output is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows and columns of a tile; tiles of the same rows follow each other.
    pub fn tile(&self, tile_idx: usize) -> (Range<usize>, Range<usize>) {
        let n_column_tiles = self.n_columns.div_ceil(self.columns);
        let (i, j) = (tile_idx / n_column_tiles * self.rows, tile_idx % n_column_tiles * self.columns);
        (i..(i + self.rows).min(self.n_rows), j..(j + self.columns).min(self.n_columns))
    }
}

/// Fewer multiplications than this are not worth another tile.
const MIN_PRODUCTS: usize = 100_000;
/// Widest strip of columns, in elements, over all instruction sets.
const STRIP: usize = 32;
/// Most rows of a register block, over all instruction sets.
const MAX_ROWS: usize = 8;
/// Longest run along the contracted axis between two visits to the output.
const RUN: usize = 256;

/// Room for a strip of B and for a register block at the edge; one a worker.
#[repr(align(64))]
pub struct Scratch<T> {
    strip: [T; RUN * STRIP],
    edge: [T; MAX_ROWS * STRIP],
}

impl<T: Scalar> Scratch<T> {
    /// Scratch memory for one worker.
    pub fn new() -> Box<Scratch<T>> {
        Box::new(Scratch { strip: [T::ZERO; RUN * STRIP], edge: [T::ZERO; MAX_ROWS * STRIP] })
    }
}

/// `out = a · b`, or `out += a · b` with `accumulate`, over the workers of a pool; `finish(tile, rows, columns)` runs
/// on each tile right after it is complete.
///
/// Shapes: a `[m, k]`, b `[k, n]`, out `[m, n]`; `tiles` must be of that shape. With `k = 0` the product is 0.
///
/// # Panics
/// If shapes differ, or if there are fewer scratches than workers.
#[allow(clippy::too_many_arguments)]
pub fn gemm<T: Scalar>(
    pool: &mut Pool,
    scratch: &mut [Box<Scratch<T>>],
    a: Matrix<T>,
    b: Matrix<T>,
    out: TileMut<T>,
    accumulate: bool,
    tiles: Tiles,
    finish: impl Fn(&mut TileMut<T>, Range<usize>, Range<usize>) + Sync,
) {
    assert_eq!((tiles.n_rows, tiles.n_columns), (out.n_rows, out.n_columns));
    let out = Shared(out);
    let out = &out;
    pool.run_with(tiles.len(), scratch, |tile_idx, scratch| {
        let (rows, columns) = tiles.tile(tile_idx);
        // SAFETY: tiles do not overlap, and every tile is one chunk.
        let mut tile = unsafe { out.0.part(rows.clone(), columns.clone()) };
        let (a, b) = (a.part(rows.clone(), 0..a.n_columns), b.part(0..b.n_rows, columns.clone()));
        gemm_tile(scratch, a, b, &mut tile, accumulate);
        finish(&mut tile, rows, columns);
    });
}

/// `out = a · b`, or `out += a · b` with `accumulate`, by the calling thread alone.
///
/// # Panics
/// If shapes differ.
pub fn gemm_tile<T: Scalar>(
    scratch: &mut Scratch<T>,
    a: Matrix<T>,
    b: Matrix<T>,
    out: &mut TileMut<T>,
    accumulate: bool,
) {
    assert_eq!((a.n_rows, b.n_columns, a.n_columns), (out.n_rows, out.n_columns, b.n_rows));
    if b.n_rows == 0 && !accumulate {
        (0..out.n_rows).for_each(|row_idx| out.row(row_idx).fill(T::ZERO));
    }
    dispatch(TileKernel { scratch, a, b, out, accumulate });
}

/// A tile that several workers take their parts of.
struct Shared<'a, T>(TileMut<'a, T>);
// SAFETY: the workers take disjoint parts.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

/// An element type of matrix products.
pub trait Scalar: Copy + Send + Sync + std::ops::AddAssign + 'static {
    /// Zero.
    const ZERO: Self;
    /// Computes a tile with the vectors of an instruction set.
    #[doc(hidden)]
    fn run_tile<I: Isa>(tile: TileKernel<'_, '_, Self>);
}

impl Scalar for f32 {
    const ZERO: f32 = 0.0;
    #[inline(always)]
    fn run_tile<I: Isa>(tile: TileKernel<'_, '_, f32>) {
        tile.run_lanes::<I::F32>();
    }
}

impl Scalar for f64 {
    const ZERO: f64 = 0.0;
    #[inline(always)]
    fn run_tile<I: Isa>(tile: TileKernel<'_, '_, f64>) {
        tile.run_lanes::<I::F64>();
    }
}

/// A vector register's worth of scalars.
///
/// # Safety
/// The methods of the x86 vectors may be called only where the instruction set is enabled.
pub unsafe trait Lanes: Copy {
    /// What a lane holds.
    type Scalar: Scalar;
    /// How many lanes.
    const N: usize;
    /// How many rows of sums, two vectors each, fit the registers.
    const ROWS: usize;
    /// The same value in all lanes.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn splat(value: Self::Scalar) -> Self;
    /// Reads `N` scalars, unaligned.
    ///
    /// # Safety
    /// `from` must be valid for them; see the trait.
    unsafe fn load(from: *const Self::Scalar) -> Self;
    /// Writes `N` scalars, unaligned.
    ///
    /// # Safety
    /// `to` must be valid for them; see the trait.
    unsafe fn store(self, to: *mut Self::Scalar);
    /// `self · b + c`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self + b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn plus(self, b: Self) -> Self;
    /// `self - b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn minus(self, b: Self) -> Self;
    /// `self · b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn times(self, b: Self) -> Self;
    /// `self / b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn over(self, b: Self) -> Self;
    /// Lane by lane `self` where it is larger or NaN, else `b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn larger(self, b: Self) -> Self;
    /// Lane by lane `self` where it is smaller or NaN, else `b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn smaller(self, b: Self) -> Self;
}

#[doc(hidden)]
pub struct TileKernel<'a, 'b, T> {
    scratch: &'a mut Scratch<T>,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    out: &'a mut TileMut<'b, T>,
    accumulate: bool,
}

impl<T: Scalar> Kernel for TileKernel<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        T::run_tile::<I>(self);
    }
}

impl<T: Scalar> TileKernel<'_, '_, T> {
    #[inline(always)]
    fn run_lanes<V: Lanes<Scalar = T>>(mut self) {
        let (n, k) = (self.out.n_columns, self.b.n_rows);
        for column in (0..n).step_by(2 * V::N) {
            let n_columns = (n - column).min(2 * V::N);
            for depth in (0..k).step_by(RUN) {
                let strip = Strip { column, n_columns, depth, run: (k - depth).min(RUN) };
                self.copy_strip::<V>(strip);
                if n_columns <= V::N { self.run_strip::<V, 1>(strip) } else { self.run_strip::<V, 2>(strip) }
            }
        }
    }

    /// Copies a strip of B densely, padded with zeros to whole vectors.
    #[inline(always)]
    fn copy_strip<V: Lanes<Scalar = T>>(&mut self, strip: Strip) {
        let b =
            self.b.part(strip.depth..strip.depth + strip.run, strip.column..strip.column + strip.n_columns);
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
            padding.fill(T::ZERO);
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
        let is_first = strip.depth == 0 && !self.accumulate;
        // SAFETY: `Matrix` and `TileMut` hold their shapes in bounds and `gemm_tile` compared them; the strip was
        // copied for this run; `V` belongs to the instruction set that `dispatch` found.
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

/// Copies a matrix with unit row stride to rows of `width`, in blocks that touch each line once.
#[inline(always)]
fn copy_transposed<T: Scalar>(b: Matrix<T>, out: &mut [T], width: usize) {
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
        let zero = V::splat(V::Scalar::ZERO);
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

macro_rules! array_lanes {
    ($($scalar:ident $n:literal)*) => { $(
        // SAFETY: plain arithmetic, on every machine.
        unsafe impl Lanes for [$scalar; $n] {
            type Scalar = $scalar;
            const N: usize = $n;
            const ROWS: usize = 4;
            #[inline(always)]
            unsafe fn splat(value: $scalar) -> Self {
                [value; $n]
            }
            #[inline(always)]
            unsafe fn load(from: *const $scalar) -> Self {
                // SAFETY: the caller's.
                unsafe { from.cast::<Self>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $scalar) {
                // SAFETY: the caller's.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                std::array::from_fn(|i| self[i] * b[i] + c[i])
            }
            #[inline(always)]
            unsafe fn plus(self, b: Self) -> Self {
                std::array::from_fn(|i| self[i] + b[i])
            }
            #[inline(always)]
            unsafe fn minus(self, b: Self) -> Self {
                std::array::from_fn(|i| self[i] - b[i])
            }
            #[inline(always)]
            unsafe fn times(self, b: Self) -> Self {
                std::array::from_fn(|i| self[i] * b[i])
            }
            #[inline(always)]
            unsafe fn over(self, b: Self) -> Self {
                std::array::from_fn(|i| self[i] / b[i])
            }
            #[inline(always)]
            unsafe fn larger(self, b: Self) -> Self {
                std::array::from_fn(|i| if self[i] > b[i] || self[i].is_nan() { self[i] } else { b[i] })
            }
            #[inline(always)]
            unsafe fn smaller(self, b: Self) -> Self {
                std::array::from_fn(|i| if self[i] < b[i] || self[i].is_nan() { self[i] } else { b[i] })
            }
        }
    )* };
}
array_lanes! { f32 4 f64 2 }

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    macro_rules! x86_lanes {
        ($($vector:ident of $n:literal $scalar:ident, $rows:literal rows:
            $splat:ident $load:ident $store:ident $mul_add:ident $plus:ident $minus:ident $times:ident $over:ident
            $max:ident $min:ident $keep_nan:expr;)*) => { $(
            // SAFETY: thin names for single instructions.
            unsafe impl Lanes for $vector {
                type Scalar = $scalar;
                const N: usize = $n;
                const ROWS: usize = $rows;
                #[inline(always)]
                unsafe fn splat(value: $scalar) -> Self {
                    // SAFETY: the caller's, here and below.
                    unsafe { $splat(value) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $scalar) -> Self {
                    // SAFETY: as above.
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $scalar) {
                    // SAFETY: as above.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $mul_add(self, b, c) }
                }
                #[inline(always)]
                unsafe fn plus(self, b: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $plus(self, b) }
                }
                #[inline(always)]
                unsafe fn minus(self, b: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $minus(self, b) }
                }
                #[inline(always)]
                unsafe fn times(self, b: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $times(self, b) }
                }
                #[inline(always)]
                unsafe fn over(self, b: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $over(self, b) }
                }
                #[inline(always)]
                unsafe fn larger(self, b: Self) -> Self {
                    // SAFETY: as above. The instruction gives `b` where either is NaN.
                    unsafe { $keep_nan(self, $max(self, b)) }
                }
                #[inline(always)]
                unsafe fn smaller(self, b: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $keep_nan(self, $min(self, b)) }
                }
            }
        )* };
    }
    x86_lanes! {
        __m256 of 8 f32, 6 rows: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_add_ps
            _mm256_sub_ps _mm256_mul_ps _mm256_div_ps _mm256_max_ps _mm256_min_ps
            |a, picked| _mm256_blendv_ps(picked, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a));
        __m256d of 4 f64, 6 rows: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_add_pd
            _mm256_sub_pd _mm256_mul_pd _mm256_div_pd _mm256_max_pd _mm256_min_pd
            |a, picked| _mm256_blendv_pd(picked, a, _mm256_cmp_pd::<_CMP_UNORD_Q>(a, a));
        __m512 of 16 f32, 8 rows: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_add_ps
            _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_max_ps _mm512_min_ps
            |a, picked| _mm512_mask_mov_ps(picked, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a);
        __m512d of 8 f64, 8 rows: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_add_pd
            _mm512_sub_pd _mm512_mul_pd _mm512_div_pd _mm512_max_pd _mm512_min_pd
            |a, picked| _mm512_mask_mov_pd(picked, _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a), a);
    }
}

#[cfg(test)]
mod tests;
