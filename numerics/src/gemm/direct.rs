//! Products of which the right matrix is uneven, such as windows of an image. Its elements are read one by one where they
//! lie, and lanes run along the rows of the left matrix, which are packed. An image has many more windows than a filter has
//! rows, so packing the filters takes less time than packing the windows.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::matrix::{Matrix, TileMut};
use super::pack::pack_strip;
use super::scratch::{RUN, Scratch};
use super::tiles::{MAX_ROWS, STRIP, WIDEST};
use super::uneven::UnevenMatrix;
use crate::simd::prefetch::{LINE, request};
use engine_core::op::simd::Lanes;
use engine_core::op::simd::{Float, Isa, Kernel};
use std::ops::Range;

/// The columns that are computed for a strip of rows before they are written.
const COLUMNS: usize = 256;

/// A tile as a loop of an instruction set.
pub struct DirectKernel<'a, 'b, T> {
    pub scratch: &'a mut Scratch<T>,
    pub a: Matrix<'a, T>,
    pub b: UnevenMatrix<'a, T>,
    pub out: &'a mut TileMut<'b, T>,
}

impl<T: Float> Kernel for DirectKernel<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        self.run_lanes::<T::Vector<I>>();
    }
}

impl<T: Float> DirectKernel<'_, '_, T> {
    #[inline(always)]
    fn run_lanes<V: Lanes<Scalar = T>>(mut self) {
        let (m, n) = (self.out.n_rows, self.out.n_columns);
        for row in (0..m).step_by(2 * V::N) {
            let rows = row..(row + 2 * V::N).min(m);
            for column in (0..n).step_by(COLUMNS) {
                let columns = column..(column + COLUMNS).min(n);
                match rows.len() <= V::N {
                    true => self.run_strip::<V, 1>(rows.clone(), columns),
                    false => self.run_strip::<V, 2>(rows.clone(), columns),
                }
            }
        }
    }

    /// Some rows, as lanes of `NV` vectors, times some columns.
    #[inline(always)]
    fn run_strip<V: Lanes<Scalar = T>, const NV: usize>(
        &mut self,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        let k = self.a.n_columns;
        for depth in (0..k).step_by(RUN) {
            let depths = depth..(depth + RUN).min(k);
            let part = self.a.part(rows.clone(), depths.clone()).transposed();
            pack_strip::<V>(part, NV * V::N, &mut self.scratch.panel);
            // Blocks of equal length: one that is short would wait for its few sums.
            let n_blocks = columns.len().div_ceil(V::ROWS);
            for block in 0..n_blocks {
                let at = |block: usize| columns.start + columns.len() * block / n_blocks;
                let part = at(block)..at(block + 1);
                let place = Block {
                    depths: depths.clone(),
                    place: part.start - columns.start,
                    ahead: self.ahead(&rows, depths.end, [block, n_blocks]),
                };
                match part.len() {
                    1 => self.run_block::<V, 1, NV>(part, place),
                    2 => self.run_block::<V, 2, NV>(part, place),
                    3 => self.run_block::<V, 3, NV>(part, place),
                    4 => self.run_block::<V, 4, NV>(part, place),
                    5 => self.run_block::<V, 5, NV>(part, place),
                    6 => self.run_block::<V, 6, NV>(part, place),
                    7 => self.run_block::<V, 7, NV>(part, place),
                    _ => self.run_block::<V, 8, NV>(part, place),
                }
            }
        }
        self.write::<V, NV>(rows, columns);
    }

    /// A block's share of the elements of A that are packed next: those of the next depths, or of the next strip.
    #[inline(always)]
    fn ahead(&self, rows: &Range<usize>, depth: usize, [block, n_blocks]: [usize; 2]) -> Ahead<T> {
        let a = &self.a;
        let (first, depth) = if depth < a.n_columns { (rows.start, depth) } else { (rows.end, 0) };
        let n_rows = if a.column_stride == 1 { (a.n_rows - first).min(rows.len()) } else { 0 };
        let at = |block: usize| first + n_rows * block / n_blocks;
        Ahead { start: a.at(at(block), depth), row_stride: a.row_stride, n_rows: at(block + 1) - at(block) }
    }

    /// One register block: `R` columns of `NV` vectors.
    #[inline(always)]
    fn run_block<V: Lanes<Scalar = T>, const R: usize, const NV: usize>(
        &mut self,
        columns: Range<usize>,
        Block { depths, place, ahead }: Block<T>,
    ) {
        let is_first = depths.start == 0;
        let (image, [rows, columns]) = self.b.parts(depths, columns);
        let (strip, sums) = self.scratch.panel.split_at_mut(RUN * STRIP);
        let out = &mut sums[place * NV * V::N..][..R * NV * V::N];
        // SAFETY: an uneven matrix holds its elements in bounds; the strip is packed for as many rows; `V` belongs to the
        // instruction set that `dispatch` found.
        unsafe {
            let sums = sum_products::<V, R, NV>(image, [rows, columns], strip.as_ptr(), ahead);
            for i in 0..R {
                for v in 0..NV {
                    let out = out.as_mut_ptr().add((i * NV + v) * V::N);
                    let sum = if is_first { sums[i][v] } else { sums[i][v].plus(V::load(out)) };
                    sum.store(out);
                }
            }
        }
    }

