//! Launches of matmuls: each tile of the product and, while it is in cache, its epilogue.

use super::super::interp::{Buffer, Frame, Sharing, plain_store};
use super::super::pool::Pool;
use super::call::{Call, KernelLaunch};
use super::column_blocks::ColumnBlocks;
use super::matmul_fold::MatmulFold;
use super::product::{Product, Tile};
use super::scratch::{LaunchSize, WorkerScratch};
use super::side_sum;
use super::split::Split;
use crate::device::DeviceError;
use engine_core::fusion::{MatmulBody, Operand};

/// A matmul, ready to run.
pub struct MatmulLaunch {
    product: Product,
    /// The operand that the bare accumulator goes to, if the epilogue does nothing else.
    plain: Option<usize>,
    /// The parts of the contraction, if it is split.
    split: Option<Split>,
    /// The reduction of the result's rows, if there is one.
    fold: Option<TileFold>,
    /// The matrices of a chunk. Small ones share an epilogue.
    n_together: usize,
}

/// What takes the tiles of a product that is not stored.
enum TileFold {
    Rows(MatmulFold),
    Blocks(ColumnBlocks),
}

impl KernelLaunch for MatmulLaunch {
    fn size(&self) -> LaunchSize {
        let size = self.product.size();
        match &self.fold {
            Some(TileFold::Blocks(blocks)) => {
                LaunchSize { tile: size.tile.max(blocks.tile_bytes(&self.product)), ..size }
            }
            _ => LaunchSize {
                parts: self.split.map_or(0, |split| split.bytes(&self.product)),
                tile: size.tile * self.n_together,
                ..size
            },
        }
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        let product = &self.product;
        let frame = product.frame(call);
        // SAFETY: the caller's; tiles and side sums are disjoint.
        unsafe {
            if let Some(halves) = &product.halves {
                halves.copy(product.body.dtype, pool, workers, call);
            }
            frame.begin(&mut workers[0].worker, None);
            // A fold stores no tiles.
            let n_groups = product.body.batch.div_ceil(self.n_together);
            let n_tiles = if self.fold.is_some() { 0 } else { n_groups * product.tiles.len() };
            match &self.fold {
                Some(TileFold::Rows(fold)) => fold.run(product, &frame, pool, workers),
                Some(TileFold::Blocks(fold)) => fold.run(product, &frame, pool, workers),
                None => {}
            }
            let parts = &workers[0].parts;
            let parts = Buffer { start: parts.start(), len: parts.bytes(), size: 1 };
            if let Some(split) = self.split {
                pool.run_with(split.n_chunks(product), workers, |chunk, scratch| {
                    split.multiply(product, scratch, call.buffers, chunk, parts);
                });
            }
            let sums = &product.body.side_sums;
            let n_sums: usize = sums.iter().map(|sum| side_sum::n_chunks(product, *sum)).sum();
            pool.run_with(n_tiles + n_sums, workers, |chunk, scratch| {
                if chunk < n_tiles {
                    return self.run_tile(&frame, scratch, chunk, parts);
                }
                let mut chunk = chunk - n_tiles;
                for sum in sums {
                    let n_chunks = side_sum::n_chunks(product, *sum);
                    if chunk < n_chunks {
                        return side_sum::run_chunk(product, call.buffers, *sum, chunk);
                    }
                    chunk -= n_chunks;
                }
            });
            if let Some(TileFold::Rows(fold)) = &mut self.fold {
                fold.finish(product, pool, call.buffers);
            }
        }
    }
}

impl MatmulLaunch {
    /// Compiles a matmul; `sharing` is the memory that each operand shares, `workspace` the kernel's workspace.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        body: &MatmulBody,
        operands: &[Operand],
        sharing: &[Sharing],
        workspace: *mut u8,
    ) -> Result<MatmulLaunch, DeviceError> {
        let product = Product::new(body, sharing)?;
        let fold = body.rows.as_ref().map(|rows| match ColumnBlocks::new(rows, &product.epilogue) {
            Some(blocks) => TileFold::Blocks(blocks),
            None => TileFold::Rows(MatmulFold::new(rows, &product.epilogue, operands, workspace)),
        });
        let split = Split::of(&product).filter(|_| fold.is_none());
        let n_together = if split.is_none() && fold.is_none() { product.n_together() } else { 1 };
        Ok(MatmulLaunch {
            plain: plain_store(&body.epilogue, product.dtype),
            split,
            fold,
            product,
            n_together,
        })
    }

    unsafe fn run_tile(&self, frame: &Frame, scratch: &mut WorkerScratch, chunk: usize, parts: Buffer) {
        let Product { body, tiles, .. } = &self.product;
        let (group, tile) = (chunk / tiles.len(), chunk % tiles.len());
        let batch = group * self.n_together;
        let n_matrices = self.n_together.min(body.batch - batch);
        let (rows, columns) = tiles.tile(tile);
        let first = [batch * body.m + rows.start, columns.start];
        let shape = [n_matrices * rows.len(), columns.len()];
        let (target, row_stride, size) = match self.plain {
            Some(operand) => {
                let Buffer { start, size, .. } = frame.buffers[operand];
                (start.wrapping_add((first[0] * body.n + first[1]) * size), body.n, size)
            }
            None => (scratch.tile.start(), columns.len(), self.product.dtype.size()),
        };
        // SAFETY: the caller's; a tile is inside the output, or inside the scratch for the largest one.
        unsafe {
            match self.split {
                Some(split) => split.add_up(&self.product, parts, (batch, rows, columns), target, row_stride),
                None => {
                    for i in 0..n_matrices {
                        let (rows, columns) = (rows.clone(), columns.clone());
                        let target = target.wrapping_add(i * rows.len() * row_stride * size);
                        let tile = Tile { batch: batch + i, rows, columns, depths: 0..body.k };
                        self.product.multiply(scratch, frame.buffers, tile, target, row_stride);
                    }
                }
            }
            if self.plain.is_none() {
                let worker = &mut scratch.worker;
                self.product.run_epilogue(frame, worker, target, first, shape, |_, _, _| {});
            }
        }
    }
}
