//! Launches of attention: scores of a block of queries, rows over them, and the weighted sum of values, all while the
//! block is in the second-level cache.
//!
//! A block is a number of rows of scores, from one matrix or from several small ones; its size follows from the shape
//! alone. Operands are read where they lie; rows picked by an index are read through their addresses, and copied only
//! where many queries share them.

use super::block::{ScratchSize, Worker};
use super::body::Call;
use super::gemm::{Matrix, Scratch, TileMut, gemm_tile, scores_of_row, weighted_sum};
use super::matmul::{ProductScratch, plain_store};
use super::matrix_source::{BodyRun, Given, MatrixSource, MatrixSourceSize, Reader, dense, with_store};
use super::memory::Memory;
use super::pool::Pool;
use super::program::Sharing;
use super::simd::isa::Float;
use crate::device::DeviceError;
use engine_core::fusion::{AttentionBody, Source};
use engine_core::ir::DType;
use std::ops::Range;

/// Bytes of scores and weights that a block may take, in the second-level cache.
const BLOCK_BYTES: usize = 512 * 1024;
/// Most rows of scores in a block.
const MOST_ROWS: usize = 128;
/// Fewer rows than this are multiplied row by row.
const FEW_ROWS: usize = 4;

/// An attention, ready to run.
pub struct AttentionLaunch {
    body: AttentionBody,
    /// The type that products are added up in.
    dtype: DType,
    /// Rows of scores in a block.
    block: usize,
    query: MatrixSource,
    key: MatrixSource,
    value: MatrixSource,
    rows: BodyRun,
    end: BodyRun,
    /// The operand that the bare result goes to, if that is all there is to the end.
    plain: Option<usize>,
}

/// Scratch of one worker for attention.
pub struct AttentionScratch {
    scores: Memory,
    weights: Memory,
    query: Memory,
    matrix: Memory,
    end: Memory,
}

/// Bytes of scratch that attention needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionSize {
    scores: usize,
    query: usize,
    matrix: usize,
    end: usize,
}

impl AttentionSize {
    /// Enough for both.
    pub fn max(self, other: AttentionSize) -> AttentionSize {
        AttentionSize {
            scores: self.scores.max(other.scores),
            query: self.query.max(other.query),
            matrix: self.matrix.max(other.matrix),
            end: self.end.max(other.end),
        }
    }
}

impl AttentionScratch {
    /// Scratch of that size.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(size: AttentionSize) -> Result<AttentionScratch, DeviceError> {
        Ok(AttentionScratch {
            scores: Memory::new(size.scores)?,
            weights: Memory::new(size.scores)?,
            query: Memory::new(size.query)?,
            matrix: Memory::new(size.matrix)?,
            end: Memory::new(size.end)?,
        })
    }
}

