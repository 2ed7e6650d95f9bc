//! The product of one tile.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::few::{Few, Order};
use super::matrix::{Matrix, TileMut};
use super::pack::{pack_blocks, pack_rows, pack_strip};
use super::scratch::{BLOCKS, PANEL, RUN, Scratch};
use super::thin::{self, Thin};
use super::tiles::MAX_ROWS;
use super::uneven::Right;
use engine_core::op::simd::{Float, Isa, Kernel, Lanes};
use std::ops::Range;

/// The bytes of a matrix that lies in memory rather than in a cache of one core.
const FAR: usize = 1 << 20;

/// The fewest rows of A that tiles of AMX multiply.
#[cfg(target_arch = "x86_64")]
const FEWEST_TILE_ROWS: usize = 9;

/// A tile as a loop of an instruction set.
pub struct TileKernel<'a, 'b, T> {
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
        self.run_on::<I>();
    }
}

impl<T: Float> TileKernel<'_, '_, T> {
    #[inline(always)]
    fn run_on<I: Isa>(mut self) {
        if let Right::Even(b) = self.b
            && let Some(order) = Order::of::<T::Vector<I>>(&self.a, &b)
        {
            return Few { a: self.a, b, out: self.out, is_added: self.is_added }.run::<T::Vector<I>>(order);
        }
        let (n, k) = (self.out.n_columns, self.a.n_columns);
        let end = n - thin::n_columns::<T::Vector<I>>(n, &self.a);
        let has_panels = self.is_packed() || self.is_far();
        let mut column = 0;
        while column < n {
            let panel = if has_panels { PANEL } else { strip_width::<T::Vector<I>>(end - column) };
            let columns = column..(column + panel).min(end);
            // Thin columns follow the last panel, while the rows of A are in a cache.
            let is_last = columns.end == end;
            for depth in (0..k).step_by(RUN) {
                let depths = depth..(depth + RUN).min(k);
                self.run_panel::<I>(depths.clone(), columns.clone());
                if is_last {
                    self.run_thin::<T::Vector<I>>(depths, end..n);
                }
            }
            column = if is_last { n } else { columns.end };
        }
    }

    /// Packs some rows and columns of B, and multiplies them by all rows of A, which are packed if they are not contiguous.
    #[inline(always)]
    fn run_panel<I: Isa>(&mut self, depths: Range<usize>, columns: Range<usize>) {
        self.pack::<T::Vector<I>>(depths.clone(), columns.clone());
        let (m, most) = (self.out.n_rows, BLOCKS * T::Vector::<I>::ROWS);
        for row in (0..m).step_by(most) {
            let rows = row..(row + most).min(m);
            if self.is_packed() {
                let a = self.a.part(rows.clone(), depths.clone());
                pack_blocks::<T::Vector<I>>(a, &mut self.scratch.blocks);
            }
            self.run_strips::<I>(depths.clone(), columns.clone(), rows);
        }
    }

    /// Multiplies the packed rows and columns of B by some rows of A.
    #[inline(always)]
    fn run_strips<I: Isa>(&mut self, depths: Range<usize>, columns: Range<usize>, rows: Range<usize>) {
        let mut column = columns.start;
        while column < columns.end {
            let width = strip_width::<T::Vector<I>>(columns.end - column);
            let n_columns = width.min(columns.end - column);
            let start = (column - columns.start) * depths.len();
            let strip = Strip { column, n_columns, depth: depths.start, run: depths.len(), start };
            match width / T::Vector::<I>::N {
                1 => self.run_strip::<I, 1>(strip, rows.clone()),
                3 if most_vectors::<T::Vector<I>>() == 3 => self.run_strip::<I, 3>(strip, rows.clone()),
                _ => self.run_strip::<I, 2>(strip, rows.clone()),
            }
            column += width;
        }
    }

    /// Multiplies a few columns of B by all rows of A.
    #[inline(always)]
    fn run_thin<V: Lanes<Scalar = T>>(&mut self, depths: Range<usize>, columns: Range<usize>) {
        for column in columns {
            let (from, to) = (depths.clone(), &mut self.scratch.panel[..depths.len()]);
            match self.b {
                // SAFETY: inside the matrix.
                Right::Even(b) => thin::pack(|p| unsafe { *b.at(p, column) }, from, to),
                Right::Uneven(b) => thin::pack(|p| b.at(p, column), from, to),
            }
            let part = Thin { a: self.a.part(0..self.a.n_rows, depths.clone()), b: &self.scratch.panel };
            part.run::<V>(self.out, column, depths.start == 0 && !self.is_added);
        }
    }

