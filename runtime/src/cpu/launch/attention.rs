//! Launches of attention. A block of queries goes through its scores, the rows over them and the weighted sum of values
//! while it is in the L2 cache.
//!
//! A block is a number of rows of scores, from one matrix or from several small ones; its size follows from the shape
//! alone. Operands are read in place. Rows picked by an index are read through their addresses, and copied only if many
//! queries share them.

use super::super::interp::{ScratchSize, Sharing, plain_store};
use super::super::pool::Pool;
use super::body_run::{BodyRun, with_store};
use super::call::{Call, KernelLaunch};
use super::matrix_source::{Given, MatrixSource, NONE, Reader, dense};
use super::scratch::{AttentionScratch, AttentionSize, LaunchSize, MatrixSourceSize, WorkerScratch};
use crate::device::DeviceError;
use engine_core::fusion::{AttentionBody, Source};
use engine_core::ir::DType;
use engine_numerics::gemm::{GemmFloat, Matrix, Scratch, TileMut, gemm_tile, scores_of_row, weighted_sum};
use std::ops::Range;

/// The bytes of L2 cache that the scores and weights of a block take.
const BLOCK_BYTES: usize = 512 * 1024;
/// The most rows of scores in a block.
const MOST_ROWS: usize = 128;
/// Fewer rows than this are multiplied row by row.
const FEW_ROWS: usize = 4;

/// An attention, ready to run.
pub struct AttentionLaunch {
    body: AttentionBody,
    /// The accumulator type.
    dtype: DType,
    /// The rows of scores in a block.
    block: usize,
    query: MatrixSource,
    key: MatrixSource,
    value: MatrixSource,
    rows: BodyRun,
    end: BodyRun,
    /// The operand that the bare result goes to, if the end does nothing else.
    plain: Option<usize>,
}

impl KernelLaunch for AttentionLaunch {
    fn size(&self) -> LaunchSize {
        let AttentionBody { n, k, width, .. } = self.body;
        let size = self.dtype.size();
        LaunchSize {
            programs: self.body_runs().map(BodyRun::size).fold(ScratchSize::default(), ScratchSize::max),
            attention: AttentionSize {
                scores: self.block * n * size,
                query: self.block * k * size,
                matrix: n * k.max(width) * size,
                end: self.block * width * size,
                rows: 0,
            },
            source: MatrixSourceSize {
                row: k.max(width) * size,
                n_rows: n,
                n_operands: self.rows.n_operands(),
                computed: 0,
            },
            ..LaunchSize::default()
        }
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        // SAFETY: the caller's; blocks are disjoint.
        unsafe {
            for run in self.body_runs() {
                run.begin(call, &mut workers[0].worker);
            }
            pool.run_with(self.n_blocks(), workers, |block, scratch| {
                let WorkerScratch { worker, f32, f64, attention, source, .. } = scratch;
                let reader = Reader { call, worker, scratch: source };
                match self.dtype {
                    DType::F64 => self.run_block::<f64>(reader, f64, attention, block),
                    _ => self.run_block::<f32>(reader, f32, attention, block),
                }
            });
        }
    }
}

