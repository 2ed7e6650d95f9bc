//! Launches of contractions: a product tile by tile, and on each tile, while it is hot, the epilogue.

use super::attention::{AttentionScratch, AttentionSize};
use super::block::{Buffer, Frame, ScratchSize, Span, Worker, row_pitch};
use super::body::Call;
use super::gemm::{Matrix, Scratch, TileMut, Tiles, gemm_tile};
use super::loops::reduce::{Fold, Foldable, combine, fold, fold_rows};
use super::matmul_fold::RowsLaunch;
use super::matrix_source::{MatrixSourceScratch, MatrixSourceSize};
use super::memory::Memory;
use super::pool::Pool;
use super::program::{Layout, Program, Sharing, Spread, compile};
use super::scalar::{View, cast, slice_mut, with_type};
use super::simd::isa::Float;
use crate::device::DeviceError;
use engine_core::fusion::{FusedBody, FusedOp, MatmulBody, MatrixOperand, Operand, Side};
use engine_core::ir::DType;
use std::ops::Range;

/// Points of a block of the epilogue.
const BLOCK: usize = 2048;
/// Half-precision numbers that are converted at a time.
const WIDE_BLOCK: usize = 256;
/// Columns of a side sum that one chunk takes.
const SIDE_COLUMNS: usize = 256;

/// A contraction, ready to run.
pub struct MatmulLaunch {
    body: MatmulBody,
    /// The type that products are added up in.
    dtype: DType,
    tiles: Tiles,
    epilogue: Program,
    /// The operand that the bare accumulator goes to, if that is all there is to the epilogue.
    plain: Option<usize>,
    uniforms: Memory,
    /// Dense copies of half-precision operands, in f32.
    wide: Option<[Memory; 2]>,
    /// What folds the rows of the result, if that is done.
    rows: Option<RowsLaunch>,
}

/// Scratch of one worker for products.
pub struct ProductScratch {
    /// For products of f32.
    pub f32: Box<Scratch<f32>>,
    /// For products of f64.
    pub f64: Box<Scratch<f64>>,
    tile: Memory,
    /// For attention.
    pub attend: AttentionScratch,
    /// For sources.
    pub feed: MatrixSourceScratch,
}

impl ProductScratch {
    /// Bytes of its panels, beside the tile.
    pub fn panel_bytes() -> usize {
        size_of::<Scratch<f32>>() + size_of::<Scratch<f64>>()
    }

    /// Where a tile is put that is not stored as it is.
    pub(super) fn tile_start(&self) -> *mut u8 {
        self.tile.start()
    }

    /// For tiles of so many bytes, and for attention and sources of that size.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        tile_bytes: usize,
        attend: AttentionSize,
        feed: MatrixSourceSize,
    ) -> Result<ProductScratch, DeviceError> {
        Ok(ProductScratch {
            f32: Scratch::new(),
            f64: Scratch::new(),
            tile: Memory::new(tile_bytes)?,
            attend: AttentionScratch::new(attend)?,
            feed: MatrixSourceScratch::new(feed)?,
        })
    }
}

