//! Products that are not stored: each tile goes to a reduction while it is in cache.
//!
//! A chunk of work is a panel of rows and a piece of the columns, tile by tile.

use super::super::interp::{Arg, Frame, Op, Program, View};
use super::super::pool::Pool;
use super::product::{Product, Tile};
use super::scratch::WorkerScratch;
use engine_core::fusion::RowsBody;
use engine_core::ir::DType;
use std::ops::Range;

/// A reduction of the rows of a product.
pub trait TakesTiles: Sync {
    /// Begins with some rows and a piece of their columns.
    ///
    /// # Safety
    /// The caller must be the only user of this piece of the rows.
    unsafe fn begin(&self, rows: Range<usize>, piece: usize);

    /// Takes some rows and columns of a tile.
    ///
    /// # Safety
    /// The view must hold the rows and columns, and the caller must be the only user of this piece of the rows.
    unsafe fn take(&self, view: View, rows: Range<usize>, columns: Range<usize>, piece: usize);
}

/// The register of an epilogue that holds the values to reduce, and their type.
pub fn folded(epilogue: &Program) -> (usize, DType) {
    let mut folded = epilogue.insts().filter_map(|inst| match inst.op {
        Op::Fold(Arg::Local(reg)) => Some((reg, inst.dtype)),
        _ => None,
    });
    folded.next().unwrap_or_else(|| panic!("bug: a matmul fold has no value"))
}

/// The walk over the tiles of a product.
pub struct Panels<'p> {
    pub product: &'p Product,
    pub frame: &'p Frame<'p>,
    pub body: &'p RowsBody,
    /// The register that holds the values to reduce.
    pub reg: usize,
    /// Rows and columns of a tile.
    pub tile: [usize; 2],
}

impl Panels<'_> {
    /// Hands each tile to a reduction. Pieces of a row run in any order, the tiles of a piece in ascending order.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, the scratch must have room for a tile, and the launch must be the only user
    /// of the reduction's memory.
    pub unsafe fn walk(&self, reduction: &impl TakesTiles, pool: &mut Pool, workers: &mut [WorkerScratch]) {
        let (batch, m) = (self.product.body.batch, self.product.body.m);
        let RowsBody { panel_rows, n_pieces, .. } = *self.body;
        let n_panels = m.div_ceil(panel_rows);
        pool.run_with(batch * n_panels * n_pieces, workers, |chunk, scratch| {
            let (lead, piece) = (chunk / n_pieces, chunk % n_pieces);
            let first = lead % n_panels * panel_rows;
            let panel = first..(first + panel_rows).min(m);
            // SAFETY: the caller's; chunks have rows and pieces of their own.
            unsafe { self.panel(reduction, scratch, [lead / n_panels, piece], panel) }
        });
    }

    unsafe fn panel(
        &self,
        reduction: &impl TakesTiles,
        scratch: &mut WorkerScratch,
        [batch, piece]: [usize; 2],
        panel: Range<usize>,
    ) {
        let (m, n) = (self.product.body.m, self.product.body.n);
        let [tile_rows, tile_columns] = self.tile;
        // SAFETY: the caller's.
        unsafe { reduction.begin(batch * m + panel.start..batch * m + panel.end, piece) };
        let n_tiles = n.div_ceil(tile_columns);
        let bound = |piece: usize| n_tiles * piece / self.body.n_pieces * tile_columns;
        for column in (bound(piece)..bound(piece + 1).min(n)).step_by(tile_columns) {
            let columns = column..(column + tile_columns).min(n);
            for row in panel.clone().step_by(tile_rows) {
                let rows = row..(row + tile_rows).min(panel.end);
                let (first, shape) = ([batch * m + row, column], [rows.len(), columns.len()]);
                let (start, tile) = (
                    scratch.tile.start(),
                    Tile { batch, rows, columns: columns.clone(), depths: 0..self.product.body.k },
                );
                // SAFETY: the caller's; the scratch has room for a tile.
                unsafe {
                    self.product.multiply(scratch, self.frame.buffers, tile, start, columns.len());
                    let worker = &mut scratch.worker;
                    self.product.run_epilogue(
                        self.frame,
                        worker,
                        start,
                        first,
                        shape,
                        |worker, row, height| {
                            let rows = first[0] + row..first[0] + row + height;
                            reduction.take(worker.get(self.reg), rows, columns.clone(), piece);
                        },
                    );
                }
            }
        }
    }
}
