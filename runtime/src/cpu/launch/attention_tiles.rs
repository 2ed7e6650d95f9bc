//! Launches of attention in tiles of queries and keys, with an online softmax: no row of scores is ever whole.
//!
//! A block of queries meets one tile of keys after the other. Tiles that none of its queries sees are skipped. The weighted
//! sums of values are scaled down as the largest score of a row grows. Blocks and tiles follow from the shape alone.

use super::super::interp::{ScratchSize, Sharing, plain_store, slice_mut};
use super::super::pool::Pool;
use super::attention::plain_target;
use super::body_run::BodyRun;
use super::call::{Call, KernelLaunch};
use super::matrix_source::{MatrixSource, NONE, Reader, dense};
use super::row_run::RowRun;
use super::running_rows::{Exponential, RunningRows};
use super::scratch::{AttentionScratch, AttentionSize, LaunchSize, MatrixSourceSize, WorkerScratch};
use super::tile_run::{TileRun, TileSpan};
use crate::device::DeviceError;
use engine_core::codegen::OnlineSoftmax;
use engine_core::fusion::{AttentionBody, Source};
use engine_core::ir::DType;
use engine_numerics::gemm::{Matrix, Scratch, TileMut, add_gemm_tile, gemm_tile};
use std::ops::Range;

/// The most queries of a block.
const ROWS: usize = 128;
/// The keys of a tile.
const KEYS: usize = 256;
/// Fewer queries than this are multiplied row by row, by whole rows of scores.
const FEW_ROWS: usize = 4;
/// The least number of blocks, so that there is work for many threads.
const LEAST_BLOCKS: usize = 16;

/// An attention whose rows are an online softmax, ready to run.
pub struct AttentionTiles {
    body: AttentionBody,
    online: OnlineSoftmax,
    /// The accumulator type.
    dtype: DType,
    /// The queries of a block.
    block: usize,
    query: MatrixSource,
    key: MatrixSource,
    value: MatrixSource,
    scores: TileRun,
    /// The scores of tiles whose keys are all visible.
    unmasked: Option<TileRun>,
    last: RowRun,
    end: BodyRun,
    /// The operand that the bare result goes to, if the end does nothing else.
    plain: Option<usize>,
}

