//! Matrices whose rows and columns are not evenly spaced, such as the windows of an image: implicit GEMM.

use super::super::simd::lanes::Lanes;
use super::super::simd::prefetch::read_ahead;
use super::matrix::Matrix;
use super::tiles::STRIP;
use engine_core::fusion::{Axis, UnevenAxes};
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
        Offsets { batch, rows, columns, reach, strides }
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
        Right::Uneven(UnevenMatrix { data, first, rows: &self.rows, columns: &self.columns[columns] })
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
}

/// Pieces of at most so many elements, such as the places of a small window, are copied by less than a vector.
const SHORT: usize = 4;

impl<T: Copy + Default> UnevenMatrix<'_, T> {
    /// Packs some rows and columns to rows of two vectors, padded with zeros.
    ///
    /// Elements at even distances are copied by whole vectors, whose rest the next copy overwrites: `out` has room for a
    /// vector after the last row.
    #[inline(always)]
    pub(super) fn pack<V: Lanes<Scalar = T>>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [T],
    ) {
        let columns = &self.columns[columns];
        let step = if columns.len() > 1 && columns[1] - columns[0] == 2 { 2 } else { 1 };
        let mut pieces = [(0, 0); STRIP];
        let mut n_pieces = pieces_of(columns, V::N, step, &mut pieces);
        let is_short = step == 1 && columns.len() <= SHORT * n_pieces;
        if is_short {
            n_pieces = pieces_of(columns, SHORT, step, &mut pieces);
        }
        let strip = Packing { rows, columns, pieces: &pieces[..n_pieces], width: 2 * V::N };
        // SAFETY: the vectors belong to the instruction set that runs.
        match (step, is_short) {
            (2, _) => self.pack_by(strip, 2 * V::N, out, |from, to| unsafe { V::load_even(from).store(to) }),
            (_, true) => self.pack_by(strip, SHORT, out, |from, to| unsafe {
                to.cast::<[T; SHORT]>().write_unaligned(from.cast::<[T; SHORT]>().read_unaligned());
            }),
            _ => self.pack_by(strip, V::N, out, |from, to| unsafe { V::load(from).store(to) }),
        }
    }

    /// Packs a strip by a copy that reads `reach` elements.
    #[inline(always)]
    fn pack_by(&self, strip: Packing, reach: usize, out: &mut [T], copy: impl Fn(*const T, *mut T)) {
        let Packing { rows, columns, pieces, width } = strip;
        let last = columns.iter().copied().max().unwrap_or(0);
        assert!(out.len() >= width * rows.len() + width / 2);
        for (p, row) in self.rows[rows].iter().enumerate() {
            let (start, out) = (self.first + row, &mut out[p * width..]);
            if start + last + reach as isize <= self.data.len() as isize {
                for &(at, column) in pieces {
                    // SAFETY: `reach` elements from the last column on are inside the buffer, and there is room for a
                    // vector at each column of each row.
                    unsafe {
                        copy(self.data.as_ptr().offset(start + column), out.as_mut_ptr().add(at));
                    }
                }
            } else {
                let elements = columns.iter().map(|column| self.data[(start + column) as usize]);
                out.iter_mut().zip(elements).for_each(|(out, element)| *out = element);
            }
            out[columns.len()..width].fill(T::default());
        }
    }
}

/// A strip to be packed: rows of B, the offsets of its columns, their pieces, and the elements of a packed row.
struct Packing<'a> {
    rows: Range<usize>,
    columns: &'a [isize],
    pieces: &'a [(usize, isize)],
    width: usize,
}

/// Cuts columns into pieces of at most a vector whose elements are `step` apart in memory: where each starts in the strip,
/// and its offset.
#[inline(always)]
fn pieces_of(columns: &[isize], width: usize, step: isize, pieces: &mut [(usize, isize); STRIP]) -> usize {
    let mut n_pieces = 0;
    for (at, &column) in columns.iter().enumerate() {
        let goes_on = n_pieces > 0 && {
            let (start, first) = pieces[n_pieces - 1];
            at - start < width && column == first + (at - start) as isize * step
        };
        if !goes_on {
            pieces[n_pieces] = (at, column);
            n_pieces += 1;
        }
    }
    n_pieces
}
