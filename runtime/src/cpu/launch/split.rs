//! Split-K: products with few results and a long contraction, such as gradients of weights. Each part of the contraction is
//! a product of its own, which reads rows of both operands in order, once. The parts of a tile are then added up in their
//! order, so results depend on shapes alone.

use super::super::interp::{Buffer, slice_mut};
use super::product::{Product, Tile};
use super::scratch::WorkerScratch;
use engine_core::ir::DType;
use engine_numerics::gemm::n_parts;
use engine_numerics::loops::reduce::Fold;
use engine_numerics::loops::{Number, fold_rows};
use std::ops::Range;

/// The parts of a product's contraction.
#[derive(Clone, Copy)]
pub struct Split {
    n_parts: usize,
}

impl Split {
    /// The parts of a product; `None` if it is computed at once.
    pub fn of(product: &Product) -> Option<Split> {
        let body = &product.body;
        // An operand that is contiguous along the contraction is read in order at once.
        let has_rows = body.lhs.row == 1 && body.rhs.col == 1;
        let has_rows = has_rows && body.uneven[1].is_none() && product.halves.is_none();
        let n_parts = if has_rows { n_parts(body.m, body.n, body.k) } else { 1 };
        (product.dtype.is_float() && n_parts > 1).then_some(Split { n_parts })
    }

    /// The bytes of all parts of all matrices.
    pub fn bytes(self, product: &Product) -> usize {
        self.n_chunks(product) * product.body.m * product.body.n * product.dtype.size()
    }

    /// The number of products.
    pub fn n_chunks(self, product: &Product) -> usize {
        product.body.batch * self.n_parts
    }

    /// Computes the product of one part to its place among `parts`.
    ///
    /// # Safety
    /// As for [`Product::multiply`]; `parts` must have the bytes of all parts.
    pub unsafe fn multiply(
        self,
        product: &Product,
        scratch: &mut WorkerScratch,
        buffers: &[Buffer],
        chunk: usize,
        parts: Buffer,
    ) {
        let (m, n, k) = (product.body.m, product.body.n, product.body.k);
        let (batch, part) = (chunk / self.n_parts, chunk % self.n_parts);
        let depths = k * part / self.n_parts..k * (part + 1) / self.n_parts;
        let target = parts.start.wrapping_add(chunk * m * n * product.dtype.size());
        // SAFETY: the caller's; each part has a place of its own.
        unsafe {
            product.multiply(scratch, buffers, Tile { batch, rows: 0..m, columns: 0..n, depths }, target, n)
        };
    }

    /// Adds up the parts of a tile to `target`, its rows `row_stride` elements apart.
    ///
    /// # Safety
    /// All parts must be computed, and the target valid for the tile.
    pub unsafe fn add_up(
        self,
        product: &Product,
        parts: Buffer,
        (batch, rows, columns): (usize, Range<usize>, Range<usize>),
        target: *mut u8,
        row_stride: usize,
    ) {
        let (m, n) = (product.body.m, product.body.n);
        for (i, row) in rows.enumerate() {
            let first = batch * self.n_parts * m * n + row * n + columns.start;
            // SAFETY: the caller's.
            unsafe {
                match product.dtype {
                    DType::F64 => {
                        self.add_row::<f64>(parts.start, first, m * n, target, i * row_stride, columns.len())
                    }
                    _ => {
                        self.add_row::<f32>(parts.start, first, m * n, target, i * row_stride, columns.len())
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`Split::add_up`].
    unsafe fn add_row<T: Number>(
        self,
        parts: *const u8,
        first: usize,
        stride: usize,
        target: *mut u8,
        place: usize,
        len: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let from = parts.cast::<T>().add(first);
            let data = std::slice::from_raw_parts(from, (self.n_parts - 1) * stride + len);
            let out = slice_mut::<T>(target.cast::<T>().add(place).cast(), len);
            out.fill(T::neutral(Fold::Sum));
            fold_rows(Fold::Sum, data, self.n_parts, stride, out);
        }
    }
}