    /// Writes the sums of a strip, each vector of which is a part of a column.
    #[inline(always)]
    fn write<V: Lanes<Scalar = T>, const NV: usize>(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let sums = &self.scratch.panel[RUN * STRIP..][..columns.len() * NV * V::N];
        let whole = if V::N >= MAX_ROWS { columns.len() / MAX_ROWS * MAX_ROWS } else { 0 };
        for (first, row) in
            (0..whole).step_by(MAX_ROWS).flat_map(|first| (0..NV).map(move |v| (first, v * V::N)))
        {
            let mut turned = [[T::default(); MAX_ROWS]; WIDEST];
            // SAFETY: the vectors are inside the sums.
            unsafe {
                let from = |i: usize| sums.as_ptr().add((first + i) * NV * V::N + row);
                turn::<V>(from, turned.as_mut_ptr().cast());
            }
            for (i, turned) in turned[..V::N].iter().take(rows.len().saturating_sub(row)).enumerate() {
                let out = &mut self.out.row(rows.start + row + i)[columns.start + first..];
                out[..MAX_ROWS].copy_from_slice(turned);
            }
        }
        for (i, row) in rows.enumerate() {
            for column in whole..columns.len() {
                self.out.row(row)[columns.start + column] = sums[column * NV * V::N + i];
            }
        }
    }
}

/// The depths of a block, where its sums lie, and what it requests.
struct Block<T> {
    depths: Range<usize>,
    place: usize,
    ahead: Ahead<T>,
}

/// Rows of A that are needed soon.
#[derive(Clone, Copy)]
struct Ahead<T> {
    start: *const T,
    row_stride: isize,
    n_rows: usize,
}

/// # Safety
/// `image` must be valid for the sums of each offset of a row and of a column, and `strip` for `NV` vectors a row; see
/// [`Lanes`].
#[inline(always)]
unsafe fn sum_products<V: Lanes, const R: usize, const NV: usize>(
    image: *const V::Scalar,
    [rows, columns]: [&[isize]; 2],
    strip: *const V::Scalar,
    ahead: Ahead<V::Scalar>,
) -> [[V; NV]; R] {
    let columns: [isize; R] = std::array::from_fn(|i| columns[i]);
    let line = LINE / size_of::<V::Scalar>();
    // SAFETY: the caller's.
    unsafe {
        let zero = V::splat(V::Scalar::default());
        let mut sums = [[zero; NV]; R];
        for (part, rows) in rows.chunks(line).enumerate() {
            for row in 0..ahead.n_rows as isize {
                request(ahead.start.wrapping_offset(row * ahead.row_stride + (part * line) as isize).addr());
            }
            let strip = strip.add(part * line * NV * V::N);
            for (p, row) in rows.iter().enumerate() {
                let from = image.wrapping_offset(*row);
                let mut a = [zero; NV];
                for v in 0..NV {
                    a[v] = V::load(strip.add((p * NV + v) * V::N));
                }
                for i in 0..R {
                    let b = V::splat(*from.wrapping_offset(columns[i]));
                    for v in 0..NV {
                        sums[i][v] = b.mul_add(a[v], sums[i][v]);
                    }
                }
            }
        }
        sums
    }
}

/// Transposes as many vectors as a block has columns: each lane's elements become neighbours.
///
/// # Safety
/// The pointers must be valid for vectors, of at least as many lanes; see [`Lanes`].
#[inline(always)]
unsafe fn turn<V: Lanes>(from: impl Fn(usize) -> *const V::Scalar, to: *mut V::Scalar) {
    // SAFETY: the caller's.
    unsafe {
        let mut block = [V::splat(V::Scalar::default()); MAX_ROWS];
        for i in 0..MAX_ROWS {
            block[i] = V::load(from(i));
        }
        // Each round doubles the number of columns whose elements of one row are neighbours.
        let mut n_joined = 1;
        while n_joined < MAX_ROWS {
            let halves = block;
            for i in 0..MAX_ROWS / 2 {
                (block[2 * i], block[2 * i + 1]) = halves[i].interleave(halves[i + MAX_ROWS / 2]);
            }
            n_joined *= 2;
        }
        for i in 0..MAX_ROWS {
            block[i].store(to.add(i * V::N));
        }
    }
}
