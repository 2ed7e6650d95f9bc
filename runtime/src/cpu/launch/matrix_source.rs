//! Sources of matrices: read in place, picked row by row, or computed.

use super::super::interp::{Sharing, Worker};
use super::body_run::{BodyRun, with_store};
use super::call::Call;
use super::scratch::MatrixSourceScratch;
use crate::device::DeviceError;
use engine_core::fusion::{Source, Window};
use engine_core::ir::DType;
use engine_numerics::gemm::{GemmFloat, Matrix, Rows};
use std::ops::Range;

/// The address of absent accumulators or of an absent target.
pub const NONE: *mut u8 = std::ptr::null_mut();

/// A source of matrices, by the way in which it is read.
pub enum MatrixSource {
    /// A matrix in an operand, in the type of the products.
    Window(Window),
    /// Rows of an operand, by computed indices.
    Picked(Window, BodyRun),
    /// Computed elements.
    Computed(BodyRun),
}

/// A matrix of a source, ready to be multiplied.
pub enum Given<'a, T> {
    /// A strided matrix.
    Matrix(Matrix<'a, T>),
    /// Rows to be multiplied one by one.
    Rows(Rows<T>),
}

impl<'a, T> Given<'a, T> {
    /// The matrix, of a source that is not multiplied row by row.
    pub fn whole(self) -> Matrix<'a, T> {
        match self {
            Given::Matrix(matrix) => matrix,
            Given::Rows(_) => panic!("bug: rows are no matrix"),
        }
    }
}

impl MatrixSource {
    /// A source of matrices of `rows` rows, in a type.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        source: &Source,
        rows: usize,
        dtype: DType,
        sharing: &[Sharing],
    ) -> Result<MatrixSource, DeviceError> {
        let is_plain = source.body.insts[source.value].dtype == dtype;
        if let Some(window) = source.window(rows).filter(|_| is_plain) {
            match window.index {
                None => return Ok(MatrixSource::Window(window)),
                Some((index, _)) if window.strides[1] == 1 || source.body.domain.row == 1 => {
                    let run = BodyRun::of_indices(&source.body, index, sharing)?;
                    return Ok(MatrixSource::Picked(window, run));
                }
                Some(_) => {}
            }
        }
        let body = with_store(&source.body, source.value, dtype, sharing.len());
        Ok(MatrixSource::Computed(BodyRun::new(&body, sharing, dtype)?))
    }

    /// The body that it runs, if any.
    pub fn body_run(&self) -> Option<&BodyRun> {
        match self {
            MatrixSource::Window(_) => None,
            MatrixSource::Picked(_, run) | MatrixSource::Computed(run) => Some(run),
        }
    }

    /// Reads some rows of one matrix of `n_rows`. With `by_row` they will be multiplied one by one. Rows that must be
    /// copied go to `target`.
    ///
    /// # Safety
    /// As for [`BodyRun::run`]. The result is valid until the next read into the same scratch.
    pub unsafe fn read<'a, T: GemmFloat>(
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
            let all_rows = matrix * n_rows + rows.start..matrix * n_rows + rows.end;
            let given = match self {
                MatrixSource::Window(window) => {
                    window_matrix(window, reader.call, matrix, [n_rows, columns]).part(rows, 0..columns)
                }
                MatrixSource::Computed(run) => {
                    reader.run(run, all_rows, NONE, target);
                    dense(target, rows.count(), columns)
                }
                MatrixSource::Picked(window, run) => {
                    let indices = reader.scratch.indices.start();
                    reader.run(run, all_rows, NONE, indices);
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

/// The arguments of reading a source.
pub struct Reader<'r, 'a> {
    /// The launch's arguments.
    pub call: Call<'a>,
    /// The worker.
    pub worker: &'r mut Worker,
    /// The worker's scratch for sources.
    pub scratch: &'r mut MatrixSourceScratch,
}

impl Reader<'_, '_> {
    /// Runs a body over rows, with accumulators and a target or [`NONE`].
    ///
    /// # Safety
    /// As for [`BodyRun::run`].
    pub unsafe fn run(&mut self, run: &BodyRun, rows: Range<usize>, accumulators: *mut u8, target: *mut u8) {
        let buffers = &mut self.scratch.buffers;
        // SAFETY: the caller's.
        unsafe { run.run(self.call, self.worker, buffers, rows, [accumulators, target]) }
    }

    /// The addresses of rows by the indices in scratch. Rows out of range read as zeros: a check has recorded them, or the
    /// graph has no check.
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
        let n = rows.count();
        // SAFETY: the body has written as many indices.
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

/// The element of a point in a window.
pub fn offset(window: &Window, point: usize) -> i64 {
    // A window has no guards.
    window.access.at(point).unwrap_or(0)
}

/// # Safety
/// The buffer must hold elements of that type, which no worker may write meanwhile.
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
/// There must be as many elements, which no worker may write meanwhile.
pub unsafe fn dense<'a, T>(start: *mut u8, n_rows: usize, columns: usize) -> Matrix<'a, T> {
    // SAFETY: the caller's: there are as many elements.
    let elements = unsafe { std::slice::from_raw_parts(start.cast::<T>(), n_rows * columns) };
    Matrix::row_major(elements, n_rows, columns)
}

unsafe fn copied<'a, T: GemmFloat>(rows: Rows<T>, target: *mut u8, columns: usize) -> Matrix<'a, T> {
    // SAFETY: the caller's: the target has room for all rows.
    unsafe {
        for row in 0..rows.count() {
            let to = target.cast::<T>().add(row * columns);
            std::ptr::copy_nonoverlapping(rows.row(row), to, columns);
        }
        dense(target, rows.count(), columns)
    }
}