impl AttentionLaunch {
    /// Compiles an attention; `sharing` is the memory that each operand shares.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &AttentionBody, sharing: &[Sharing]) -> Result<AttentionLaunch, DeviceError> {
        let dtype = body.dtype.accumulator();
        let matrix_source = |source: &Source, rows: usize| MatrixSource::new(source, rows, dtype, sharing);
        Ok(AttentionLaunch {
            query: matrix_source(&body.query, body.m)?,
            key: matrix_source(&body.key, body.n)?,
            value: matrix_source(&body.value, body.n)?,
            rows: BodyRun::new(&with_store(&body.rows, body.weight, dtype, sharing.len()), sharing, dtype)?,
            end: BodyRun::new(&body.end, sharing, dtype)?,
            plain: plain_store(&body.end, dtype),
            block: block_rows(body, dtype),
            dtype,
            body: body.clone(),
        })
    }

    fn body_runs(&self) -> impl Iterator<Item = &BodyRun> {
        let sources = [&self.query, &self.key, &self.value].into_iter().filter_map(MatrixSource::body_run);
        sources.chain([&self.rows, &self.end])
    }

    // ---- Blocks.

    /// The blocks of one matrix, if it has more rows than a block.
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

    unsafe fn run_block<T: GemmFloat>(
        &self,
        mut reader: Reader,
        products: &mut Scratch<T>,
        scratch: &AttentionScratch,
        block: usize,
    ) {
        let AttentionBody { m, n, k, width, .. } = self.body;
        let (matrices, rows) = self.parts(block);
        let first_row = matrices.start * m + rows.start;
        let all_rows = first_row..first_row + matrices.len() * rows.len();
        let end = plain_target(self.plain, reader.call, first_row * width, scratch);
        let (scores, weights) = (scratch.scores.start().cast::<T>(), scratch.weights.start().cast::<T>());
        let by_row = rows.len() < FEW_ROWS;
        // SAFETY: the caller's; scratch has room for a block.
        unsafe {
            for (i, matrix) in matrices.clone().enumerate() {
                let (queries, keys) = (scratch.query.start(), scratch.matrix.start());
                let query = self.query.read::<T>(&mut reader, matrix, [m, k], rows.clone(), false, queries);
                let Given::Matrix(query) = query else { panic!("bug: queries are no matrix") };
                let by_row = by_row && (query.strides()[1] == 1 || k == 1);
                let key = self.key.read(&mut reader, matrix, [n, k], 0..n, by_row, keys);
                let out = TileMut::from_raw(scores.add(i * rows.len() * n), rows.len(), n, n);
                multiply(products, query, &key, true, out);
            }
            reader.run(&self.rows, all_rows.clone(), scores.cast(), weights.cast());
            for (i, matrix) in matrices.enumerate() {
                let values = scratch.matrix.start();
                let value = self.value.read(&mut reader, matrix, [n, width], 0..n, by_row, values);
                let weights = dense(weights.add(i * rows.len() * n).cast(), rows.len(), n);
                let out = end.cast::<T>().add(i * rows.len() * width);
                let out = TileMut::from_raw(out, rows.len(), width, width);
                multiply(products, weights, &value, false, out);
            }
            if self.plain.is_none() {
                reader.run(&self.end, all_rows, end, NONE);
            }
        }
    }
}

/// The memory of the sums of a block whose first element is `first` of the result: the operand that the bare result goes to,
/// or scratch.
pub fn plain_target(plain: Option<usize>, call: Call, first: usize, scratch: &AttentionScratch) -> *mut u8 {
    match plain {
        Some(operand) => {
            let out = call.buffers[operand];
            out.start.wrapping_add(first * out.size)
        }
        None => scratch.end.start(),
    }
}

/// `out = lhs · rhs`, or `out = lhs · rhsᵀ`.
///
/// # Safety
/// Rows of the right operand must be as long as those of `out`, or, if it is transposed, as those of the left operand.
unsafe fn multiply<T: GemmFloat>(
    products: &mut Scratch<T>,
    lhs: Matrix<T>,
    rhs: &Given<T>,
    is_transposed: bool,
    mut out: TileMut<T>,
) {
    let [n_rows, n] = lhs.shape();
    // SAFETY: the caller's.
    unsafe {
        match rhs {
            Given::Matrix(rhs) if is_transposed => {
                gemm_tile(products, lhs, rhs.transposed().into(), &mut out)
            }
            Given::Matrix(rhs) => gemm_tile(products, lhs, (*rhs).into(), &mut out),
            Given::Rows(rows) => {
                for row in 0..n_rows {
                    let product = if is_transposed { scores_of_row } else { weighted_sum };
                    product(std::slice::from_raw_parts(lhs.at(row, 0), n), *rows, out.row(row));
                }
            }
        }
    }
}

/// The rows of scores in a block: as many as the L2 cache holds, but few enough that there are blocks for many threads.
fn block_rows(body: &AttentionBody, dtype: DType) -> usize {
    let fitting = BLOCK_BYTES / (2 * body.n * dtype.size());
    let shared = (body.batch * body.m).div_ceil(8);
    fitting.clamp(16, MOST_ROWS).min(shared.max(1))
}
