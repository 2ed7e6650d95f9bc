//! Launches of gradients of attention, in tiles of queries and keys: scores, weights and their gradients are computed tile by
//! tile while they are in the L2 cache.
//!
//! A part is some queries of one matrix. It meets tile after tile of keys that its queries see. Sums over keys belong to the
//! part. Sums over queries of several parts are added up in their order, so that results follow from the shape alone.

use super::super::interp::{ScratchSize, Sharing, plain_store, slice_mut};
use super::super::pool::Pool;
use super::body_run::BodyRun;
use super::call::{Call, KernelLaunch};
use super::matrix_source::{MatrixSource, NONE, Reader, dense};
use super::scratch::{AttentionSize, LaunchSize, MatrixSourceSize, WorkerScratch};
use super::tile_run::{TileRun, TileSpan};
use crate::device::DeviceError;
use engine_core::codegen::{VisibleKeys, visible_points};
use engine_core::fusion::{AttentionGradientBody, PointProduct, PointSum, Reg, Source};
use engine_core::ir::DType;
use engine_numerics::gemm::{GemmFloat, Matrix, Scratch, TileMut, add_gemm_tile, gemm_tile};
use std::ops::Range;

/// The queries of a block.
const ROWS: usize = 128;
/// The keys of a tile.
const KEYS: usize = 128;

/// A gradient of attention, ready to run.
pub struct AttentionGradientLaunch {
    body: AttentionGradientBody,
    /// The accumulator type.
    dtype: DType,
    visible: VisibleKeys,
    /// The rows and columns of both products.
    products: [[MatrixSource; 2]; 2],
    points: TileRun,
    /// The points of tiles whose keys are all visible.
    unmasked: Option<TileRun>,
    sums: Vec<SumRun>,
    places: Places,
    workspace: *mut u8,
}

/// A product of a value at the points, ready to run.
struct SumRun {
    /// The number of the value.
    value: usize,
    over_keys: bool,
    width: usize,
    other: MatrixSource,
    end: BodyRun,
    /// The operand that the bare result goes to, if the end does nothing else.
    plain: Option<usize>,
    /// The first element of its partial sums in the workspace.
    partial: usize,
}

/// The places of a part's matrices in scratch, in bytes.
#[derive(Default)]
struct Places {
    /// The accumulators of the points.
    accumulators: [usize; 2],
    /// The values at the points.
    values: Vec<usize>,
    /// The rows and columns of both products.
    products: [[usize; 2]; 2],
    /// The other matrix of each sum.
    others: Vec<usize>,
    /// The results of sums over keys.
    sums: Vec<usize>,
    /// All bytes.
    bytes: usize,
}

impl Places {
    fn take(&mut self, bytes: usize) -> usize {
        let place = self.bytes;
        self.bytes += bytes.next_multiple_of(64);
        place
    }

    fn new(body: &AttentionGradientBody, n_values: usize, size: usize) -> Places {
        let mut places = Places::default();
        places.accumulators = [0; 2].map(|_| places.take(ROWS * KEYS * size));
        places.values = (0..n_values).map(|_| places.take(ROWS * KEYS * size)).collect();
        let mut products = [[0; 2]; 2];
        for (places_of, product) in products.iter_mut().zip(&body.products) {
            *places_of = [ROWS, KEYS].map(|rows| places.take(rows * product.k * size));
        }
        places.products = products;
        places.others = body.sums.iter().map(|sum| places.take(ROWS.max(KEYS) * sum.width * size)).collect();
        places.sums = body.sums.iter().map(|sum| places.take(ROWS * sum.width * size)).collect();
        places
    }
}

// SAFETY: the workspace is an address in the executable's own arena.
unsafe impl Send for AttentionGradientLaunch {}
// SAFETY: as above; parts use disjoint pieces of it.
unsafe impl Sync for AttentionGradientLaunch {}

