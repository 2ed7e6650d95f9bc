//! Sources of kernels: matrices that are read where they lie, picked row by row, or computed.

use super::block::{Buffer, Frame, ScratchSize, Span, Worker, row_pitch};
use super::body::Call;
use super::gemm::{Matrix, Rows};
use super::memory::Memory;
use super::program::{Layout, Program, Sharing, Spread, compile, value_only};
use super::scalar::View;
use super::simd::isa::Float;
use crate::device::DeviceError;
use engine_core::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Reg, Source, Window};
use engine_core::ir::{DType, Scalar};
use std::ops::Range;

/// Points that a tile is run over at a time.
const POINTS: usize = 2048;
/// Rows shorter than this share a run of a tile.
const SHORT_ROW: usize = 256;

/// What reading sources takes of a worker.
pub struct MatrixSourceScratch {
    indices: Memory,
    /// A row of zeros, for indices out of range.
    zeros: Memory,
    pointers: Vec<*const u8>,
    buffers: Vec<Buffer>,
    /// Rows that were computed.
    computed: Memory,
}

// SAFETY: the pointers are to operands and to the scratch itself, and are set anew before every use.
unsafe impl Send for MatrixSourceScratch {}

/// How much of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatrixSourceSize {
    /// Bytes of a row.
    pub row: usize,
    /// Rows that are picked at a time.
    pub n_rows: usize,
    /// Operands of the kernel.
    pub n_operands: usize,
    /// Bytes of rows that are computed at a time.
    pub computed: usize,
}

impl MatrixSourceSize {
    /// Enough for both.
    pub fn max(self, other: MatrixSourceSize) -> MatrixSourceSize {
        MatrixSourceSize {
            row: self.row.max(other.row),
            n_rows: self.n_rows.max(other.n_rows),
            n_operands: self.n_operands.max(other.n_operands),
            computed: self.computed.max(other.computed),
        }
    }
}

impl MatrixSourceScratch {
    /// Where indices go.
    pub fn indices(&self) -> *mut u8 {
        self.indices.start()
    }

    /// Where rows go that are computed.
    pub fn computed(&self) -> *mut u8 {
        self.computed.start()
    }

    /// Scratch of that size.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(size: MatrixSourceSize) -> Result<MatrixSourceScratch, DeviceError> {
        Ok(MatrixSourceScratch {
            indices: Memory::new(8 * size.n_rows)?,
            zeros: Memory::new(size.row)?,
            pointers: vec![std::ptr::null(); size.n_rows],
            buffers: Vec::with_capacity(size.n_operands + 1),
            computed: Memory::new(size.computed)?,
        })
    }
}

/// How a source is read.
pub enum MatrixSource {
    /// In an operand, in the type of the products.
    Window(Window),
    /// Rows of an operand, by an index that the tile computes.
    Picked(Window, BodyRun),
    /// Element by element.
    Computed(BodyRun),
}

/// The tile with a last store of `value` to an operand beyond its own, as an accumulator.
pub fn with_store(tile: &FusedBody, value: Reg, dtype: DType, operand: usize) -> FusedBody {
    let mut tile = tile.clone();
    let FusedInst { dtype: own, class, .. } = tile.insts[value];
    let value = match own == dtype {
        true => value,
        false => {
            tile.insts.push(FusedInst {
                op: FusedOp::Scalar(Scalar::Cast(dtype), vec![value]),
                dtype,
                class,
            });
            tile.insts.len() - 1
        }
    };
    let access = Access::strided(&[tile.domain.points(Class::Element)], &[1]);
    tile.insts.push(FusedInst {
        op: FusedOp::Store { operand, access, value },
        dtype,
        class: Class::Element,
    });
    tile
}

// ---- Sources.

/// A matrix of a source, ready to be multiplied.
pub enum Given<'a, T> {
    /// Even rows.
    Matrix(Matrix<'a, T>),
    /// Rows anywhere, to be multiplied one by one.
    Rows(Rows<T>),
}