impl AttentionTiles {
    /// Compiles an attention, if it is worth tiles; `sharing` is the memory that each operand shares.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &AttentionBody, sharing: &[Sharing]) -> Result<Option<AttentionTiles>, DeviceError> {
        let dtype = body.dtype.accumulator();
        let has_type = |reg: usize| body.rows.insts[reg].dtype == dtype;
        let online = OnlineSoftmax::of(body).filter(|online| has_type(online.exp) && has_type(online.sum));
        let Some(online) = online.filter(|_| body.m >= FEW_ROWS && body.n > KEYS) else { return Ok(None) };
        let matrix_source = |source: &Source, rows: usize| MatrixSource::new(source, rows, dtype, sharing);
        let largest = [ROWS, KEYS];
        let tile_run = |all_visible: bool| {
            let (part, score) = online.score_part(&body.rows, all_visible);
            TileRun::new(&part, &[score], dtype, largest, sharing)
        };
        let n_rows = body.batch * body.m;
        let given = [0, 1].map(|number| RowRun::given(number, sharing.len(), n_rows));
        let last = online.last_part(&body.rows, body.weight, given);
        let hides = online.visible.hides() && online.visible.unmasked.is_some();
        Ok(Some(AttentionTiles {
            query: matrix_source(&body.query, body.m)?,
            key: matrix_source(&body.key, body.n)?,
            value: matrix_source(&body.value, body.n)?,
            scores: tile_run(false)?,
            unmasked: if hides { Some(tile_run(true)?) } else { None },
            last: RowRun::new(&last.body, last.factor, dtype, [ROWS, 2], sharing)?,
            end: BodyRun::new(&body.end, sharing, dtype)?,
            plain: plain_store(&body.end, dtype),
            block: block_rows(body),
            dtype,
            online,
            body: body.clone(),
        }))
    }

    fn body_runs(&self) -> impl Iterator<Item = &BodyRun> {
        let sources = [&self.query, &self.key, &self.value].into_iter().filter_map(MatrixSource::body_run);
        sources.chain([&self.end])
    }

    fn tile_runs(&self) -> impl Iterator<Item = &TileRun> {
        [&self.scores].into_iter().chain(&self.unmasked)
    }

    fn program_sizes(&self) -> ScratchSize {
        let bodies = self.body_runs().map(BodyRun::size);
        let sizes = bodies.chain(self.tile_runs().map(TileRun::size)).chain([self.last.size()]);
        sizes.fold(ScratchSize::default(), ScratchSize::max)
    }

    // ---- Blocks.

    fn blocks_per_matrix(&self) -> usize {
        self.body.m.div_ceil(self.block)
    }

    /// The matrix and the queries of a block. Late queries see most keys under a causal mask, so they come first.
    fn part(&self, block: usize) -> (usize, Range<usize>) {
        let n_blocks = self.blocks_per_matrix();
        let first = (n_blocks - 1 - block / self.body.batch) * self.block;
        (block % self.body.batch, first..(first + self.block).min(self.body.m))
    }

    unsafe fn run_block<T: Exponential>(
        &self,
        reader: &mut Reader,
        products: &mut Scratch<T>,
        scratch: &AttentionScratch,
        block: usize,
    ) {
        let AttentionBody { m, k, width, .. } = self.body;
        let (matrix, queries) = self.part(block);
        let rows = matrix * m + queries.start..matrix * m + queries.end;
        let out = plain_target(self.plain, reader.call, rows.start * width, scratch);
        // SAFETY: the caller's; scratch has room for a block.
        unsafe {
            let to = scratch.query.start();
            let query = self.query.read::<T>(reader, matrix, [m, k], queries, false, to).whole();
            let row_values = [0, 1].map(|i| {
                let start = scratch.rows.start().wrapping_add(i * ROWS * size_of::<T>());
                slice_mut::<T>(start, rows.len())
            });
            let mut running = RunningRows::new(self.online.reference, row_values);
            slice_mut::<T>(out, rows.len() * width).fill(T::default());
            let block = Block { matrix, rows, query, out };
            let keys = self.online.visible.of_rows(block.rows.clone());
            for first in keys.clone().step_by(KEYS) {
                let keys = first..(first + KEYS).min(keys.end);
                self.run_tile(reader, products, scratch, &block, keys, &mut running);
            }
            self.finish(reader, &block, &mut running);
            if self.plain.is_none() {
                reader.run(&self.end, block.rows, out, NONE);
            }
        }
    }

    /// Adds the values of a tile of keys, weighed by their exponentials.
    unsafe fn run_tile<T: Exponential>(
        &self,
        reader: &mut Reader,
        products: &mut Scratch<T>,
        scratch: &AttentionScratch,
        block: &Block<T>,
        keys: Range<usize>,
        running: &mut RunningRows<T>,
    ) {
        let AttentionBody { n, k, width, .. } = self.body;
        let (n_rows, n_keys) = (block.rows.len(), keys.len());
        let (scores, weights) = (scratch.scores.start(), scratch.weights.start());
        // SAFETY: the caller's; scratch has room for a tile.
        unsafe {
            let to = scratch.matrix.start();
            let key = self.key.read(reader, block.matrix, [n, k], keys.clone(), false, to).whole();
            let mut product = TileMut::from_raw(scores.cast::<T>(), n_rows, n_keys, n_keys);
            gemm_tile(products, block.query, key.transposed().into(), &mut product);
            let all_seen = self.online.visible.are_seen(block.rows.clone(), keys.clone());
            let run = self.unmasked.as_ref().filter(|_| all_seen).unwrap_or(&self.scores);
            let tile = TileSpan { rows: block.rows.clone(), columns: keys.clone() };
            run.run(reader.call, reader.worker, &tile, [scores, NONE], &[scores]);
            for row in 0..n_rows {
                let [scores, weights] = [scores, weights].map(|tile| row_of::<T>(tile, row, n_keys));
                if let Some(factor) = running.take(row, scores, weights) {
                    scale(row_of::<T>(block.out, row, width), factor);
                }
            }
            let value = self.value.read(reader, block.matrix, [n, width], keys, false, to).whole();
            let mut sums = TileMut::from_raw(block.out.cast::<T>(), n_rows, width, width);
            add_gemm_tile(products, dense(weights, n_rows, n_keys), value, &mut sums);
        }
    }

    /// Runs the part of the body after the last key, and scales the sums of values.
    unsafe fn finish<T: Exponential>(
        &self,
        reader: &mut Reader,
        block: &Block<T>,
        running: &mut RunningRows<T>,
    ) {
        running.mark_undefined();
        let given = [running.largest.as_mut_ptr().cast(), running.sums.as_mut_ptr().cast()];
        let (call, rows) = (reader.call, block.rows.clone());
        // SAFETY: the caller's; there is a factor for each row, or one for all.
        unsafe {
            let factors = self.last.run(call, reader.worker, &mut reader.scratch.buffers, rows, &given);
            for row in 0..block.rows.len() {
                let factor = *factors.start.cast::<T>().add(if factors.is_scalar { 0 } else { row });
                let factor = if running.is_undefined(row) { T::of(f64::NAN) } else { factor };
                scale(row_of::<T>(block.out, row, self.body.width), factor);
            }
        }
    }
}