impl MatmulLaunch {
    /// Compiles a contraction; `sharing` tells by operand whether its memory is read as well, `workspace` is the scratch
    /// that the plan has set aside for it.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        body: &MatmulBody,
        operands: &[Operand],
        sharing: &[Sharing],
        workspace: *mut u8,
    ) -> Result<MatmulLaunch, DeviceError> {
        let (m, n, k) = (body.m, body.n, body.k);
        let dtype = body.dtype.accumulator();
        // Where there is little to add up, the epilogue decides, and it likes whole rows.
        let tiles = Tiles::new(m, n, k, n <= 256 && k < 64);
        let (_, columns) = tiles.largest();
        let spread = if columns >= 256 { Spread::One } else { Spread::Each };
        let layout = Layout { spread, is_resident: true, is_contiguous: columns == n, sharing };
        let epilogue = compile(&body.epilogue, layout);
        let wide = match dtype == body.dtype {
            true => None,
            false => Some([Memory::new(4 * body.batch * m * k)?, Memory::new(4 * body.batch * k * n)?]),
        };
        Ok(MatmulLaunch {
            dtype,
            tiles,
            plain: plain_store(&body.epilogue, dtype),
            uniforms: Memory::new(8 * epilogue.n_uniforms)?,
            rows: body.rows.as_ref().map(|rows| RowsLaunch::new(rows, &epilogue, operands, workspace)),
            epilogue,
            wide,
            body: body.clone(),
        })
    }

    /// The scratch that a worker needs for the epilogue.
    pub fn scratch(&self) -> ScratchSize {
        let (_, columns) = self.tiles.largest();
        ScratchSize::of(&self.epilogue, BLOCK.max(columns), BLOCK)
    }

    /// Bytes of the largest tile.
    pub fn tile_bytes(&self) -> usize {
        let (rows, columns) = self.tiles.largest();
        rows * columns * self.dtype.size()
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and nobody else may use what it writes.
    pub unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [(Worker, ProductScratch)], call: Call) {
        // SAFETY: the caller's; tiles and side sums are disjoint.
        unsafe {
            self.widen(pool, workers, call);
            let frame = self.frame(call);
            frame.write_constants(None);
            frame.run_uniform(&mut workers[0].0);
            // What folds rows has stored nothing by then: only the sums at the side are left.
            let n_tiles = if self.rows.is_some() { 0 } else { self.body.batch * self.tiles.len() };
            if let Some(rows) = &self.rows {
                self.run_folded(rows, &frame, pool, workers, call);
            }
            let n_side_chunks = |side: Side| self.body.batch * self.side_extent(side).div_ceil(SIDE_COLUMNS);
            let n_chunks =
                n_tiles + self.body.side_sums.iter().map(|sum| n_side_chunks(sum.side)).sum::<usize>();
            pool.run_with(n_chunks, workers, |chunk, (worker, scratch)| {
                if chunk < n_tiles {
                    return self.run_tile(&frame, worker, scratch, call.buffers, chunk);
                }
                let mut chunk = chunk - n_tiles;
                for sum in &self.body.side_sums {
                    if chunk < n_side_chunks(sum.side) {
                        return self.run_side_sum(call.buffers, sum.side, sum.operand, chunk);
                    }
                    chunk -= n_side_chunks(sum.side);
                }
            });
            if let Some(mut rows) = self.rows.take() {
                self.finish_rows(&mut rows, pool, call.buffers);
                self.rows = Some(rows);
            }
        }
    }

    fn frame<'a>(&'a self, call: Call<'a>) -> Frame<'a> {
        Frame {
            program: &self.epilogue,
            buffers: call.buffers,
            uniforms: self.uniforms.start(),
            alarm: call.alarm,
            seed: call.seed,
            reduces_down: false,
            row_pitch: row_pitch(BLOCK),
        }
    }

    // ---- Tiles.

    unsafe fn run_tile(
        &self,
        frame: &Frame,
        worker: &mut Worker,
        scratch: &mut ProductScratch,
        buffers: &[Buffer],
        chunk: usize,
    ) {
        let (batch, tile) = (chunk / self.tiles.len(), chunk % self.tiles.len());
        let (rows, columns) = self.tiles.tile(tile);
        let first_row = batch * self.body.m + rows.start;
        let (target, row_stride) = match self.plain {
            Some(operand) => {
                let first = first_row * self.body.n + columns.start;
                (buffers[operand].start.wrapping_add(first * buffers[operand].size), self.body.n)
            }
            None => (scratch.tile.start(), columns.len()),
        };
        let shape = [rows.len(), columns.len()];
        let part = Part { batch, rows, columns: columns.clone() };
        // SAFETY: the caller's; a tile is inside the output, or inside the scratch for the largest one.
        unsafe {
            self.product(scratch, buffers, part, target, row_stride);
            if self.plain.is_none() {
                self.run_epilogue(frame, worker, target, [first_row, columns.start], shape, |_, _, _| {});
            }
        }
    }

    unsafe fn product(
        &self,
        scratch: &mut ProductScratch,
        buffers: &[Buffer],
        part: Part,
        target: *mut u8,
        row_stride: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            match self.dtype {
                DType::F32 => {
                    self.multiply::<f32>(&mut scratch.f32, buffers, part, target.cast(), row_stride)
                }
                DType::F64 => {
                    self.multiply::<f64>(&mut scratch.f64, buffers, part, target.cast(), row_stride)
                }
                dtype => {
                    with_type!(dtype, T => self.multiply_plainly::<T>(buffers, part, target.cast(), row_stride))
                }
            }
        }
    }

    unsafe fn multiply<T: Float>(
        &self,
        scratch: &mut Scratch<T>,
        buffers: &[Buffer],
        part: Part,
        out: *mut T,
        row_stride: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let a = self.matrix::<T>(buffers, Side::Lhs, part.batch).part(part.rows.clone(), 0..self.body.k);
            let b =
                self.matrix::<T>(buffers, Side::Rhs, part.batch).part(0..self.body.k, part.columns.clone());
            let mut out = TileMut::from_raw(out, part.rows.len(), part.columns.len(), row_stride);
            gemm_tile(scratch, a, b, &mut out);
        }
    }

    /// Products of integers, which wrap.
    unsafe fn multiply_plainly<T: Foldable>(
        &self,
        buffers: &[Buffer],
        part: Part,
        out: *mut T,
        row_stride: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let a = self.matrix::<T>(buffers, Side::Lhs, part.batch);
            let b = self.matrix::<T>(buffers, Side::Rhs, part.batch);
            for (i, row) in part.rows.enumerate() {
                for (j, column) in part.columns.clone().enumerate() {
                    let products = (0..self.body.k).map(|p| T::times(*a.at(row, p), *b.at(p, column)));
                    let sum = products.fold(T::neutral(Fold::Sum), T::plus);
                    out.add(i * row_stride + j).write(sum);
                }
            }
        }
    }

    /// Runs the epilogue over a tile at `tile`; after each of its blocks calls `after` with the block's first row within the
    /// tile and its number of rows.
    pub(super) unsafe fn run_epilogue(
        &self,
        frame: &Frame,
        worker: &mut Worker,
        tile: *mut u8,
        [first_row, first_column]: [usize; 2],
        [n_rows, n_columns]: [usize; 2],
        mut after: impl FnMut(&Worker, usize, usize),
    ) {
        worker.row_base = worker.own_rows();
        let by_row = self.tiles.largest().1 >= 256;
        let step = if by_row { 1 } else { (BLOCK / n_columns).max(1) };
        let n = self.body.n;
        for row in (0..n_rows).step_by(step) {
            let height = step.min(n_rows - row);
            let start = tile.wrapping_add(row * n_columns * self.dtype.size());
            worker.accumulator = View { start, is_scalar: height * n_columns == 1 };
            let start = (first_row + row) * n + first_column;
            let span = Span { start, width: n_columns, height, pitch: n, along: first_column };
            // SAFETY: the caller's.
            unsafe {
                let pass = &self.epilogue.passes[0];
                frame.run_insts(worker, &pass.row, Span::line(first_row + row, height));
                frame.run_insts(worker, &pass.element, span);
            }
            after(worker, row, height);
        }
    }

    /// One tile of the product, into the worker's scratch.
    pub(super) unsafe fn tile_to_scratch(
        &self,
        scratch: &mut ProductScratch,
        buffers: &[Buffer],
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        let (target, row_stride) = (scratch.tile.start(), columns.len());
        // SAFETY: the caller's; the scratch has room for the largest tile.
        unsafe { self.product(scratch, buffers, Part { batch, rows, columns }, target, row_stride) }
    }

    /// Number of products, rows and columns of each.
    pub(super) fn extents(&self) -> [usize; 3] {
        [self.body.batch, self.body.m, self.body.n]
    }

    /// Rows and columns of the largest tile.
    pub(super) fn largest_tile(&self) -> (usize, usize) {
        self.tiles.largest()
    }

    // ---- Operands.

    /// One matrix of an operand, in the accumulator type.
    unsafe fn matrix<'a, T>(&'a self, buffers: &[Buffer], side: Side, batch: usize) -> Matrix<'a, T> {
        let (operand, shape) = self.side(side);
        let (start, len, operand) = match &self.wide {
            Some(wide) => {
                let [rows, columns] = shape;
                let (row, col) = (columns as i64, 1);
                let dense = MatrixOperand { offset: 0, batch: (rows * columns) as i64, row, col, ..operand };
                (wide[side as usize].start(), self.body.batch * rows * columns, dense)
            }
            None => (buffers[operand.operand].start, buffers[operand.operand].len, operand),
        };
        let offset = operand.offset + batch as i64 * operand.batch;
        // SAFETY: the caller's: the buffer holds `len` elements of this type, which nobody writes meanwhile.
        let data = unsafe { std::slice::from_raw_parts(start.cast::<T>(), len) };
        Matrix::new(data, offset as isize, shape, [operand.row as isize, operand.col as isize])
    }

    fn side(&self, side: Side) -> (MatrixOperand, [usize; 2]) {
        match side {
            Side::Lhs => (self.body.lhs, [self.body.m, self.body.k]),
            Side::Rhs => (self.body.rhs, [self.body.k, self.body.n]),
        }
    }

    fn side_extent(&self, side: Side) -> usize {
        if side == Side::Lhs { self.body.m } else { self.body.n }
    }

    /// Converts half-precision operands, row by row.
    unsafe fn widen(&self, pool: &mut Pool, workers: &mut [(Worker, ProductScratch)], call: Call) {
        let Some(wide) = &self.wide else { return };
        for (side, wide) in [Side::Lhs, Side::Rhs].into_iter().zip(wide) {
            let (operand, [rows, columns]) = self.side(side);
            let source = call.buffers[operand.operand];
            let start = wide.start() as usize;
            pool.run_with(self.body.batch * rows, workers, |chunk, _| {
                let (batch, row) = (chunk / rows, chunk % rows);
                let first = operand.offset + batch as i64 * operand.batch + row as i64 * operand.row;
                // Taken whole: its parts alone may not go to other threads.
                let source: Buffer = source;
                // SAFETY: a buffer of half-precision numbers, which nobody writes meanwhile.
                let halves = unsafe { std::slice::from_raw_parts(source.start.cast::<u16>(), source.len) };
                let mut dense = [0u16; WIDE_BLOCK];
                for begin in (0..columns).step_by(WIDE_BLOCK) {
                    let dense = &mut dense[..WIDE_BLOCK.min(columns - begin)];
                    for (i, half) in dense.iter_mut().enumerate() {
                        *half = halves[(first + (begin + i) as i64 * operand.col) as usize];
                    }
                    let view = View { start: dense.as_ptr().cast(), is_scalar: false };
                    let out = (start as *mut u8).wrapping_add(4 * (chunk * columns + begin));
                    // SAFETY: rows are disjoint.
                    unsafe { cast(self.body.dtype, DType::F32, view, out, dense.len()) };
                }
            });
        }
    }

    // ---- Side sums.

    unsafe fn run_side_sum(&self, buffers: &[Buffer], side: Side, operand: usize, chunk: usize) {
        let extent = self.side_extent(side);
        let n_chunks = extent.div_ceil(SIDE_COLUMNS);
        let (batch, first) = (chunk / n_chunks, chunk % n_chunks * SIDE_COLUMNS);
        let columns = first..(first + SIDE_COLUMNS).min(extent);
        let out = buffers[operand];
        let out_start = out.start.wrapping_add((batch * extent + first) * out.size);
        // SAFETY: the caller's; chunks are disjoint.
        unsafe {
            with_type!(self.dtype, T => {
                let matrix = self.matrix::<T>(buffers, side, batch);
                let matrix = if side == Side::Lhs { matrix.transposed() } else { matrix };
                let matrix = matrix.part(0..self.body.k, columns.clone());
                if self.dtype == self.body.dtype {
                    sum_columns(matrix, slice_mut::<T>(out_start, columns.len()));
                } else {
                    let mut wide = [T::neutral(Fold::Sum); SIDE_COLUMNS];
                    let wide = &mut wide[..columns.len()];
                    sum_columns(matrix, wide);
                    let view = View { start: wide.as_ptr().cast(), is_scalar: false };
                    cast(self.dtype, self.body.dtype, view, out_start, columns.len());
                }
            })
        }
    }
}