impl AttentionGradientLaunch {
    /// Compiles a gradient; `sharing` is the memory that each operand shares, and `workspace` that of the kernel.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        body: &AttentionGradientBody,
        sharing: &[Sharing],
        workspace: *mut u8,
    ) -> Result<AttentionGradientLaunch, DeviceError> {
        let dtype = body.dtype.accumulator();
        let AttentionGradientBody { batch, m, n, .. } = *body;
        let mut values: Vec<Reg> = body.sums.iter().map(|sum| sum.value).collect();
        values.sort_unstable();
        values.dedup();
        let visible = visible_points(&body.points, &values);
        let tile_run = |points| TileRun::new(points, &values, dtype, [ROWS, KEYS], sharing);
        let matrix_source = |source: &Source, rows: usize| MatrixSource::new(source, rows, dtype, sharing);
        let [first, second] = &body.products;
        let sides = |product: &PointProduct| -> Result<_, DeviceError> {
            Ok([matrix_source(&product.rows, m)?, matrix_source(&product.columns, n)?])
        };
        let mut partial = 0;
        let mut sums = vec![];
        for PointSum { value, over_keys, width, other, end } in &body.sums {
            sums.push(SumRun {
                value: values.iter().position(|reg| reg == value).unwrap_or(0),
                over_keys: *over_keys,
                width: *width,
                other: matrix_source(other, if *over_keys { n } else { m })?,
                end: BodyRun::new(end, sharing, dtype)?,
                plain: plain_store(end, dtype),
                partial,
            });
            partial += if *over_keys { 0 } else { batch * body.n_parts() * n * width };
        }
        Ok(AttentionGradientLaunch {
            products: [sides(first)?, sides(second)?],
            points: tile_run(&body.points)?,
            unmasked: visible.without_mask(&body.points).as_ref().map(tile_run).transpose()?,
            places: Places::new(body, values.len(), dtype.size()),
            body: body.clone(),
            dtype,
            visible,
            sums,
            workspace,
        })
    }

    fn body_runs(&self) -> impl Iterator<Item = &BodyRun> {
        let sources = self.products.iter().flatten().chain(self.sums.iter().map(|sum| &sum.other));
        sources.filter_map(MatrixSource::body_run).chain(self.sums.iter().map(|sum| &sum.end))
    }

    fn tile_runs(&self) -> impl Iterator<Item = &TileRun> {
        [&self.points].into_iter().chain(&self.unmasked)
    }

    /// The matrix, number and queries of a part. Late queries see most keys under a causal mask, so they come first.
    fn part(&self, chunk: usize) -> (usize, usize, Range<usize>) {
        let (n_parts, m) = (self.body.n_parts(), self.body.m);
        let number = n_parts - 1 - chunk / self.body.batch;
        let queries = m.div_ceil(n_parts);
        let first = (number * queries).min(m);
        (chunk % self.body.batch, number, first..(first + queries).min(m))
    }

    /// The memory of the sums over queries of a part, one row for each key.
    fn key_sums(&self, call: Call, sum: &SumRun, matrix: usize, part: usize) -> *mut u8 {
        let rows = |number: usize| number * self.body.n * sum.width;
        if self.body.has_partial_sums() {
            let first = sum.partial + rows(matrix * self.body.n_parts() + part);
            return self.workspace.wrapping_add(first * self.dtype.size());
        }
        let Some(operand) = sum.plain else { panic!("bug: sums over queries have no memory") };
        let out = call.buffers[operand];
        out.start.wrapping_add(rows(matrix) * out.size)
    }
}

/// The matrices of one block of queries.
struct Block<'a, T> {
    /// The number of the matrix, and of the part.
    matrix: usize,
    part: usize,
    /// The rows of all matrices.
    rows: Range<usize>,
    /// The rows of both products.
    products: [Matrix<'a, T>; 2],
    /// The other matrices of sums over queries.
    others: Vec<Option<Matrix<'a, T>>>,
    /// The memory of sums over keys.
    sums: Vec<*mut u8>,
}