/// A block of queries.
struct Block<'a, T> {
    /// The number of the matrix.
    matrix: usize,
    /// The rows of all matrices.
    rows: Range<usize>,
    query: Matrix<'a, T>,
    /// The sums of values.
    out: *mut u8,
}

/// # Safety
/// There must be such a row of a dense matrix at the address, and no other user of it.
unsafe fn row_of<'a, T>(start: *mut u8, row: usize, width: usize) -> &'a mut [T] {
    // SAFETY: the caller's.
    unsafe { slice_mut(start.wrapping_add(row * width * size_of::<T>()), width) }
}

fn scale<T: Exponential>(row: &mut [T], factor: T) {
    row.iter_mut().for_each(|x| *x = *x * factor);
}

impl KernelLaunch for AttentionTiles {
    fn size(&self) -> LaunchSize {
        let AttentionBody { k, width, .. } = self.body;
        let size = self.dtype.size();
        LaunchSize {
            programs: self.program_sizes(),
            attention: AttentionSize {
                scores: self.block * KEYS * size,
                query: self.block * k * size,
                matrix: KEYS * k.max(width) * size,
                end: self.block * width * size,
                rows: 2 * ROWS * size,
            },
            source: MatrixSourceSize {
                row: k.max(width) * size,
                n_rows: KEYS.max(ROWS),
                n_operands: self.end.n_operands() + 1,
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
            for run in self.tile_runs() {
                run.begin(call, &mut workers[0].worker);
            }
            self.last.begin(call, &mut workers[0].worker);
            let n_blocks = self.body.batch * self.blocks_per_matrix();
            pool.run_with(n_blocks, workers, |block, scratch| {
                let WorkerScratch { worker, f32, f64, attention, source, .. } = scratch;
                let mut reader = Reader { call, worker, scratch: source };
                match self.dtype {
                    DType::F64 => self.run_block::<f64>(&mut reader, f64, attention, block),
                    _ => self.run_block::<f32>(&mut reader, f32, attention, block),
                }
            });
        }
    }
}

/// The queries of a block: few enough that there are blocks for many threads.
fn block_rows(body: &AttentionBody) -> usize {
    let shared = (body.batch * body.m).div_ceil(LEAST_BLOCKS);
    shared.next_multiple_of(16).min(ROWS).min(body.m)
}
