//! Reductions of blocks of columns: the tiles of a product are folded while they are in cache.

use super::super::interp::{Buffer, Frame, Program, View, with_type};
use super::super::pool::Pool;
use super::panels::{Panels, TakesTiles, folded};
use super::product::Product;
use super::scratch::WorkerScratch;
use engine_core::fusion::{RowConsumer, RowsBody};
use engine_core::ir::DType;
use engine_numerics::loops::reduce::Fold;
use engine_numerics::loops::{Number, fold_blocks};
use std::ops::Range;

/// The reduction of a matmul's blocks of columns, ready to run.
pub struct ColumnBlocks {
    fold: Fold,
    /// Columns of a block.
    width: usize,
    /// The register that holds the folded values, and their type.
    reg: usize,
    dtype: DType,
    /// The operand of the result.
    result: usize,
    body: RowsBody,
}

impl ColumnBlocks {
    /// The reduction of a body, unless it folds whole rows.
    pub fn new(body: &RowsBody, program: &Program) -> Option<ColumnBlocks> {
        let RowConsumer::Blocks { monoid, dtype, columns } = body.consumer else { return None };
        let (reg, _) = folded(program);
        let result = body.results[0];
        Some(ColumnBlocks { fold: Fold::of(monoid), width: columns, reg, dtype, result, body: body.clone() })
    }

    /// Reduces the blocks of a product.
    ///
    /// # Safety
    /// The buffers must be those of the kernel.
    pub unsafe fn run(
        &self,
        product: &Product,
        frame: &Frame,
        pool: &mut Pool,
        workers: &mut [WorkerScratch],
    ) {
        let result = frame.buffers[self.result];
        let panels = Panels { product, frame, body: &self.body, reg: self.reg, tile: self.tile(product) };
        // SAFETY: the caller's; `tile_bytes` is what the scratch has at the least.
        unsafe { panels.walk(&Blocks { of: self, result, n: product.body.n }, pool, workers) }
    }

    /// The bytes of a tile.
    pub fn tile_bytes(&self, product: &Product) -> usize {
        self.tile(product).iter().product::<usize>() * product.dtype.size()
    }

    /// Rows and columns of a tile: whole blocks, and no more elements than the product's largest tile, unless one row of one
    /// block has more.
    fn tile(&self, product: &Product) -> [usize; 2] {
        let (rows, columns) = product.tiles.largest();
        let whole = (columns / self.width * self.width).max(self.width);
        [(rows * columns / whole).clamp(1, rows), whole]
    }

    /// The fold of a block of equal values.
    fn of_equals<T: Number>(&self, value: T) -> T {
        let block = vec![value; self.width];
        let mut out = [value];
        fold_blocks(self.fold, &block, self.width, &mut out);
        out[0]
    }
}

/// The blocks of a run and the result they go to.
struct Blocks<'b> {
    of: &'b ColumnBlocks,
    result: Buffer,
    /// Columns of the product.
    n: usize,
}

impl TakesTiles for Blocks<'_> {
    unsafe fn begin(&self, _rows: Range<usize>, _piece: usize) {}

    unsafe fn take(&self, view: View, rows: Range<usize>, columns: Range<usize>, _piece: usize) {
        let ColumnBlocks { fold, width: block, dtype, .. } = *self.of;
        with_type!(dtype, T => {
            let width = columns.len();
            for (at, row) in rows.enumerate() {
                // SAFETY: the caller's; each block of a row has an element of the result.
                let out = unsafe {
                    let first = row * (self.n / block) + columns.start / block;
                    std::slice::from_raw_parts_mut(self.result.start.cast::<T>().add(first), width / block)
                };
                if view.is_scalar {
                    // SAFETY: the caller's; all points have the same value.
                    out.fill(self.of.of_equals(unsafe { *view.start.cast::<T>() }));
                } else {
                    // SAFETY: the caller's.
                    let x = unsafe {
                        std::slice::from_raw_parts(view.start.cast::<T>().add(at * width), width)
                    };
                    fold_blocks(fold, x, block, out);
                }
            }
        });
    }
}