impl AttentionGradientLaunch {
    unsafe fn run_part<T: GemmFloat>(
        &self,
        reader: &mut Reader,
        products: &mut Scratch<T>,
        scratch: *mut u8,
        chunk: usize,
    ) {
        let (matrix, part, queries) = self.part(chunk);
        // SAFETY: the caller's; parts have sums of their own.
        unsafe {
            for sum in self.sums.iter().filter(|sum| !sum.over_keys) {
                let start = self.key_sums(reader.call, sum, matrix, part);
                slice_mut::<T>(start, self.body.n * sum.width).fill(T::default());
            }
            for first in queries.clone().step_by(ROWS) {
                let rows = first..(first + ROWS).min(queries.end);
                let block = self.block::<T>(reader, scratch, [matrix, part], rows);
                let keys = self.visible.of_rows(block.rows.clone());
                for first in keys.clone().step_by(KEYS) {
                    self.run_tile(reader, products, scratch, &block, first..(first + KEYS).min(keys.end));
                }
                for (sum, &start) in self.sums.iter().zip(&block.sums) {
                    if sum.over_keys && sum.plain.is_none() {
                        reader.run(&sum.end, block.rows.clone(), start, NONE);
                    }
                }
            }
        }
    }

    /// Reads the matrices of a block of queries.
    unsafe fn block<'a, T: GemmFloat>(
        &self,
        reader: &mut Reader<'_, 'a>,
        scratch: *mut u8,
        [matrix, part]: [usize; 2],
        queries: Range<usize>,
    ) -> Block<'a, T> {
        let m = self.body.m;
        let rows = matrix * m + queries.start..matrix * m + queries.end;
        let place = |bytes: usize| scratch.wrapping_add(bytes);
        // SAFETY: the caller's; each matrix has a place of its own.
        unsafe {
            let products = [0, 1].map(|i| {
                let shape = [m, self.body.products[i].k];
                let to = place(self.places.products[i][0]);
                self.products[i][0].read(reader, matrix, shape, queries.clone(), false, to).whole()
            });
            let mut others = vec![];
            let mut sums = vec![];
            for (i, sum) in self.sums.iter().enumerate() {
                let to = place(self.places.others[i]);
                others.push((!sum.over_keys).then(|| {
                    let shape = [m, sum.width];
                    sum.other.read(reader, matrix, shape, queries.clone(), false, to).whole()
                }));
                let start = match sum.plain {
                    Some(operand) => {
                        let out = reader.call.buffers[operand];
                        out.start.wrapping_add(rows.start * sum.width * out.size)
                    }
                    None => place(self.places.sums[i]),
                };
                if sum.over_keys {
                    slice_mut::<T>(start, rows.len() * sum.width).fill(T::default());
                }
                sums.push(start);
            }
            Block { matrix, part, rows, products, others, sums }
        }
    }

    /// Computes the points of a tile, and adds their values to all sums.
    unsafe fn run_tile<T: GemmFloat>(
        &self,
        reader: &mut Reader,
        products: &mut Scratch<T>,
        scratch: *mut u8,
        block: &Block<T>,
        keys: Range<usize>,
    ) {
        let place = |bytes: usize| scratch.wrapping_add(bytes);
        let (n, n_rows, n_keys) = (self.body.n, block.rows.len(), keys.len());
        let accumulators = self.places.accumulators.map(place);
        // SAFETY: the caller's; there is room for a tile.
        unsafe {
            for i in [0, 1] {
                let shape = [n, self.body.products[i].k];
                let to = place(self.places.products[i][1]);
                let columns: Matrix<T> =
                    self.products[i][1].read(reader, block.matrix, shape, keys.clone(), false, to).whole();
                let mut out = TileMut::from_raw(accumulators[i].cast::<T>(), n_rows, n_keys, n_keys);
                gemm_tile(products, block.products[i], columns.transposed().into(), &mut out);
            }
            let all_seen = self.visible.are_seen(block.rows.clone(), keys.clone());
            let points = self.unmasked.as_ref().filter(|_| all_seen).unwrap_or(&self.points);
            let tile = TileSpan { rows: block.rows.clone(), columns: keys.clone() };
            let values: Vec<*mut u8> = self.places.values.iter().map(|&bytes| place(bytes)).collect();
            points.run(reader.call, reader.worker, &tile, accumulators, &values);
            for (i, sum) in self.sums.iter().enumerate() {
                let value: Matrix<T> = dense(values[sum.value], n_rows, n_keys);
                let width = sum.width;
                match &block.others[i] {
                    Some(other) => {
                        let all = self.key_sums(reader.call, sum, block.matrix, block.part).cast::<T>();
                        let out = all.add(keys.start * width);
                        let mut out = TileMut::from_raw(out, n_keys, width, width);
                        add_gemm_tile(products, value.transposed(), *other, &mut out);
                    }
                    None => {
                        let to = place(self.places.others[i]);
                        let other = sum.other.read(reader, block.matrix, [n, width], keys.clone(), false, to);
                        let mut out = TileMut::from_raw(block.sums[i].cast::<T>(), n_rows, width, width);
                        add_gemm_tile(products, value, other.whole(), &mut out);
                    }
                }
            }
        }
    }

    /// Adds up the sums over queries of all parts for some keys of a matrix, and finishes them.
    unsafe fn finish<T: GemmFloat>(
        &self,
        reader: &mut Reader,
        sum: &SumRun,
        matrix: usize,
        keys: Range<usize>,
    ) {
        let range = keys.start * sum.width..keys.end * sum.width;
        let place = |part: usize| {
            let start = self.key_sums(reader.call, sum, matrix, part);
            start.wrapping_add(range.start * size_of::<T>())
        };
        let n = self.body.n;
        // SAFETY: the caller's.
        unsafe {
            let total = slice_mut::<T>(place(0), range.len());
            for part in 1..self.body.n_parts() {
                let more = slice_mut::<T>(place(part), range.len());
                total.iter_mut().zip(more).for_each(|(total, more)| *total += *more);
            }
            let start = place(0);
            reader.run(&sum.end, matrix * n + keys.start..matrix * n + keys.end, start, NONE);
        }
    }
}

