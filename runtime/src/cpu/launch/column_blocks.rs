//! Reductions of blocks of columns: the tiles of a product are folded while they are in cache, and the product is never
//! stored.

use super::super::interp::{Arg, Buffer, Frame, Op, Program, View, with_type};
use super::super::loops::reduce::{Fold, Foldable, fold_blocks};
use super::super::pool::Pool;
use super::product::{Product, Tile};
use super::scratch::WorkerScratch;
use engine_core::fusion::{RowConsumer, RowsBody};
use engine_core::ir::DType;
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
        let reg = program.insts().find_map(|inst| match inst.op {
            Op::Fold(Arg::Local(reg)) => Some(reg),
            _ => None,
        });
        let reg = reg.unwrap_or_else(|| panic!("bug: a matmul fold has no value"));
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
        let (batch, m) = (product.body.batch, product.body.m);
        let RowsBody { panel_rows, n_pieces, .. } = self.body;
        let n_panels = m.div_ceil(panel_rows);
        pool.run_with(batch * n_panels * n_pieces, workers, |chunk, scratch| {
            let (lead, piece) = (chunk / n_pieces, chunk % n_pieces);
            let first = lead % n_panels * panel_rows;
            let panel = first..(first + panel_rows).min(m);
            // SAFETY: the caller's; chunks have rows and pieces of their own.
            unsafe { self.run_panel(product, frame, scratch, [lead / n_panels, piece], panel) }
        });
    }

    unsafe fn run_panel(
        &self,
        product: &Product,
        frame: &Frame,
        scratch: &mut WorkerScratch,
        [batch, piece]: [usize; 2],
        panel: Range<usize>,
    ) {
        let (m, n) = (product.body.m, product.body.n);
        let [tile_rows, tile_columns] = self.tile(product);
        let n_tiles = n.div_ceil(tile_columns);
        let bound = |piece: usize| n_tiles * piece / self.body.n_pieces * tile_columns;
        for column in (bound(piece)..bound(piece + 1).min(n)).step_by(tile_columns) {
            let columns = column..(column + tile_columns).min(n);
            for row in panel.clone().step_by(tile_rows) {
                let rows = row..(row + tile_rows).min(panel.end);
                let (first_row, shape) = (batch * m + row, [rows.len(), columns.len()]);
                let (start, tile) = (scratch.tile.start(), Tile { batch, rows, columns: columns.clone() });
                // SAFETY: the caller's; the scratch has room for the tile.
                unsafe {
                    product.multiply(scratch, frame.buffers, tile, start, columns.len());
                    let worker = &mut scratch.worker;
                    product.run_epilogue(
                        frame,
                        worker,
                        start,
                        [first_row, column],
                        shape,
                        |worker, row, height| {
                            let rows = first_row + row..first_row + row + height;
                            self.fold(
                                worker.get(self.reg),
                                frame.buffers[self.result],
                                n,
                                rows,
                                columns.clone(),
                            );
                        },
                    );
                }
            }
        }
    }

    /// Rows and columns of a tile: whole blocks, in the scratch of the product's largest tile.
    fn tile(&self, product: &Product) -> [usize; 2] {
        let (rows, columns) = product.tiles.largest();
        let whole = (columns / self.width * self.width).max(self.width);
        [(rows * columns / whole).clamp(1, rows), whole]
    }

    /// Folds a block of the product's rows and columns.
    ///
    /// # Safety
    /// The view must hold the block, and the caller must be the only user of its results.
    unsafe fn fold(&self, view: View, result: Buffer, n: usize, rows: Range<usize>, columns: Range<usize>) {
        with_type!(self.dtype, T => {
            let width = columns.len();
            let first = columns.start / self.width;
            for (at, row) in rows.enumerate() {
                // SAFETY: the caller's.
                let out = unsafe {
                    let start = result.start.cast::<T>().add(row * (n / self.width) + first);
                    std::slice::from_raw_parts_mut(start, width / self.width)
                };
                if view.is_scalar {
                    // SAFETY: the caller's; all points have the same value.
                    out.fill(self.of_equals(unsafe { *view.start.cast::<T>() }));
                } else {
                    // SAFETY: the caller's.
                    let x = unsafe {
                        std::slice::from_raw_parts(view.start.cast::<T>().add(at * width), width)
                    };
                    fold_blocks(self.fold, x, self.width, out);
                }
            }
        });
    }

    /// The fold of a block of equal values.
    fn of_equals<T: Foldable>(&self, value: T) -> T {
        let block = vec![value; self.width];
        let mut out = [value];
        fold_blocks(self.fold, &block, self.width, &mut out);
        out[0]
    }
}
