//! Matrices whose rows and columns are not evenly spaced, such as the windows of an image: implicit GEMM.

use super::matrix::Matrix;
use super::runs::{Along, Run, runs_of};
use super::tiles::{STRIP, WIDEST};
use crate::simd::prefetch::read_ahead;
use engine_core::fusion::{Axis, UnevenAxes};
use engine_core::op::simd::Lanes;
use std::ops::Range;

/// The largest image that is read ahead: one that the L2 cache holds.
const IMAGE_BYTES: usize = 512 * 1024;

/// The right operand of a product.
#[derive(Clone, Copy, Debug)]
pub enum Right<'a, T> {
    /// At even strides.
    Even(Matrix<'a, T>),
    /// At offsets of its own.
    Uneven(UnevenMatrix<'a, T>),
}

impl<'a, T> From<Matrix<'a, T>> for Right<'a, T> {
    fn from(matrix: Matrix<'a, T>) -> Right<'a, T> {
        Right::Even(matrix)
    }
}

impl<T> Right<'_, T> {
    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Right::Even(matrix) => matrix.shape(),
            Right::Uneven(matrix) => [matrix.rows.len(), matrix.columns.len()],
        }
    }
}

/// The offsets of the matrices, rows and columns of an uneven operand.
#[derive(Clone, Debug)]
pub struct Offsets {
    batch: Vec<isize>,
    rows: Vec<isize>,
    columns: Vec<isize>,
    /// The least and the greatest sum of an offset of a row and one of a column.
    reach: [isize; 2],
    /// The strides of rows and columns if only the batch is uneven, as in heads of attention.
    strides: Option<[isize; 2]>,
    windows: Windows,
    runs: Runs,
}

/// Neighbours that are evenly spaced in memory.
#[derive(Clone, Debug)]
struct Runs {
    /// Contiguous rows.
    rows: Vec<Run>,
    columns: Vec<Run>,
    /// Elements from one column of a run to the next, 1 or 2.
    column_step: isize,
}

impl Runs {
    fn of(rows: &[isize], columns: &[isize]) -> Runs {
        let column_step = if columns.len() > 1 && columns[1] - columns[0] == 2 { 2 } else { 1 };
        Runs { rows: runs_of(rows, 1), columns: runs_of(columns, column_step), column_step }
    }
}

/// How a matrix shares the elements of its operand.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    n_rows: usize,
    /// Whether most elements are in several places.
    overlap: bool,
    /// The axis that a product of a few rows goes along.
    pub(super) along: Option<Along>,
}

impl Windows {
    /// Whether a product with `m` rows reads elements where they lie, and packs the left matrix: overlapping windows have
    /// more elements than their image. Lanes run along the rows of the product, so there must be enough of them, and sums
    /// must be long enough to turn their results.
    pub fn are_direct(&self, m: usize) -> bool {
        self.overlap && m >= WIDEST && self.n_rows >= 2 * WIDEST
    }
}

impl Offsets {
    /// The offsets of an operand whose first element is `offset` elements behind the start of its buffer.
    pub fn new(offset: i64, axes: &UnevenAxes) -> Offsets {
        let [batch, rows, columns] = [&axes.batch, &axes.rows, &axes.columns].map(|axes| offsets_of(axes));
        let least = |offsets: &[isize]| offsets.iter().copied().min().unwrap_or(0);
        let greatest = |offsets: &[isize]| offsets.iter().copied().max().unwrap_or(0);
        let reach = [least(&rows) + least(&columns), greatest(&rows) + greatest(&columns)];
        let batch = batch.into_iter().map(|start| start + offset as isize).collect();
        let strides = stride_of(&axes.rows).zip(stride_of(&axes.columns)).map(|(row, column)| [row, column]);
        let n_between = (reach[1] - reach[0] + 1) as usize;
        let overlap = rows.len() * columns.len() > 2 * n_between;
        let runs = Runs::of(&rows, &columns);
        let along = Along::of((rows.len(), &runs.rows), (columns.len(), &runs.columns));
        let windows = Windows { n_rows: rows.len(), overlap, along };
        Offsets { batch, rows, columns, reach, strides, windows, runs }
    }

    /// How its elements are shared; `None` if rows and columns are evenly spaced.
    pub fn windows(&self) -> Option<Windows> {
        if self.strides.is_some() { None } else { Some(self.windows) }
    }

