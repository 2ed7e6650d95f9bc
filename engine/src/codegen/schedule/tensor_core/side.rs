//! One of the two matrices of a product, as the copy engine reads it.

use crate::codegen::tensor_map::TensorMap;
use crate::fusion::MatrixOperand;
use crate::ir::DType;

/// The alignment of rows in memory, in bytes.
const ALIGNMENT: usize = 16;

/// A matrix. Its lines are rows of the left matrix, columns of the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Side {
    operand: usize,
    dtype: DType,
    offset: usize,
    /// Extents along memory, across, and of the batch.
    extents: [usize; 3],
    strides: [usize; 2],
    /// Whether neighbours in memory are neighbours along the contracted axis.
    pub is_along: bool,
    /// Whether each product of a batch has its own matrix.
    pub is_batched: bool,
}

impl Side {
    /// A matrix with its strides from line to line and along the contracted axis, and those extents. None if the copy
    /// engine or the tensor cores cannot read it.
    pub fn of(
        matrix: MatrixOperand,
        strides: [i64; 2],
        [lines, along]: [usize; 2],
        batch: usize,
        dtype: DType,
    ) -> Option<Side> {
        let is_along = strides[1] == 1;
        // `wgmma` transposes types of 16 bits only.
        if !is_along && (strides[0] != 1 || dtype.size() != 2) {
            return None;
        }
        let (inner, outer) = if is_along { (along, lines) } else { (lines, along) };
        let row = usize::try_from(if is_along { strides[0] } else { strides[1] }).ok()?;
        let row = if outer == 1 { inner.next_multiple_of(ALIGNMENT) } else { row };
        let is_batched = batch > 1 && matrix.batch != 0;
        let of_batch = if is_batched { usize::try_from(matrix.batch).ok()? } else { row * outer };
        let offset = usize::try_from(matrix.offset).ok()?;
        let is_aligned = |n: usize| (n * dtype.size()).is_multiple_of(ALIGNMENT);
        let is_readable = row >= inner && [row, of_batch, offset].into_iter().all(is_aligned);
        is_readable.then_some(Side {
            operand: matrix.operand,
            dtype,
            offset,
            extents: [inner, outer, if is_batched { batch } else { 1 }],
            strides: [row, of_batch],
            is_along,
            is_batched,
        })
    }

    /// The same where each matrix is a dense stack of so many.
    pub fn stacked(self, n: usize) -> Side {
        let ([inner, outer, batch], row) = (self.extents, self.strides[0]);
        Side { extents: [inner, outer, batch * n], strides: [row, row * outer], ..self }
    }

    /// The tensor map for tiles of `lines` lines and `depth` elements along the contracted axis.
    pub fn map(&self, lines: usize, depth: usize) -> TensorMap {
        let &Side { operand, dtype, offset, extents, strides, is_along, .. } = self;
        let of_box = if is_along { [depth, lines] } else { [depth, depth] };
        let ([inner, outer, batch], [row, of_batch]) = (extents, strides);
        let (extents, strides) = ([inner, outer, batch, 1, 1], [row, of_batch, 0, 0]);
        TensorMap { argument: operand, dtype, offset, n_axes: 3, extents, strides, of_box }
    }
}
