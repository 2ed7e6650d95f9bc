//! Matmul folds: the tiles of a product go to a row reduction while they are in cache.
//!
//! Each piece of a row has a state of its own in the workspace. The pieces of a row merge in their order, so results depend
//! on shapes alone.

use super::super::interp::{Buffer, Frame, Program, View};
use super::super::pool::Pool;
use super::panels::{Panels, TakesTiles, folded};
use super::product::Product;
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
        let (reg, dtype) = folded(program);
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
        let (rows, columns) = product.tiles.largest();
        let panels = Panels { product, frame, body: &self.body, reg: self.reg, tile: [rows, columns] };
        // SAFETY: the caller's; the scratch has room for the product's largest tile.
        unsafe { panels.walk(self, pool, workers) }
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

impl TakesTiles for MatmulFold {
    unsafe fn begin(&self, rows: Range<usize>, piece: usize) {
        for row in rows {
            // SAFETY: the caller's.
            self.fold.init(unsafe { self.state(row, piece..piece + 1) });
        }
    }

    unsafe fn take(&self, view: View, rows: Range<usize>, columns: Range<usize>, piece: usize) {
        let (size, width) = (self.dtype.size(), columns.len());
        let elements = |start: usize, len: usize| {
            let start = view.start.wrapping_add(start * size).cast_mut();
            // SAFETY: the caller's.
            unsafe { Elements::new(Memory { start, len, dtype: self.dtype }) }
        };
        for (at, row) in rows.enumerate() {
            // SAFETY: the caller's.
            let state = unsafe { self.state(row, piece..piece + 1) };
            if view.is_scalar {
                // All points have the same value.
                columns.clone().for_each(|column| self.fold.step(state, column, elements(0, 1)));
            } else {
                self.fold.step(state, columns.start, elements(at * width, width));
            }
        }
    }
}
