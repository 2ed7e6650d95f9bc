//! The product of a matmul and its epilogue, tile by tile.

use super::super::interp::{
    Buffer, Frame, Layout, Program, ScratchSize, Sharing, Span, Spread, View, Worker, compile, row_pitch,
    with_type,
};
use super::super::memory::Memory;
use super::call::Call;
use super::halves::Halves;
use super::scratch::{LaunchSize, WorkerScratch};
use crate::device::DeviceError;
use engine_core::fusion::{MatmulBody, MatrixOperand, Side};
use engine_core::ir::DType;
use engine_numerics::gemm::{
    GemmFloat, Matrix, Offsets, Right, Scratch, TileMut, Tiles, gemm_tile, gemm_tile_of_pairs,
};
use engine_numerics::loops::Number;
use engine_numerics::loops::reduce::Fold;
use std::ops::Range;

/// The points of a block of the epilogue.
const BLOCK: usize = 2048;
/// The most multiplications of small matrices that are computed together.
const MOST_PRODUCTS: usize = 100_000;
/// Rows of a tile from this length on are blocks of their own, to which a value of a row is one value.
const LONG_ROW: usize = 1024;

/// The product of a tile.
type Gemm<T> = fn(&mut Scratch<T>, Matrix<T>, Right<T>, &mut TileMut<T>);

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
    /// The operands, if they are of half precision.
    pub halves: Option<Halves>,
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
    /// The part of the contracted axis.
    pub depths: Range<usize>,
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
        let halves = Halves::new(body)?;
        let uniforms = Memory::new(8 * epilogue.n_uniforms)?;
        Ok(Product { body: body.clone(), dtype, tiles, epilogue, uniforms, halves, uneven })
    }

    /// The scratch that a worker needs.
    pub fn size(&self) -> LaunchSize {
        let (rows, columns) = self.tiles.largest();
        let programs = ScratchSize::of(&self.epilogue, BLOCK.max(columns), BLOCK);
        LaunchSize { tile: rows * columns * self.dtype.size(), ..LaunchSize::of_programs(programs) }
    }

    /// How many whole matrices a chunk has, so that its epilogue fills a block and its products take as long as those of a
    /// tile.
    pub fn n_together(&self) -> usize {
        let MatmulBody { m, n, k, batch, .. } = self.body;
        let n_points = (m * n).max(1);
        let most = (BLOCK / n_points).min(MOST_PRODUCTS / (n_points * k.max(1))).min(batch.div_ceil(8));
        if self.tiles.len() == 1 { most.max(1) } else { 1 }
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
                    let is_pairs = self.halves.as_ref().is_some_and(Halves::is_pairs);
                    let (scratch, out) = (&mut scratch.f32, (target.cast(), row_stride));
                    let gemm = if is_pairs { gemm_tile_of_pairs } else { gemm_tile };
                    self.multiply_floats::<f32>(gemm, scratch, buffers, tile, out)
                }
                DType::F64 => {
                    let (scratch, out) = (&mut scratch.f64, (target.cast(), row_stride));
                    self.multiply_floats::<f64>(gemm_tile, scratch, buffers, tile, out)
                }
                dtype => {
                    with_type!(dtype, T => self.multiply_integers::<T>(buffers, tile, target.cast(), row_stride))
                }
            }
        }
    }

    unsafe fn multiply_floats<T: GemmFloat>(
        &self,
        gemm: Gemm<T>,
        scratch: &mut Scratch<T>,
        buffers: &[Buffer],
        tile: Tile,
        (out, row_stride): (*mut T, usize),
    ) {
        // SAFETY: the caller's.
        unsafe {
            let a = self.matrix::<T>(buffers, Side::Lhs, tile.batch);
            let depths = self.depths_in_memory(&tile, a.shape());
            let a = a.part(tile.rows.clone(), depths.clone());
            let b = self.right::<T>(buffers, tile.batch, depths, tile.columns.clone());
            let mut out = TileMut::from_raw(out, tile.rows.len(), tile.columns.len(), row_stride);
            gemm(scratch, a, b, &mut out);
        }
    }

    /// Products of integers, which wrap.
    unsafe fn multiply_integers<T: Number>(
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
                    let products = tile.depths.clone().map(|p| T::times(*a.at(row, p), *b.at(p, column)));
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

    /// The part of the contracted axis in matrices of this shape, whose elements may be pairs: then it is the whole axis.
    fn depths_in_memory(&self, tile: &Tile, [_, k]: [usize; 2]) -> Range<usize> {
        if self.halves.is_some() { 0..k } else { tile.depths.clone() }
    }

    /// Some rows and columns of one right matrix; all rows of an uneven one.
    ///
    /// # Safety
    /// As for [`Product::matrix`].
    unsafe fn right<'a, T>(
        &'a self,
        buffers: &[Buffer],
        batch: usize,
        depths: Range<usize>,
        columns: Range<usize>,
    ) -> Right<'a, T> {
        let Some(offsets) = &self.uneven else {
            // SAFETY: the caller's.
            let matrix = unsafe { self.matrix::<T>(buffers, Side::Rhs, batch) };
            return matrix.part(depths, columns).into();
        };
        let Buffer { start, len, .. } = buffers[self.body.rhs.operand];
        // SAFETY: the caller's: the buffer holds `len` elements of this type.
        let data = unsafe { std::slice::from_raw_parts(start.cast::<T>(), len) };
        offsets.matrix(data, batch, columns)
    }

    /// One matrix of an operand with strides, in the accumulator type, or as pairs of bf16.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and no worker may write the operand meanwhile.
    pub unsafe fn matrix<'a, T>(&'a self, buffers: &[Buffer], side: Side, batch: usize) -> Matrix<'a, T> {
        if let Some(halves) = &self.halves {
            // SAFETY: the caller's.
            return unsafe { halves.matrix(buffers, side, batch) };
        }
        let (operand, shape) = self.side(side);
        let Buffer { start, len, .. } = buffers[operand.operand];
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
}