impl AttentionLaunch {
    /// Compiles an attention; `sharing` tells by operand whether its memory is read as well.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &AttentionBody, sharing: &[Sharing]) -> Result<AttentionLaunch, DeviceError> {
        let dtype = body.dtype.accumulator();
        let feed = |source: &Source, rows: usize| MatrixSource::new(source, rows, dtype, sharing);
        Ok(AttentionLaunch {
            query: feed(&body.query, body.m)?,
            key: feed(&body.key, body.n)?,
            value: feed(&body.value, body.n)?,
            rows: BodyRun::new(&with_store(&body.rows, body.weight, dtype, sharing.len()), sharing, dtype)?,
            end: BodyRun::new(&body.end, sharing, dtype)?,
            plain: plain_store(&body.end, dtype),
            block: block_rows(body, dtype),
            dtype,
            body: body.clone(),
        })
    }

    /// The scratch that a worker needs for its tiles.
    pub fn scratch(&self) -> ScratchSize {
        let sizes = self.tile_runs().map(BodyRun::scratch);
        sizes.fold(ScratchSize::default(), ScratchSize::max)
    }

    /// The scratch that a worker needs beyond that.
    pub fn attention_size(&self) -> AttentionSize {
        let AttentionBody { n, k, width, .. } = self.body;
        let size = self.dtype.size();
        AttentionSize {
            scores: self.block * n * size,
            query: self.block * k * size,
            matrix: n * k.max(width) * size,
            end: self.block * width * size,
        }
    }

    /// The scratch that a worker needs for its sources.
    pub fn source_size(&self) -> MatrixSourceSize {
        let AttentionBody { n, k, width, .. } = self.body;
        let row = k.max(width) * self.dtype.size();
        MatrixSourceSize { row, n_rows: n, n_operands: self.rows.n_operands(), computed: 0 }
    }

    fn tile_runs(&self) -> impl Iterator<Item = &BodyRun> {
        let feeds = [&self.query, &self.key, &self.value].into_iter().filter_map(MatrixSource::tile_run);
        feeds.chain([&self.rows, &self.end])
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and nobody else may use what it writes.
    pub unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [(Worker, ProductScratch)], call: Call) {
        // SAFETY: the caller's; blocks are disjoint.
        unsafe {
            for run in self.tile_runs() {
                run.begin(call, &mut workers[0].0);
            }
            pool.run_with(self.n_blocks(), workers, |block, (worker, scratch)| match self.dtype {
                DType::F64 => {
                    let reader = Reader { call, worker, scratch: &mut scratch.feed };
                    self.run_block::<f64>(reader, &mut scratch.f64, &scratch.attend, block);
                }
                _ => {
                    let reader = Reader { call, worker, scratch: &mut scratch.feed };
                    self.run_block::<f32>(reader, &mut scratch.f32, &scratch.attend, block);
                }
            });
        }
    }

    // ---- Blocks.

    /// Blocks of one matrix, if it has more rows than a block.
    fn blocks_per_matrix(&self) -> Option<usize> {
        (self.body.m > self.block).then(|| self.body.m.div_ceil(self.block))
    }

    fn matrices_per_block(&self) -> usize {
        (self.block / self.body.m).max(1)
    }

    fn n_blocks(&self) -> usize {
        match self.blocks_per_matrix() {
            Some(n_blocks) => self.body.batch * n_blocks,
            None => self.body.batch.div_ceil(self.matrices_per_block()),
        }
    }

    /// The matrices of a block, and its rows in each of them.
    fn parts(&self, block: usize) -> (Range<usize>, Range<usize>) {
        let AttentionBody { batch, m, .. } = self.body;
        match self.blocks_per_matrix() {
            Some(n_blocks) => {
                let (matrix, first) = (block / n_blocks, block % n_blocks * self.block);
                (matrix..matrix + 1, first..(first + self.block).min(m))
            }
            None => {
                let first = block * self.matrices_per_block();
                (first..(first + self.matrices_per_block()).min(batch), 0..m)
            }
        }
    }

    unsafe fn run_block<T: Float>(
        &self,
        mut reader: Reader,
        products: &mut Scratch<T>,
        scratch: &AttentionScratch,
        block: usize,
    ) {
        let AttentionBody { m, n, k, width, .. } = self.body;
        let (matrices, rows) = self.parts(block);
        let first_row = matrices.start * m + rows.start;
        let n_rows = matrices.len() * rows.len();
        let end = match self.plain {
            Some(operand) => {
                let out = reader.call.buffers[operand];
                out.start.wrapping_add(first_row * width * out.size)
            }
            None => scratch.end.start(),
        };
        let (scores, weights) = (scratch.scores.start().cast::<T>(), scratch.weights.start().cast::<T>());
        let by_row = rows.len() < FEW_ROWS;
        // SAFETY: the caller's; scratch has room for a block.
        unsafe {
            for (i, matrix) in matrices.clone().enumerate() {
                let (queries, keys) = (scratch.query.start(), scratch.matrix.start());
                let query = self.query.read::<T>(&mut reader, matrix, [m, k], rows.clone(), false, queries);
                let Given::Matrix(query) = query else { panic!("bug: queries are a matrix") };
                let by_row = by_row && (query.strides()[1] == 1 || k == 1);
                let key = self.key.read(&mut reader, matrix, [n, k], 0..n, by_row, keys);
                let out = TileMut::from_raw(scores.add(i * rows.len() * n), rows.len(), n, n);
                self.score(products, query, &key, out);
            }
            reader.run(&self.rows, first_row, n_rows, scores.cast(), weights.cast());
            for (i, matrix) in matrices.enumerate() {
                let values = scratch.matrix.start();
                let value = self.value.read(&mut reader, matrix, [n, width], 0..n, by_row, values);
                let weights = dense(weights.add(i * rows.len() * n).cast(), rows.len(), n);
                let out = end.cast::<T>().add(i * rows.len() * width);
                weigh(products, weights, &value, TileMut::from_raw(out, rows.len(), width, width));
            }
            if self.plain.is_none() {
                reader.run(&self.end, first_row, n_rows, end, std::ptr::null_mut());
            }
        }
    }

    /// `out = query · keyᵀ`
    unsafe fn score<T: Float>(
        &self,
        products: &mut Scratch<T>,
        query: Matrix<T>,
        key: &Given<T>,
        mut out: TileMut<T>,
    ) {
        // SAFETY: the caller's: rows hold `k` elements.
        unsafe {
            match key {
                Given::Matrix(key) => gemm_tile(products, query, key.transposed(), &mut out),
                Given::Rows(keys) => {
                    for row in 0..query.shape()[0] {
                        let query = std::slice::from_raw_parts(query.at(row, 0), self.body.k);
                        scores_of_row(query, *keys, out.row(row));
                    }
                }
            }
        }
    }
}

/// `out = weights · value`
///
/// # Safety
/// Rows of values must be as long as those of `out`.
unsafe fn weigh<T: Float>(
    products: &mut Scratch<T>,
    weights: Matrix<T>,
    value: &Given<T>,
    mut out: TileMut<T>,
) {
    let [n_rows, n] = weights.shape();
    // SAFETY: the caller's.
    unsafe {
        match value {
            Given::Matrix(value) => gemm_tile(products, weights, *value, &mut out),
            Given::Rows(values) => {
                for row in 0..n_rows {
                    weighted_sum(std::slice::from_raw_parts(weights.at(row, 0), n), *values, out.row(row));
                }
            }
        }
    }
}

/// Rows of scores in a block: what the second-level cache holds, but blocks enough for many threads.
fn block_rows(body: &AttentionBody, dtype: DType) -> usize {
    let fitting = BLOCK_BYTES / (2 * body.n * dtype.size());
    let shared = (body.batch * body.m).div_ceil(8);
    fitting.clamp(16, MOST_ROWS).min(shared.max(1))
}