    /// Whether the rows of A are packed: a block of rows that are not contiguous has a cache line for each step, and lines
    /// at strides of powers of two displace each other.
    fn is_packed(&self) -> bool {
        self.a.column_stride != 1
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
        let mut column = columns.start;
        if let Right::Even(b) = self.b
            && b.column_stride == 1
        {
            let pairs = b.part(rows.clone(), column..column + in_pairs::<V>(columns.len()));
            column += pack_rows::<V>(pairs, &mut self.scratch.panel);
        }
        while column < columns.end {
            let width = strip_width::<V>(columns.end - column);
            let out = &mut self.scratch.panel[(column - columns.start) * rows.len()..];
            let columns = column..(column + width).min(columns.end);
            match self.b {
                Right::Even(b) => pack_strip::<V>(b.part(rows.clone(), columns), width, out),
                Right::Uneven(b) => b.pack::<V>(rows.clone(), columns, width, out),
            }
            column += width;
        }
    }

    /// Some rows of A times a strip.
    #[inline(always)]
    fn run_strip<I: Isa, const NV: usize>(&mut self, strip: Strip, rows: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        if T::Vector::<I>::HAS_BF16 && self.has_tiles() {
            // SAFETY: elements are pairs in `f32`, the machine has tiles, and shapes are as for `run_block`.
            return unsafe { self.run_tiles(strip, rows, NV * T::Vector::<I>::N) };
        }
        let most = T::Vector::<I>::ROWS;
        for row in rows.clone().step_by(most) {
            let place = Place { row, block: (row - rows.start) / most };
            match (rows.end - row).min(most) {
                1 => self.run_block::<I, 1, NV>(strip, place),
                2 => self.run_block::<I, 2, NV>(strip, place),
                3 => self.run_block::<I, 3, NV>(strip, place),
                5 if most > 4 => self.run_block::<I, 5, NV>(strip, place),
                6 if most > 4 => self.run_block::<I, 6, NV>(strip, place),
                7 if most > 6 => self.run_block::<I, 7, NV>(strip, place),
                8 if most > 6 => self.run_block::<I, 8, NV>(strip, place),
                _ => self.run_block::<I, 4, NV>(strip, place),
            }
        }
    }

    /// Whether tiles of AMX multiply pairs. They take whole rows of A, and need as long for a few of them as for many.
    #[cfg(target_arch = "x86_64")]
    fn has_tiles(&self) -> bool {
        self.a.column_stride == 1 && self.out.n_rows >= FEWEST_TILE_ROWS && amx::is_present()
    }