/// A tile of the product.
struct Part {
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// The operand that an epilogue stores the bare accumulator to, if it does just that.
pub fn plain_store(epilogue: &FusedBody, dtype: DType) -> Option<usize> {
    let [first, second] = &epilogue.insts[..] else { return None };
    match (&first.op, &second.op) {
        (FusedOp::Accumulator, FusedOp::Store { operand, access, value: 0 }) if first.dtype == dtype => {
            access.is_identity(epilogue.domain.points(second.class)).then_some(*operand)
        }
        _ => None,
    }
}

/// The sum of each column, in an order that depends on the shape and the strides alone.
///
/// # Safety
/// Nobody may write the matrix meanwhile.
unsafe fn sum_columns<T: Foldable>(matrix: Matrix<T>, out: &mut [T]) {
    let [n_rows, n_columns] = matrix.shape();
    out.fill(T::neutral(Fold::Sum));
    // SAFETY: neighbours in a row or in a column are a slice.
    unsafe {
        match matrix.strides() {
            _ if n_rows == 0 || n_columns == 0 => {}
            [row_stride, 1] if row_stride >= n_columns as isize => {
                let len = (n_rows - 1) * row_stride as usize + n_columns;
                let data = std::slice::from_raw_parts(matrix.at(0, 0), len);
                fold_rows(Fold::Sum, data, n_rows, row_stride as usize, out);
            }
            [1, _] => {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = fold(Fold::Sum, std::slice::from_raw_parts(matrix.at(0, column), n_rows));
                }
            }
            _ => {
                for row in 0..n_rows {
                    for (column, out) in out.iter_mut().enumerate() {
                        *out = combine(Fold::Sum, *out, *matrix.at(row, column));
                    }
                }
            }
        }
    }
}