    /// Some columns of one matrix of the operand, in its buffer.
    ///
    /// # Panics
    /// If an element would lie outside the buffer, or there are not that many columns.
    pub fn matrix<'a, T>(&'a self, data: &'a [T], batch: usize, columns: Range<usize>) -> Right<'a, T> {
        let first = self.batch[batch];
        if let Some(strides) = self.strides {
            let matrix = Matrix::new(data, first, [self.rows.len(), self.columns.len()], strides);
            return matrix.part(0..self.rows.len(), columns).into();
        }
        let [least, greatest] = self.reach.map(|reach| first + reach);
        assert!(
            0 <= least && greatest < data.len() as isize,
            "bug: an uneven matrix reaches out of its buffer"
        );
        let elements = &data[least as usize..=greatest as usize];
        // The first tile of an image reads it as a whole: packing reads it in pieces that no prefetcher foresees.
        if self.batch.len() > 1 && columns.start == 0 && size_of_val(elements) <= IMAGE_BYTES {
            read_ahead(elements);
        }
        let (rows, first_column, columns) = (&self.rows[..], columns.start, &self.columns[columns]);
        Right::Uneven(UnevenMatrix {
            data,
            first,
            rows,
            columns,
            first_column,
            windows: self.windows,
            runs: &self.runs,
        })
    }
}

/// The stride of axes that are at most one.
fn stride_of(axes: &[Axis]) -> Option<isize> {
    match axes {
        [] => Some(0),
        [axis] => Some(axis.stride as isize),
        _ => None,
    }
}

/// The offsets of the points of axes, row-major.
fn offsets_of(axes: &[Axis]) -> Vec<isize> {
    axes.iter().fold(vec![0], |offsets, axis| {
        let steps = || (0..axis.extent as isize).map(|i| i * axis.stride as isize);
        offsets.iter().flat_map(|&offset| steps().map(move |step| offset + step)).collect()
    })
}

/// A matrix whose element (i, j) is `data[first + rows[i] + columns[j]]`, which is inside.
#[derive(Clone, Copy, Debug)]
pub struct UnevenMatrix<'a, T> {
    data: &'a [T],
    first: isize,
    rows: &'a [isize],
    columns: &'a [isize],
    /// The number of the first column among those of the runs.
    first_column: usize,
    pub(super) windows: Windows,
    runs: &'a Runs,
}

/// The most pieces of a vector. Each is read as a vector of its own.
const MOST_PIECES: usize = WIDEST;

/// The pieces of a vector of columns: neighbours that are evenly spaced in memory.
#[derive(Clone, Copy)]
struct Pieces {
    /// For each piece, the offset of the element that the first lane would read, and the lane that it begins at.
    pieces: [(isize, usize); MOST_PIECES],
    n: usize,
}

impl<'a, T> UnevenMatrix<'a, T> {
    /// The runs of contiguous rows.
    pub(super) fn row_runs(&self) -> &'a [Run] {
        &self.runs.rows
    }

    /// The runs of columns that this part has columns of. They count from the first column of the whole matrix.
    pub(super) fn column_runs(&self) -> &'a [Run] {
        let runs = &self.runs.columns;
        let first = runs.partition_point(|run| run.start + run.len <= self.first_column);
        let end = runs.partition_point(|run| run.start < self.first_column + self.columns.len());
        &runs[first.min(end)..end]
    }

    /// The number of the first column among those of the whole matrix.
    pub(super) fn first_column(&self) -> usize {
        self.first_column
    }

    /// Elements from one column of a run to the next.
    pub(super) fn column_step(&self) -> isize {
        self.runs.column_step
    }

    /// The offset of a column.
    pub(super) fn column(&self, column: usize) -> isize {
        self.columns[column]
    }

    /// The offsets of columns from which loads of `reach` elements lie in the buffer, for every row.
    pub(super) fn inside(&self, reach: usize) -> Range<isize> {
        self.inside_of_row(self.rows, reach)
    }

    /// The numbers that may be added to these offsets so that loads of `reach` elements lie in the buffer.
    pub(super) fn inside_of_row(&self, offsets: &[isize], reach: usize) -> Range<isize> {
        let (least, greatest) = (offsets.iter().min(), offsets.iter().max());
        let (Some(least), Some(greatest)) = (least, greatest) else { return 0..0 };
        -(self.first + least)..self.data.len() as isize - reach as isize - self.first - greatest + 1
    }
}