impl MatrixSource {
    /// For matrices of so many rows, in that type.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        source: &Source,
        rows: usize,
        dtype: DType,
        sharing: &[Sharing],
    ) -> Result<MatrixSource, DeviceError> {
        let is_plain = source.tile.insts[source.value].dtype == dtype;
        match source.window(rows).filter(|_| is_plain) {
            Some(window) => match window.index {
                None => Ok(MatrixSource::Window(window)),
                Some((index, _)) if window.strides[1] == 1 || source.tile.domain.row == 1 => {
                    Ok(MatrixSource::Picked(window, BodyRun::of_indices(&source.tile, index, sharing)?))
                }
                Some(_) => MatrixSource::computed(source, dtype, sharing),
            },
            None => MatrixSource::computed(source, dtype, sharing),
        }
    }

    fn computed(source: &Source, dtype: DType, sharing: &[Sharing]) -> Result<MatrixSource, DeviceError> {
        let tile = with_store(&source.tile, source.value, dtype, sharing.len());
        Ok(MatrixSource::Computed(BodyRun::new(&tile, sharing, dtype)?))
    }

    /// The tile that it runs, if any.
    pub fn tile_run(&self) -> Option<&BodyRun> {
        match self {
            MatrixSource::Window(_) => None,
            MatrixSource::Picked(_, run) | MatrixSource::Computed(run) => Some(run),
        }
    }

    /// Some rows of one matrix of `n_rows`: row by row where it will be multiplied so, and `target` is where they are
    /// copied to if they have to be.
    ///
    /// # Safety
    /// As for [`AttentionLaunch::run`]; what comes of it holds until the next read into the same scratch.
    pub unsafe fn read<'a, T: Float>(
        &self,
        reader: &mut Reader<'_, 'a>,
        matrix: usize,
        [n_rows, columns]: [usize; 2],
        rows: Range<usize>,
        by_row: bool,
        target: *mut u8,
    ) -> Given<'a, T> {
        // SAFETY: the caller's.
        unsafe {
            let first = matrix * n_rows + rows.start;
            let given = match self {
                MatrixSource::Window(window) => {
                    window_matrix(window, reader.call, matrix, [n_rows, columns]).part(rows, 0..columns)
                }
                MatrixSource::Computed(run) => {
                    reader.run(run, first, rows.len(), std::ptr::null_mut(), target);
                    dense(target, rows.len(), columns)
                }
                MatrixSource::Picked(window, run) => {
                    let indices = reader.scratch.indices.start();
                    reader.run(run, first, rows.len(), std::ptr::null_mut(), indices);
                    let picked = reader.addresses::<T>(window, matrix * n_rows * columns, rows, columns);
                    if by_row {
                        return Given::Rows(picked);
                    }
                    copied(picked, target, columns)
                }
            };
            match by_row && (given.strides()[1] == 1 || columns == 1) {
                true => {
                    let (start, stride) = (given.at(0, 0), given.strides()[0]);
                    Given::Rows(Rows::Strided { start, stride, n: given.shape()[0] })
                }
                false => Given::Matrix(given),
            }
        }
    }
}

/// What is at hand when a source is read.
pub struct Reader<'r, 'a> {
    /// The launch.
    pub call: Call<'a>,
    /// The worker.
    pub worker: &'r mut Worker,
    /// Its scratch.
    pub scratch: &'r mut MatrixSourceScratch,
}

impl Reader<'_, '_> {
    /// Runs a tile over `n_rows` rows from `first_row` on; accumulators, if there are any, and what is stored beyond the
    /// operands start with the first of these rows.
    ///
    /// # Safety
    /// The buffers must be those of the kernel; there must be room for what is stored, which nobody else uses.
    pub unsafe fn run(
        &mut self,
        run: &BodyRun,
        first_row: usize,
        n_rows: usize,
        accumulators: *mut u8,
        target: *mut u8,
    ) {
        let buffers = &mut self.scratch.buffers;
        // SAFETY: the caller's.
        unsafe { run.run(self.call, self.worker, buffers, first_row, n_rows, accumulators, target) }
    }

