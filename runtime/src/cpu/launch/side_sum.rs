//! Sums of a matmul's operands along the contracted axis, such as a bias gradient beside a weight gradient.

use super::super::interp::{Buffer, View, cast, slice_mut, with_type};
use super::product::Product;
use engine_core::fusion::{Side, SideSum};
use engine_core::ir::DType;
use engine_numerics::gemm::Matrix;
use engine_numerics::loops::reduce::{Fold, Foldable, combine};
use engine_numerics::loops::{Number, fold, fold_rows};

/// The columns of a side sum that one chunk takes.
const SIDE_COLUMNS: usize = 256;

fn extent(product: &Product, side: Side) -> usize {
    if side == Side::Lhs { product.body.m } else { product.body.n }
}

/// The chunks of a side sum.
pub fn n_chunks(product: &Product, sum: SideSum) -> usize {
    product.body.batch * extent(product, sum.side).div_ceil(SIDE_COLUMNS)
}

/// Runs one chunk of a side sum.
///
/// # Safety
/// As for [`Product::matrix`]; this worker must be the only user of the chunk's results.
pub unsafe fn run_chunk(product: &Product, buffers: &[Buffer], sum: SideSum, chunk: usize) {
    let SideSum { side, operand } = sum;
    let extent = extent(product, side);
    let n_chunks = extent.div_ceil(SIDE_COLUMNS);
    let (batch, first) = (chunk / n_chunks, chunk % n_chunks * SIDE_COLUMNS);
    let columns = first..(first + SIDE_COLUMNS).min(extent);
    let out = buffers[operand];
    let out_start = out.start.wrapping_add((batch * extent + first) * out.size);
    // SAFETY: the caller's; chunks are disjoint.
    unsafe {
        with_type!(product.dtype, T => {
            let matrix = product.matrix::<T>(buffers, side, batch);
            let matrix = if side == Side::Lhs { matrix.transposed() } else { matrix };
            let matrix = matrix.part(0..product.body.k, columns.clone());
            if product.dtype == product.body.dtype {
                sum_columns(matrix, slice_mut::<T>(out_start, columns.len()));
            } else {
                let mut wide = [T::neutral(Fold::Sum); SIDE_COLUMNS];
                let wide = &mut wide[..columns.len()];
                sum_columns(matrix, wide);
                let view = View { start: wide.as_ptr().cast(), is_scalar: false };
                cast(product.dtype, product.body.dtype, view, out_start, columns.len());
            }
        })
    }
}

/// The sum of each column, in an order that depends on the shape and the strides alone.
///
/// # Safety
/// No worker may write the matrix meanwhile.
unsafe fn sum_columns<T: Number>(matrix: Matrix<T>, out: &mut [T]) {
    let [n_rows, n_columns] = matrix.shape();
    out.fill(T::neutral(Fold::Sum));
    // SAFETY: neighbours in a row or in a column are a slice.
    unsafe {
        match matrix.strides() {
            _ if n_rows == 0 || n_columns == 0 => {}
            [row_stride, 1] if row_stride >= n_columns as isize => {
                let len = (n_rows - 1) * row_stride as usize + n_columns;
                let data = std::slice::from_raw_parts(matrix.at(0, 0), len);
                fold_rows(Fold::Sum, data, n_rows, row_stride as usize, out);
            }
            [1, _] => {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = fold(Fold::Sum, std::slice::from_raw_parts(matrix.at(0, column), n_rows));
                }
            }
            _ => {
                for row in 0..n_rows {
                    for (column, out) in out.iter_mut().enumerate() {
                        *out = combine(Fold::Sum, *out, *matrix.at(row, column));
                    }
                }
            }
        }
    }
}