impl KernelLaunch for AttentionGradientLaunch {
    fn size(&self) -> LaunchSize {
        let bodies = self.body_runs().map(BodyRun::size).chain(self.tile_runs().map(TileRun::size));
        let depths = self.body.products.iter().map(|product| product.k);
        let widest = depths.chain(self.sums.iter().map(|sum| sum.width)).max().unwrap_or(0);
        LaunchSize {
            programs: bodies.fold(ScratchSize::default(), ScratchSize::max),
            attention: AttentionSize { matrix: self.places.bytes, ..AttentionSize::default() },
            source: MatrixSourceSize {
                row: widest * self.dtype.size(),
                n_rows: KEYS.max(ROWS),
                n_operands: self.sums[0].end.n_operands(),
                computed: 0,
            },
            ..LaunchSize::default()
        }
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        let (batch, n) = (self.body.batch, self.body.n);
        // SAFETY: the caller's; parts are disjoint.
        unsafe {
            for run in self.body_runs() {
                run.begin(call, &mut workers[0].worker);
            }
            for run in self.tile_runs() {
                run.begin(call, &mut workers[0].worker);
            }
            let this = &*self;
            pool.run_with(batch * self.body.n_parts(), workers, |chunk, scratch| {
                let WorkerScratch { worker, f32, f64, attention, source, .. } = scratch;
                let mut reader = Reader { call, worker, scratch: source };
                let places = attention.matrix.start();
                match this.dtype {
                    DType::F64 => this.run_part::<f64>(&mut reader, f64, places, chunk),
                    _ => this.run_part::<f32>(&mut reader, f32, places, chunk),
                }
            });
            if !this.body.has_partial_sums() {
                return;
            }
            let sums: Vec<&SumRun> = this.sums.iter().filter(|sum| !sum.over_keys).collect();
            let n_blocks = n.div_ceil(ROWS);
            pool.run_with(sums.len() * batch * n_blocks, workers, |chunk, scratch| {
                let WorkerScratch { worker, source, .. } = scratch;
                let mut reader = Reader { call, worker, scratch: source };
                let first = chunk % n_blocks * ROWS;
                let keys = first..(first + ROWS).min(n);
                let (sum, matrix) = (sums[chunk / n_blocks / batch], chunk / n_blocks % batch);
                match this.dtype {
                    DType::F64 => this.finish::<f64>(&mut reader, sum, matrix, keys),
                    _ => this.finish::<f32>(&mut reader, sum, matrix, keys),
                }
            });
        }
    }
}
