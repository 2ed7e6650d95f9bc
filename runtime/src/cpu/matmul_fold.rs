//! Contractions whose rows are folded: the tiles of a product go to a row monoid while they are hot, and the product is
//! never stored.
//!
//! A chunk is a panel of rows times a piece of the columns, walked tile by tile; each row of it has a state of its own in
//! the workspace. The pieces of a row are merged in their order, so results depend on shapes alone.

use super::block::{Buffer, Frame, Worker};
use super::body::Call;
use super::matmul::{MatmulLaunch, ProductScratch};
use super::pool::Pool;
use super::program::{Arg, Op, Program};
use super::scalar::View;
use engine_core::fusion::{Operand, RowsBody};
use engine_core::ir::DType;
use engine_core::op::RowFold;
use engine_core::op::kernel::{Elements, Memory, Share};
use engine_core::op::rows::merge_pieces;
use std::ops::Range;

/// Rows whose pieces are merged by one chunk.
const MERGED_ROWS: usize = 64;

/// What folds the rows of a contraction.
pub struct RowsLaunch {
    body: RowsBody,
    fold: Box<dyn RowFold>,
    /// The register that holds the folded values, and their type.
    reg: usize,
    dtype: DType,
    /// The results; where they lie is filled in at each run.
    results: Vec<Memory>,
    workspace: *mut u64,
}

// SAFETY: the workspace is an address in the executable's own arena.
unsafe impl Send for RowsLaunch {}
// SAFETY: as above; chunks use disjoint parts of it.
unsafe impl Sync for RowsLaunch {}

impl RowsLaunch {
    /// Makes the fold of a contraction ready; `workspace` is the scratch that the plan has set aside for it.
    pub fn new(body: &RowsBody, program: &Program, operands: &[Operand], workspace: *mut u8) -> RowsLaunch {
        let folded = program.insts().find_map(|inst| match inst.op {
            Op::Fold(Arg::Local(reg)) => Some((reg, inst.dtype)),
            _ => None,
        });
        let (reg, dtype) = folded.unwrap_or_else(|| panic!("bug: a product folds nothing"));
        let memory = |&operand: &usize| {
            let ty = &operands[operand].ty;
            Memory { start: std::ptr::null_mut(), len: ty.numel(), dtype: ty.dtype }
        };
        RowsLaunch {
            fold: body.consumer.fold(),
            reg,
            dtype,
            results: body.results.iter().map(memory).collect(),
            workspace: workspace.cast(),
            body: body.clone(),
        }
    }

    /// # Safety
    /// Only one user of a row's piece at a time.
    #[allow(clippy::mut_from_ref)]
    unsafe fn state(&self, row: usize, pieces: Range<usize>) -> &mut [u64] {
        let first = (row * self.body.n_pieces + pieces.start) * self.body.state_words;
        // SAFETY: the caller's; the workspace has room for the pieces of all rows.
        unsafe {
            std::slice::from_raw_parts_mut(self.workspace.add(first), pieces.len() * self.body.state_words)
        }
    }

    /// Takes in a block of the product: `height` rows of `width` columns.
    ///
    /// # Safety
    /// The register must hold the block, and nobody else may use these rows' states for this piece.
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
                    // One number stands for all points.
                    columns.clone().for_each(|column| self.fold.step(state, column, elements(0, 1)));
                } else {
                    self.fold.step(state, columns.start, elements(row * width, width));
                }
            }
        }
    }
}

impl MatmulLaunch {
    /// Runs a contraction that folds its rows.
    ///
    /// # Safety
    /// As for [`MatmulLaunch::run`]; no other launch may use the workspace meanwhile.
    pub(super) unsafe fn run_folded(
        &self,
        rows: &RowsLaunch,
        frame: &Frame,
        pool: &mut Pool,
        workers: &mut [(Worker, ProductScratch)],
        call: Call,
    ) {
        let [batch, m, _] = self.extents();
        let n_panels = m.div_ceil(rows.body.panel_rows);
        let n_pieces = rows.body.n_pieces;
        pool.run_with(batch * n_panels * n_pieces, workers, |chunk, (worker, scratch)| {
            let (lead, piece) = (chunk / n_pieces, chunk % n_pieces);
            let first = lead % n_panels * rows.body.panel_rows;
            let panel = first..(first + rows.body.panel_rows).min(m);
            // SAFETY: the caller's; chunks have rows and pieces of their own.
            unsafe {
                self.fold_panel(rows, frame, (worker, scratch), call.buffers, [lead / n_panels, piece], panel)
            }
        });
    }

    unsafe fn fold_panel(
        &self,
        rows: &RowsLaunch,
        frame: &Frame,
        (worker, scratch): (&mut Worker, &mut ProductScratch),
        buffers: &[Buffer],
        [batch, piece]: [usize; 2],
        panel: Range<usize>,
    ) {
        let [_, m, n] = self.extents();
        let (tile_rows, tile_columns) = self.largest_tile();
        // SAFETY: the caller's.
        panel
            .clone()
            .for_each(|row| rows.fold.init(unsafe { rows.state(batch * m + row, piece..piece + 1) }));
        let n_tiles = n.div_ceil(tile_columns);
        let bound = |piece: usize| n_tiles * piece / rows.body.n_pieces * tile_columns;
        for column in (bound(piece)..bound(piece + 1).min(n)).step_by(tile_columns) {
            let columns = column..(column + tile_columns).min(n);
            for row in panel.clone().step_by(tile_rows) {
                let tile = row..(row + tile_rows).min(panel.end);
                // SAFETY: the caller's.
                unsafe {
                    self.tile_to_scratch(scratch, buffers, batch, tile.clone(), columns.clone());
                    let first_row = batch * m + row;
                    let shape = [tile.len(), columns.len()];
                    let start = scratch.tile_start();
                    self.run_epilogue(
                        frame,
                        worker,
                        start,
                        [first_row, column],
                        shape,
                        |worker, row, height| {
                            rows.step(worker.get(rows.reg), first_row + row, piece, columns.clone(), height);
                        },
                    );
                }
            }
        }
    }

    /// Merges the pieces of each row and writes the results.
    ///
    /// # Safety
    /// As for [`MatmulLaunch::run`]; no other launch may use the workspace meanwhile.
    pub(super) unsafe fn finish_rows(&self, rows: &mut RowsLaunch, pool: &mut Pool, buffers: &[Buffer]) {
        for (memory, &operand) in rows.results.iter_mut().zip(&rows.body.results) {
            memory.start = buffers[operand].start;
        }
        let rows = &*rows;
        let [batch, m, _] = self.extents();
        let n_rows = batch * m;
        pool.run(n_rows.div_ceil(MERGED_ROWS), &|chunk, _| {
            for row in chunk * MERGED_ROWS..((chunk + 1) * MERGED_ROWS).min(n_rows) {
                // SAFETY: the caller's; each row belongs to one chunk.
                unsafe {
                    let mut results = Share::new(&rows.results, row..row + 1, n_rows);
                    merge_pieces(&*rows.fold, rows.state(row, 0..rows.body.n_pieces), &mut results);
                }
            }
        });
    }
}