    /// Addresses of rows by the indices in scratch; rows out of range read as zeros: a check has told of it, or the graph
    /// chose not to know.
    unsafe fn addresses<T>(
        &mut self,
        window: &Window,
        first_point: usize,
        rows: Range<usize>,
        columns: usize,
    ) -> Rows<T> {
        let buffer = self.call.buffers[window.operand];
        let stride = window.index.map_or(0, |(_, stride)| stride);
        let start = offset(window, first_point) + rows.start as i64 * window.strides[0];
        let largest = buffer.len as i64 - columns as i64;
        let n = rows.len();
        // SAFETY: the tile has written as many indices.
        let indices = unsafe { std::slice::from_raw_parts(self.scratch.indices.start().cast::<i64>(), n) };
        for (j, (pointer, index)) in self.scratch.pointers.iter_mut().zip(indices).enumerate() {
            let element = start + j as i64 * window.strides[0] + index * stride;
            *pointer = match (0..=largest).contains(&element) {
                true => buffer.start.wrapping_add(element as usize * buffer.size),
                false => self.scratch.zeros.start(),
            };
        }
        Rows::Picked { first: self.scratch.pointers.as_ptr().cast(), n }
    }
}

/// The element that a window's access leads to from a point.
pub fn offset(window: &Window, point: usize) -> i64 {
    // A window has no guards.
    window.access.at(point).unwrap_or(0)
}

/// # Safety
/// The buffer must hold elements of that type, which nobody writes meanwhile.
unsafe fn window_matrix<'a, T>(
    window: &Window,
    call: Call<'a>,
    matrix: usize,
    shape: [usize; 2],
) -> Matrix<'a, T> {
    let buffer = call.buffers[window.operand];
    // SAFETY: the caller's.
    let elements = unsafe { std::slice::from_raw_parts(buffer.start.cast::<T>(), buffer.len) };
    let offset = offset(window, matrix * shape[0] * shape[1]);
    Matrix::new(elements, offset as isize, shape, window.strides.map(|stride| stride as isize))
}

/// A dense matrix at an address.
///
/// # Safety
/// There must be as many elements, which nobody writes meanwhile.
pub unsafe fn dense<'a, T>(start: *mut u8, n_rows: usize, columns: usize) -> Matrix<'a, T> {
    // SAFETY: the caller's: there are as many elements.
    let elements = unsafe { std::slice::from_raw_parts(start.cast::<T>(), n_rows * columns) };
    Matrix::row_major(elements, n_rows, columns)
}

unsafe fn copied<'a, T: Float>(rows: Rows<T>, target: *mut u8, columns: usize) -> Matrix<'a, T> {
    // SAFETY: the caller's: the target has room for all rows.
    unsafe {
        for row in 0..rows.len() {
            let to = target.cast::<T>().add(row * columns);
            std::ptr::copy_nonoverlapping(rows.row(row), to, columns);
        }
        dense(target, rows.len(), columns)
    }
}

/// The part of a tile that computes the index of each row, with a store of it as i64.
fn indices_only(tile: &FusedBody, index: Reg, operand: usize) -> FusedBody {
    let (mut tile, index) = value_only(tile, index);
    let is_of_rows = tile.insts.iter().all(|inst| inst.class != Class::Element);
    assert!(is_of_rows, "bug: an index by row depends on elements");
    // Of a row a single point is left.
    tile.domain.row = 1;
    let class = tile.insts[index].class;
    let wide = FusedOp::Scalar(Scalar::Cast(DType::I64), vec![index]);
    tile.insts.push(FusedInst { op: wide, dtype: DType::I64, class });
    let access = Access::strided(&[tile.domain.outer], &[1]);
    let store = FusedOp::Store { operand, access, value: index + 1 };
    tile.insts.push(FusedInst { op: store, dtype: DType::I64, class: Class::Row });
    tile
}

// ---- Tiles.

/// A tile compiled to be run over any rows.
pub struct BodyRun {
    program: Program,
    uniforms: Memory,
    /// Points of a row.
    columns: usize,
    /// Rows at a time.
    step: usize,
    n_operands: usize,
    /// Size of an accumulator, and of what is stored beyond the operands.
    size: usize,
}

