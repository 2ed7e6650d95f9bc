//! The product of a matmul and its epilogue, tile by tile.

use super::super::gemm::{Matrix, Offsets, Right, Scratch, TileMut, Tiles, gemm_tile};
use super::super::interp::{
    Buffer, Frame, Layout, Program, ScratchSize, Sharing, Span, Spread, View, Worker, cast, compile,
    row_pitch, with_type,
};
use super::super::loops::reduce::{Fold, Foldable};
use super::super::memory::Memory;
use super::super::pool::Pool;
use super::super::simd::isa::Float;
use super::call::Call;
use super::scratch::{LaunchSize, WorkerScratch};
use crate::device::DeviceError;
use engine_core::fusion::{MatmulBody, MatrixOperand, Side};
use engine_core::ir::DType;
use std::ops::Range;

/// The points of a block of the epilogue.
const BLOCK: usize = 2048;
/// Rows of a tile from this length on are blocks of their own, to which a value of a row is one value.
const LONG_ROW: usize = 1024;
/// The half-precision numbers that are converted at a time.
const WIDE_BLOCK: usize = 256;

/// A product and its epilogue, ready to run.
pub struct Product {
    /// The kernel's body.
    pub body: MatmulBody,
    /// The accumulator type.
    pub dtype: DType,
    /// The tiles of one matrix.
    pub tiles: Tiles,
    /// The epilogue.
    pub epilogue: Program,
    uniforms: Memory,
    /// Dense copies of half-precision operands, in f32.
    wide: Option<[Memory; 2]>,
    /// The offsets of an uneven right operand, which is never of half precision.
    uneven: Option<Offsets>,
}

/// A tile of a product.
pub struct Tile {
    /// The number of the matrix.
    pub batch: usize,
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
}

