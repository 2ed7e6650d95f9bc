//! Matrices whose rows and columns are not evenly spaced, such as the windows of an image: implicit GEMM.

use super::super::simd::lanes::Lanes;
use super::matrix::Matrix;
use super::tiles::STRIP;
use engine_core::fusion::{Axis, UnevenAxes};
use std::ops::Range;

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

impl<T: Copy + Default> UnevenMatrix<'_, T> {
    /// Packs some rows and columns to rows of two vectors, padded with zeros.
    ///
    /// Neighbours in memory are copied by whole vectors, whose rest the next copy overwrites: `out` has room for a vector
    /// after the last row.
    #[inline(always)]
    pub(super) fn pack<V: Lanes<Scalar = T>>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [T],
    ) {
        let columns = &self.columns[columns];
        let mut pieces = [(0, 0); STRIP];
        let n_pieces = pieces_of(columns, V::N, &mut pieces);
        let (pieces, last) = (&pieces[..n_pieces], columns.iter().copied().max().unwrap_or(0));
        assert!(out.len() >= (2 * rows.len() + 1) * V::N);
        for (p, row) in self.rows[rows].iter().enumerate() {
            let (start, out) = (self.first + row, &mut out[p * 2 * V::N..]);
            if start + last + V::N as isize <= self.data.len() as isize {
                for &(at, column) in pieces {
                    // SAFETY: a vector from the last column on is inside the buffer, and there is room for one at each
                    // column of each row.
                    unsafe {
                        let from = self.data.as_ptr().offset(start + column);
                        V::load(from).store(out.as_mut_ptr().add(at));
                    }
                }
            } else {
                let elements = columns.iter().map(|column| self.data[(start + column) as usize]);
                out.iter_mut().zip(elements).for_each(|(out, element)| *out = element);
            }
            out[columns.len()..2 * V::N].fill(T::default());
        }
    }
}

/// Cuts columns into pieces of at most a vector whose elements are neighbours in memory: where each starts in the strip,
/// and its offset.
#[inline(always)]
fn pieces_of(columns: &[isize], width: usize, pieces: &mut [(usize, isize); STRIP]) -> usize {
    let mut n_pieces = 0;
    for (at, &column) in columns.iter().enumerate() {
        let goes_on = n_pieces > 0 && {
            let (start, first) = pieces[n_pieces - 1];
            at - start < width && column == first + (at - start) as isize
        };
        if !goes_on {
            pieces[n_pieces] = (at, column);
            n_pieces += 1;
        }
    }
    n_pieces
}