impl BodyRun {
    /// Compiles a tile; `sharing` tells by operand whether its memory is read as well, and `dtype` is the type of
    /// accumulators and of what is stored beyond the operands.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(tile: &FusedBody, sharing: &[Sharing], dtype: DType) -> Result<BodyRun, DeviceError> {
        let columns = tile.domain.row;
        let step = if columns < SHORT_ROW { (POINTS / columns).max(1) } else { 1 };
        let spread = if step > 1 { Spread::Each } else { Spread::One };
        let sharing: Vec<Sharing> = sharing.iter().copied().chain([Sharing::Alone]).collect();
        let layout = Layout { spread, is_resident: true, is_contiguous: true, sharing: &sharing };
        let program = compile(tile, layout);
        let n_operands = sharing.len() - 1;
        let uniforms = Memory::new(8 * program.n_uniforms)?;
        Ok(BodyRun { program, uniforms, columns, step, n_operands, size: dtype.size() })
    }

    /// Computes the index of each row, one of the tile's registers, as i64.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn of_indices(tile: &FusedBody, index: Reg, sharing: &[Sharing]) -> Result<BodyRun, DeviceError> {
        BodyRun::new(&indices_only(tile, index, sharing.len()), sharing, DType::I64)
    }

    /// Computes one of the tile's registers at every point.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn of_value(tile: &FusedBody, value: Reg, sharing: &[Sharing]) -> Result<BodyRun, DeviceError> {
        let (tile, value) = value_only(tile, value);
        let dtype = tile.insts[value].dtype;
        BodyRun::new(&with_store(&tile, value, dtype, sharing.len()), sharing, dtype)
    }

    /// The scratch that a worker needs.
    pub fn scratch(&self) -> ScratchSize {
        ScratchSize::of(&self.program, self.step * self.columns, self.step)
    }

    fn frame<'a>(&'a self, call: Call<'a>, buffers: &'a [Buffer]) -> Frame<'a> {
        Frame {
            program: &self.program,
            buffers,
            uniforms: self.uniforms.start(),
            alarm: call.alarm,
            seed: call.seed,
            reduces_down: false,
            row_pitch: row_pitch(self.step),
        }
    }

    /// Operands of the kernel.
    pub fn n_operands(&self) -> usize {
        self.n_operands
    }

    /// Computes what is the same for all rows.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and nobody may run the tile meanwhile.
    pub unsafe fn begin(&self, call: Call, worker: &mut Worker) {
        let frame = self.frame(call, call.buffers);
        // SAFETY: the caller's.
        unsafe {
            frame.write_constants(None);
            frame.run_uniform(worker);
        }
    }

    #[allow(clippy::too_many_arguments)]
    unsafe fn run(
        &self,
        call: Call,
        worker: &mut Worker,
        buffers: &mut Vec<Buffer>,
        first_row: usize,
        n_rows: usize,
        accumulators: *mut u8,
        target: *mut u8,
    ) {
        let size = self.size;
        buffers.clear();
        buffers.extend_from_slice(&call.buffers[..self.n_operands]);
        let first_point = first_row * self.columns;
        let start = target.wrapping_sub(first_point * size);
        buffers.push(Buffer { start, len: first_point + n_rows * self.columns, size });
        let frame = self.frame(call, buffers);
        for row in (0..n_rows).step_by(self.step) {
            let height = self.step.min(n_rows - row);
            let start = accumulators.wrapping_add(row * self.columns * size);
            worker.accumulator = View { start, is_scalar: height * self.columns == 1 };
            // SAFETY: the caller's.
            unsafe { self.run_rows(&frame, worker, first_row + row, height) };
        }
    }

    unsafe fn run_rows(&self, frame: &Frame, worker: &mut Worker, first_row: usize, height: usize) {
        let rows = Span::line(first_row, height);
        let (start, width) = (first_row * self.columns, self.columns);
        let points = Span { start, width, height, pitch: width, along: 0 };
        worker.row_base = worker.own_rows();
        let base = worker.row_base;
        // SAFETY: the caller's.
        unsafe {
            for pass in &self.program.passes {
                frame.run_insts(worker, &pass.row, rows);
                frame.begin_reductions(worker, pass, height, base);
                frame.run_insts(worker, &pass.element, points);
            }
            frame.run_insts(worker, &self.program.last_row, rows);
        }
    }
}