    /// Some rows of A times a strip of pairs.
    ///
    /// # Safety
    /// The machine must have AMX, and elements must be pairs in `f32`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn run_tiles(&self, strip: Strip, rows: Range<usize>, width: usize) {
        let start = self.out.start.wrapping_add(rows.start * self.out.row_stride + strip.column);
        let a = self.a.part(rows, strip.depth..strip.depth + strip.run);
        let strip_of_pairs = amx::Strip {
            // SAFETY: the caller's.
            a: unsafe { a.cast() },
            strip: self.scratch.panel[strip.start..].as_ptr().cast(),
            width,
            n_columns: strip.n_columns,
            out: start.cast(),
            out_stride: self.out.row_stride,
            is_first: strip.depth == 0 && !self.is_added,
        };
        // SAFETY: the caller's; the strip is packed for this run, and the tile has these columns.
        unsafe { strip_of_pairs.run() }
    }

    /// One register block: `R` rows of `NV` vectors.
    #[inline(always)]
    fn run_block<I: Isa, const R: usize, const NV: usize>(&mut self, strip: Strip, place: Place) {
        let Place { row, block } = place;
        let a = match self.is_packed() {
            true => {
                Rows { start: self.scratch.blocks[block * strip.run * MAX_ROWS..].as_ptr(), stride: None }
            }
            false => Rows { start: self.a.at(row, strip.depth), stride: Some(self.a.row_stride) },
        };
        let (width, is_first) = (NV * T::Vector::<I>::N, strip.depth == 0 && !self.is_added);
        let is_whole = strip.n_columns == width;
        // SAFETY: `Matrix` and `TileMut` hold their shapes in bounds and `gemm_tile` compared them; the strip is
        // packed for this run; `I` is the instruction set that `dispatch` found.
        unsafe {
            let out = self.out.start.add(row * self.out.row_stride + strip.column);
            let (to, to_stride) = match is_whole {
                true => (out, self.out.row_stride),
                false => (self.scratch.edge.as_mut_ptr(), width),
            };
            I::call(Block::<T, R, NV> {
                a,
                strip: self.scratch.panel.as_ptr().add(strip.start),
                run: strip.run,
                out: to,
                row_stride: to_stride,
                is_first: is_first || !is_whole,
            });
            if !is_whole {
                self.copy_edge::<R>(out, strip.n_columns, width, is_first);
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

/// The most vectors of a strip.
const fn most_vectors<V: Lanes>() -> usize {
    if V::ROWS == MAX_ROWS { 3 } else { 2 }
}

/// The columns of the first strip of so many that are left: two vectors, or three if no more are left.
#[inline(always)]
fn strip_width<V: Lanes>(n_left: usize) -> usize {
    let n_vectors = n_left.div_ceil(V::N);
    if n_vectors <= most_vectors::<V>() { n_vectors * V::N } else { 2 * V::N }
}

/// The columns of leading strips of two whole vectors.
#[inline(always)]
fn in_pairs<V: Lanes>(n_columns: usize) -> usize {
    let mut at = 0;
    while n_columns - at >= 2 * V::N && strip_width::<V>(n_columns - at) == 2 * V::N {
        at += 2 * V::N;
    }
    at
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

/// A register block as a part of a kernel. Its pointers are valid for `R` rows of A, a strip of `run` rows and `R` rows of
/// `NV` vectors of the result.
struct Block<T, const R: usize, const NV: usize> {
    a: Rows<T>,
    strip: *const T,
    run: usize,
    out: *mut T,
    row_stride: usize,
    is_first: bool,
}

impl<T: Float, const R: usize, const NV: usize> Kernel for Block<T, R, NV> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        // SAFETY: as the struct states; `I` is the instruction set that `dispatch` found.
        unsafe {
            let sums = sum_products::<T::Vector<I>, R, NV>(self.a, self.strip, self.run);
            store_block(sums, self.out, self.row_stride, self.is_first);
        }
    }
}

/// The rows of a register block: their distance, or nothing where they are packed.
#[derive(Clone, Copy)]
struct Rows<T> {
    start: *const T,
    stride: Option<isize>,
}

/// The first row of a register block, and its number among the packed ones.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    block: usize,
}

/// Steps along the contracted axis between two computations of the addresses of the rows of A.
const UNROLLED: usize = 8;

/// The sums of the products of some rows of A and a strip of `run` rows.
///
/// # Safety
/// `a` must be valid for `R` rows of `run` elements, `strip` for `run` rows of `NV` vectors; see [`Lanes`].
#[inline(always)]
unsafe fn sum_products<V: Lanes, const R: usize, const NV: usize>(
    a: Rows<V::Scalar>,
    strip: *const V::Scalar,
    run: usize,
) -> [[V; NV]; R] {
    // SAFETY: the caller's.
    unsafe {
        match a.stride {
            Some(stride) => sum_steps::<V, R, NV>(a.start, stride, 1, strip, run),
            None => sum_steps::<V, R, NV>(a.start, 1, MAX_ROWS, strip, run),
        }
    }
}

/// The sums of products; the addresses of unrolled steps are constants apart.
///
/// # Safety
/// As for [`sum_products`].
#[inline(always)]
unsafe fn sum_steps<V: Lanes, const R: usize, const NV: usize>(
    mut a: *const V::Scalar,
    row_stride: isize,
    column_stride: usize,
    mut strip: *const V::Scalar,
    run: usize,
) -> [[V; NV]; R] {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [[V::splat(V::Scalar::default()); NV]; R];
        for _ in 0..run / UNROLLED {
            for _ in 0..UNROLLED {
                add_products(a, row_stride, strip, &mut sums);
                (a, strip) = (a.wrapping_add(column_stride), strip.add(NV * V::N));
            }
        }
        for _ in 0..run % UNROLLED {
            add_products(a, row_stride, strip, &mut sums);
            (a, strip) = (a.wrapping_add(column_stride), strip.add(NV * V::N));
        }
        sums
    }
}

/// Adds the products of a column of some rows of A and a row of a strip.
///
/// # Safety
/// As for [`sum_products`].
#[inline(always)]
unsafe fn add_products<V: Lanes, const R: usize, const NV: usize>(
    a: *const V::Scalar,
    row_stride: isize,
    strip: *const V::Scalar,
    sums: &mut [[V; NV]; R],
) {
    // SAFETY: the caller's.
    unsafe {
        let mut b = [V::splat(V::Scalar::default()); NV];
        for v in 0..NV {
            b[v] = V::load(strip.add(v * V::N));
        }
        for i in 0..R {
            let a = V::splat(*a.offset(i as isize * row_stride));
            for v in 0..NV {
                sums[i][v] = a.mul_add(b[v], sums[i][v]);
            }
        }
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