impl<T: Copy + Default> UnevenMatrix<'_, T> {
    /// An element.
    ///
    /// # Panics
    /// If it lies outside the buffer.
    pub(super) fn at(&self, row: usize, column: usize) -> T {
        self.data[(self.first + self.rows[row] + self.columns[column]) as usize]
    }

    /// The address of the first element, and the offsets of some rows and columns from it: all their sums are inside.
    #[inline(always)]
    pub(super) fn parts(&self, rows: Range<usize>, columns: Range<usize>) -> (*const T, [&[isize]; 2]) {
        let start = self.data.as_ptr().wrapping_offset(self.first);
        (start, [&self.rows[rows], &self.columns[columns]])
    }

    /// Packs some rows and columns to rows of `width` elements, which are whole vectors. What lies behind the columns has no
    /// meaning.
    #[inline(always)]
    pub(super) fn pack<V: Lanes<Scalar = T>>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        width: usize,
        out: &mut [T],
    ) {
        let columns = &self.columns[columns];
        let step = if columns.len() > 1 && columns[1] - columns[0] == 2 { 2 } else { 1 };
        let mut vectors = [Pieces { pieces: [(0, V::N); MOST_PIECES], n: 0 }; STRIP / 2];
        let vectors = &mut vectors[..columns.len().div_ceil(V::N)];
        for (vector, columns) in vectors.iter_mut().zip(columns.chunks(V::N)) {
            *vector = Pieces::of(columns, step, V::N);
        }
        let most = vectors.iter().map(|vector| vector.n).max().unwrap_or(0);
        let strip = Packing { rows, columns, vectors, width };
        // SAFETY: the vectors belong to the instruction set that runs.
        match step {
            2 => self.pack_most::<V>(strip, most, 2 * V::N, out, |from| unsafe { V::load_even(from) }),
            _ => self.pack_most::<V>(strip, most, V::N, out, |from| unsafe { V::load(from) }),
        }
    }

    /// Packs a strip whose vectors have at most so many pieces.
    #[inline(always)]
    fn pack_most<V: Lanes<Scalar = T>>(
        &self,
        strip: Packing,
        most: usize,
        reach: usize,
        out: &mut [T],
        load: impl Fn(*const T) -> V,
    ) {
        match most {
            1 => self.pack_by::<V, 1>(strip, reach, out, load),
            2 => self.pack_by::<V, 2>(strip, reach, out, load),
            3 => self.pack_by::<V, 3>(strip, reach, out, load),
            4 => self.pack_by::<V, 4>(strip, reach, out, load),
            5..=8 => self.pack_by::<V, 8>(strip, reach, out, load),
            _ => self.pack_by::<V, MOST_PIECES>(strip, reach, out, load),
        }
    }

    /// Packs a strip by a load that reads `reach` elements. Each vector is read by `P` loads.
    #[inline(always)]
    fn pack_by<V: Lanes<Scalar = T>, const P: usize>(
        &self,
        strip: Packing,
        reach: usize,
        out: &mut [T],
        load: impl Fn(*const T) -> V,
    ) {
        let Packing { rows, columns, vectors, width } = strip;
        assert!(out.len() >= width * rows.len() && width >= vectors.len() * V::N);
        let offsets = || vectors.iter().flat_map(|vector| &vector.pieces[..P]).map(|(offset, _)| *offset);
        let (least, greatest) = (offsets().min().unwrap_or(0), offsets().max().unwrap_or(0));
        let inside = -least..self.data.len() as isize - greatest - reach as isize + 1;
        for (p, row) in self.rows[rows].iter().enumerate() {
            let (start, out) = (self.first + row, &mut out[p * width..][..width]);
            if !inside.contains(&start) {
                let elements = columns.iter().map(|column| self.data[(start + column) as usize]);
                out.iter_mut().zip(elements).for_each(|(out, element)| *out = element);
                continue;
            }
            let from = self.data.as_ptr().wrapping_offset(start);
            for (v, Pieces { pieces, .. }) in vectors.iter().enumerate() {
                let mut vector = load(from.wrapping_offset(pieces[0].0));
                // SAFETY: as in `pack`; a row has room for all vectors.
                unsafe {
                    for &(offset, lane) in &pieces[1..P] {
                        vector = vector.with_tail(load(from.wrapping_offset(offset)), lane);
                    }
                    vector.store(out.as_mut_ptr().add(v * V::N));
                }
            }
        }
    }
}

/// A strip to be packed: rows of B, the offsets of its columns, their vectors, and the elements of a packed row.
struct Packing<'a> {
    rows: Range<usize>,
    columns: &'a [isize],
    vectors: &'a [Pieces],
    width: usize,
}

impl Pieces {
    /// Cuts the columns of a vector of `n_lanes` into pieces whose elements are `step` apart in memory. Pieces beyond the last
    /// one begin behind the last lane.
    #[inline(always)]
    fn of(columns: &[isize], step: isize, n_lanes: usize) -> Pieces {
        let mut of = Pieces { pieces: [(columns[0], n_lanes); MOST_PIECES], n: 0 };
        for (lane, &column) in columns.iter().enumerate() {
            let offset = column - lane as isize * step;
            if lane == 0 || offset != of.pieces[of.n - 1].0 {
                of.pieces[of.n] = (offset, lane);
                of.n += 1;
            }
        }
        of
    }
}
