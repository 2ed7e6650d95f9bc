//! Matmul folds: the tiles of a product go to a row reduction while they are in cache, and the product is never stored.
//!
//! A chunk is a panel of rows and a piece of the columns, tile by tile. Each of its rows has a state of its own in the
//! workspace. The pieces of a row merge in their order, so results depend on shapes alone.

use super::super::interp::{Arg, Buffer, Frame, Op, Program, View};
use super::super::pool::Pool;
use super::product::{Product, Tile};
use super::scratch::WorkerScratch;
use engine_core::fusion::{Operand, RowsBody};
use engine_core::ir::DType;
use engine_core::op::RowFold;
use engine_core::op::kernel::{Elements, Memory, Share};
use engine_core::op::rows::merge_pieces;
use std::ops::Range;

/// The rows whose pieces one chunk merges.
const MERGED_ROWS: usize = 64;

/// The row reduction of a matmul fold, ready to run.
pub struct MatmulFold {
    body: RowsBody,
    fold: Box<dyn RowFold>,
    /// The register that holds the folded values, and their type.
    reg: usize,
    dtype: DType,
    /// The results; each run sets their addresses.
    results: Vec<Memory>,
    workspace: *mut u64,
}

// SAFETY: the workspace is an address in the executable's own arena.
unsafe impl Send for MatmulFold {}
// SAFETY: as above; chunks use disjoint parts of it.
unsafe impl Sync for MatmulFold {}

impl MatmulFold {
    /// Prepares a reduction; `workspace` is the kernel's workspace.
    pub fn new(body: &RowsBody, program: &Program, operands: &[Operand], workspace: *mut u8) -> MatmulFold {
        let folded = program.insts().find_map(|inst| match inst.op {
            Op::Fold(Arg::Local(reg)) => Some((reg, inst.dtype)),
            _ => None,
        });
        let (reg, dtype) = folded.unwrap_or_else(|| panic!("bug: a matmul fold has no value"));
        let memory = |&operand: &usize| {
            let ty = &operands[operand].ty;
            Memory { start: std::ptr::null_mut(), len: ty.numel(), dtype: ty.dtype }
        };
        MatmulFold {
            fold: body.consumer.fold(),
            reg,
            dtype,
            results: body.results.iter().map(memory).collect(),
            workspace: workspace.cast(),
            body: body.clone(),
        }
    }

    /// # Safety
    /// The caller must be the only user of the row's pieces.
    #[allow(clippy::mut_from_ref)]
    unsafe fn state(&self, row: usize, pieces: Range<usize>) -> &mut [u64] {
        let first = (row * self.body.n_pieces + pieces.start) * self.body.state_words;
        // SAFETY: the caller's; the workspace has room for the pieces of all rows.
        unsafe {
            std::slice::from_raw_parts_mut(self.workspace.add(first), pieces.len() * self.body.state_words)
        }
    }

    /// Adds a block of the product to the states of its rows.
    ///
    /// # Safety
    /// The view must hold the block, and the caller must be the only user of this piece of its rows.
    unsafe fn step(&self, view: View, first_row: usize, piece: usize, columns: Range<usize>, height: usize) {
        let (size, width) = (self.dtype.size(), columns.len());
        for row in 0..height {
            // SAFETY: the caller's.
            unsafe {
                let state = self.state(first_row + row, piece..piece + 1);
                let elements = |start: usize, len: usize| {
                    let start = view.start.wrapping_add(start * size).cast_mut();
                    Elements::new(Memory { start, len, dtype: self.dtype })
                };
                if view.is_scalar {
                    // All points have the same value.
                    columns.clone().for_each(|column| self.fold.step(state, column, elements(0, 1)));
                } else {
                    self.fold.step(state, columns.start, elements(row * width, width));
                }
            }
        }
    }

    /// Reduces the rows of a product.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and the launch must be the only user of the workspace.
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
        let (tile_rows, tile_columns) = product.tiles.largest();
        for row in panel.clone() {
            // SAFETY: the caller's.
            self.fold.init(unsafe { self.state(batch * m + row, piece..piece + 1) });
        }
        let n_tiles = n.div_ceil(tile_columns);
        let bound = |piece: usize| n_tiles * piece / self.body.n_pieces * tile_columns;
        for column in (bound(piece)..bound(piece + 1).min(n)).step_by(tile_columns) {
            let columns = column..(column + tile_columns).min(n);
            for row in panel.clone().step_by(tile_rows) {
                let rows = row..(row + tile_rows).min(panel.end);
                let (first_row, shape) = (batch * m + row, [rows.len(), columns.len()]);
                let (start, tile) = (scratch.tile.start(), Tile { batch, rows, columns: columns.clone() });
                // SAFETY: the caller's; the scratch has room for the largest tile.
                unsafe {
                    product.multiply(scratch, frame.buffers, tile, start, columns.len());
                    let first = [first_row, column];
                    let worker = &mut scratch.worker;
                    product.run_epilogue(frame, worker, start, first, shape, |worker, row, height| {
                        self.step(worker.get(self.reg), first_row + row, piece, columns.clone(), height);
                    });
                }
            }
        }
    }

    /// Merges the pieces of each row and writes the results.
    ///
    /// # Safety
    /// As for [`MatmulFold::run`].
    pub unsafe fn finish(&mut self, product: &Product, pool: &mut Pool, buffers: &[Buffer]) {
        for (memory, &operand) in self.results.iter_mut().zip(&self.body.results) {
            memory.start = buffers[operand].start;
        }
        let this = &*self;
        let n_rows = product.body.batch * product.body.m;
        pool.run(n_rows.div_ceil(MERGED_ROWS), &|chunk, _| {
            for row in chunk * MERGED_ROWS..((chunk + 1) * MERGED_ROWS).min(n_rows) {
                // SAFETY: the caller's; each row belongs to one chunk.
                unsafe {
                    let mut results = Share::new(&this.results, row..row + 1, n_rows);
                    merge_pieces(&*this.fold, this.state(row, 0..this.body.n_pieces), &mut results);
                }
            }
        });
    }
}