impl Product {
    /// Compiles a product; `sharing` is the memory that each operand shares.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &MatmulBody, sharing: &[Sharing]) -> Result<Product, DeviceError> {
        let (m, n, k) = (body.m, body.n, body.k);
        let dtype = body.dtype.accumulator();
        let uneven = body.uneven[1].as_deref().map(|axes| Offsets::new(body.rhs.offset, axes));
        // A short contraction spends its time in the epilogue, which is fastest on whole rows.
        let tiles = match uneven.as_ref().and_then(Offsets::windows) {
            Some(windows) if windows.are_direct(m) => Tiles::direct(m, n, k),
            _ => Tiles::new(m, n, k, n <= 256 && k < 64),
        };
        let (_, columns) = tiles.largest();
        let spread = if columns >= LONG_ROW { Spread::One } else { Spread::Each };
        let layout = Layout { spread, is_resident: true, is_contiguous: columns == n, sharing };
        let epilogue = compile(&body.epilogue, layout);
        let wide = match dtype == body.dtype {
            true => None,
            false => Some([Memory::new(4 * body.batch * m * k)?, Memory::new(4 * body.batch * k * n)?]),
        };
        let uniforms = Memory::new(8 * epilogue.n_uniforms)?;
        Ok(Product { body: body.clone(), dtype, tiles, epilogue, uniforms, wide, uneven })
    }

    /// The scratch that a worker needs.
    pub fn size(&self) -> LaunchSize {
        let (rows, columns) = self.tiles.largest();
        let programs = ScratchSize::of(&self.epilogue, BLOCK.max(columns), BLOCK);
        LaunchSize { tile: rows * columns * self.dtype.size(), ..LaunchSize::of_programs(programs) }
    }

    /// The frame of the epilogue.
    pub fn frame<'a>(&'a self, call: Call<'a>) -> Frame<'a> {
        call.frame(&self.epilogue, &self.uniforms, row_pitch(BLOCK))
    }

    // ---- Tiles.

    /// Computes a tile to `target`, its rows `row_stride` elements apart.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and the target valid for the tile.
    pub unsafe fn multiply(
        &self,
        scratch: &mut WorkerScratch,
        buffers: &[Buffer],
        tile: Tile,
        target: *mut u8,
        row_stride: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            match self.dtype {
                DType::F32 => {
                    self.multiply_floats::<f32>(&mut scratch.f32, buffers, tile, target.cast(), row_stride)
                }
                DType::F64 => {
                    self.multiply_floats::<f64>(&mut scratch.f64, buffers, tile, target.cast(), row_stride)
                }
                dtype => {
                    with_type!(dtype, T => self.multiply_integers::<T>(buffers, tile, target.cast(), row_stride))
                }
            }
        }
    }

    unsafe fn multiply_floats<T: Float>(
        &self,
        scratch: &mut Scratch<T>,
        buffers: &[Buffer],
        tile: Tile,
        out: *mut T,
        row_stride: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let a = self.matrix::<T>(buffers, Side::Lhs, tile.batch).part(tile.rows.clone(), 0..self.body.k);
            let b = self.right::<T>(buffers, tile.batch, tile.columns.clone());
            let mut out = TileMut::from_raw(out, tile.rows.len(), tile.columns.len(), row_stride);
            gemm_tile(scratch, a, b, &mut out);
        }
    }

    /// Products of integers, which wrap.
    unsafe fn multiply_integers<T: Foldable>(
        &self,
        buffers: &[Buffer],
        tile: Tile,
        out: *mut T,
        row_stride: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let a = self.matrix::<T>(buffers, Side::Lhs, tile.batch);
            let b = self.matrix::<T>(buffers, Side::Rhs, tile.batch);
            for (i, row) in tile.rows.enumerate() {
                for (j, column) in tile.columns.clone().enumerate() {
                    let products = (0..self.body.k).map(|p| T::times(*a.at(row, p), *b.at(p, column)));
                    let sum = products.fold(T::neutral(Fold::Sum), T::plus);
                    out.add(i * row_stride + j).write(sum);
                }
            }
        }
    }

    /// Runs the epilogue over a tile; after each block calls `after` with the block's first row within the tile and its
    /// number of rows.
    ///
    /// # Safety
    /// As for [`Frame::run_insts`]; there must be a tile of this shape at `tile`.
    pub unsafe fn run_epilogue(
        &self,
        frame: &Frame,
        worker: &mut Worker,
        tile: *mut u8,
        [first_row, first_column]: [usize; 2],
        [n_rows, n_columns]: [usize; 2],
        mut after: impl FnMut(&Worker, usize, usize),
    ) {
        worker.row_base = worker.own_rows();
        let by_row = self.tiles.largest().1 >= LONG_ROW;
        let step = if by_row { 1 } else { (BLOCK / n_columns).max(1) };
        let n = self.body.n;
        for row in (0..n_rows).step_by(step) {
            let height = step.min(n_rows - row);
            let start = tile.wrapping_add(row * n_columns * self.dtype.size());
            worker.accumulator = View::block(start, height * n_columns);
            let start = (first_row + row) * n + first_column;
            let span =
                Span { start, width: n_columns, height, pitch: n, along: first_column, bundle: height };
            // SAFETY: the caller's.
            unsafe {
                let pass = &self.epilogue.passes[0];
                frame.run_insts(worker, &pass.row, Span::line(first_row + row, height));
                frame.run_insts(worker, &pass.element, span);
            }
            after(worker, row, height);
        }
    }

    // ---- Operands.

    /// Some columns of one right matrix.
    ///
    /// # Safety
    /// As for [`Product::matrix`].
    unsafe fn right<'a, T>(
        &'a self,
        buffers: &[Buffer],
        batch: usize,
        columns: Range<usize>,
    ) -> Right<'a, T> {
        let Some(offsets) = &self.uneven else {
            // SAFETY: the caller's.
            let matrix = unsafe { self.matrix::<T>(buffers, Side::Rhs, batch) };
            return matrix.part(0..self.body.k, columns).into();
        };
        let Buffer { start, len, .. } = buffers[self.body.rhs.operand];
        // SAFETY: the caller's: the buffer holds `len` elements of this type.
        let data = unsafe { std::slice::from_raw_parts(start.cast::<T>(), len) };
        offsets.matrix(data, batch, columns)
    }

    /// One matrix of an operand with strides, in the accumulator type.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and no worker may write the operand meanwhile.
    pub unsafe fn matrix<'a, T>(&'a self, buffers: &[Buffer], side: Side, batch: usize) -> Matrix<'a, T> {
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
        // SAFETY: the caller's: the buffer holds `len` elements of this type.
        let data = unsafe { std::slice::from_raw_parts(start.cast::<T>(), len) };
        Matrix::new(data, offset as isize, shape, [operand.row as isize, operand.col as isize])
    }

    fn side(&self, side: Side) -> (MatrixOperand, [usize; 2]) {
        match side {
            Side::Lhs => (self.body.lhs, [self.body.m, self.body.k]),
            Side::Rhs => (self.body.rhs, [self.body.k, self.body.n]),
        }
    }

    /// Converts half-precision operands, row by row.
    ///
    /// # Safety
    /// As for [`Product::matrix`].
    pub unsafe fn widen(&self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        let Some(wide) = &self.wide else { return };
        for (side, wide) in [Side::Lhs, Side::Rhs].into_iter().zip(wide) {
            let (operand, [rows, columns]) = self.side(side);
            let source = call.buffers[operand.operand];
            let start = wide.start() as usize;
            pool.run_with(self.body.batch * rows, workers, |chunk, _| {
                let (batch, row) = (chunk / rows, chunk % rows);
                let first = operand.offset + batch as i64 * operand.batch + row as i64 * operand.row;
                // The closure captures the whole buffer, because its pointer alone is not `Send`.
                let source: Buffer = source;
                // SAFETY: the caller's: a buffer of half-precision numbers.
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
}
