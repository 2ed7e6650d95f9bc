//! Bodies that run over any rows, inside launches of other kinds.

use super::super::interp::{
    Buffer, Frame, Layout, Program, ScratchSize, Sharing, Span, Spread, View, Worker, compile, row_pitch,
    value_only,
};
use super::super::memory::Memory;
use super::call::Call;
use crate::device::DeviceError;
use engine_core::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::{DType, Scalar};
use std::ops::Range;

/// The points of a block.
const POINTS: usize = 2048;
/// Rows shorter than this share a block.
const SHORT_ROW: usize = 256;

/// A body with a last store of `value`, in a type, to an operand beyond its own.
pub fn with_store(body: &FusedBody, value: Reg, dtype: DType, operand: usize) -> FusedBody {
    with_store_of(Class::Element, body.clone(), value, dtype, operand)
}

fn with_store_of(class: Class, mut body: FusedBody, value: Reg, dtype: DType, operand: usize) -> FusedBody {
    let mut stored = value;
    if body.insts[value].dtype != dtype {
        stored = body.insts.len();
        let op = FusedOp::Scalar(Scalar::Cast(dtype), vec![value]);
        body.insts.push(FusedInst { op, dtype, class: body.insts[value].class });
    }
    let access = Access::strided(&[body.domain.points(class)], &[1]);
    body.insts.push(FusedInst {
        op: FusedOp::Store { operand, access, value: stored, index: None },
        dtype,
        class,
    });
    body
}

/// The part of a body that computes the index of each row, with a store of the index as i64.
fn indices_only(body: &FusedBody, index: Reg, operand: usize) -> FusedBody {
    let (mut body, index) = value_only(body, index);
    let is_of_rows = body.insts.iter().all(|inst| inst.class != Class::Element);
    assert!(is_of_rows, "bug: an index by row depends on elements");
    // Each row has a single point.
    body.domain.row = 1;
    with_store_of(Class::Row, body, index, DType::I64, operand)
}

/// A compiled body that runs over any rows.
pub struct BodyRun {
    program: Program,
    uniforms: Memory,
    /// The points of a row.
    columns: usize,
    /// The rows of a block.
    step: usize,
    n_operands: usize,
    /// The size of an accumulator, and of an element that is stored beyond the operands.
    size: usize,
}

impl BodyRun {
    /// Compiles a body; `sharing` is the memory that each operand shares. Accumulators and the elements that are stored
    /// beyond the operands are of type `dtype`.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &FusedBody, sharing: &[Sharing], dtype: DType) -> Result<BodyRun, DeviceError> {
        let columns = body.domain.row;
        let step = if columns < SHORT_ROW { (POINTS / columns).max(1) } else { 1 };
        let spread = if step > 1 { Spread::Each } else { Spread::One };
        let sharing: Vec<Sharing> = sharing.iter().copied().chain([Sharing::Alone]).collect();
        let layout = Layout { spread, is_resident: true, is_contiguous: true, sharing: &sharing };
        let program = compile(body, layout);
        let n_operands = sharing.len() - 1;
        let uniforms = Memory::new(8 * program.n_uniforms)?;
        Ok(BodyRun { program, uniforms, columns, step, n_operands, size: dtype.size() })
    }

    /// A run that computes the index of each row, a register of the body, as i64.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn of_indices(body: &FusedBody, index: Reg, sharing: &[Sharing]) -> Result<BodyRun, DeviceError> {
        BodyRun::new(&indices_only(body, index, sharing.len()), sharing, DType::I64)
    }

    /// A run that computes a register of the body at every point.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn of_value(body: &FusedBody, value: Reg, sharing: &[Sharing]) -> Result<BodyRun, DeviceError> {
        let (body, value) = value_only(body, value);
        let dtype = body.insts[value].dtype;
        BodyRun::new(&with_store(&body, value, dtype, sharing.len()), sharing, dtype)
    }

    /// The scratch that programs need of a worker.
    pub fn size(&self) -> ScratchSize {
        ScratchSize::of(&self.program, self.step * self.columns, self.step)
    }

    /// The operands of the kernel.
    pub fn n_operands(&self) -> usize {
        self.n_operands
    }

    /// Computes the uniform values.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and no other worker may run the body meanwhile.
    pub unsafe fn begin(&self, call: Call, worker: &mut Worker) {
        // SAFETY: the caller's.
        unsafe { self.frame(call).begin(worker, None) }
    }

    fn frame<'a>(&'a self, call: Call<'a>) -> Frame<'a> {
        call.frame(&self.program, &self.uniforms, row_pitch(self.step))
    }

    /// Runs the body over rows. Accumulators and the elements stored beyond the operands start with the first row.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and this worker the only user of the memory that the rows write.
    pub unsafe fn run(
        &self,
        call: Call,
        worker: &mut Worker,
        buffers: &mut Vec<Buffer>,
        rows: Range<usize>,
        [accumulators, target]: [*mut u8; 2],
    ) {
        let size = self.size;
        buffers.clear();
        buffers.extend_from_slice(&call.buffers[..self.n_operands]);
        let first_point = rows.start * self.columns;
        let start = target.wrapping_sub(first_point * size);
        buffers.push(Buffer { start, len: rows.end * self.columns, size });
        let frame = Frame { buffers, ..self.frame(call) };
        for row in rows.clone().step_by(self.step) {
            let height = self.step.min(rows.end - row);
            let start = accumulators.wrapping_add((row - rows.start) * self.columns * size);
            worker.accumulator = View::block(start, height * self.columns);
            // SAFETY: the caller's.
            unsafe { self.run_block(&frame, worker, row, height) };
        }
    }

    unsafe fn run_block(&self, frame: &Frame, worker: &mut Worker, first_row: usize, height: usize) {
        let rows = Span::line(first_row, height);
        let (start, width) = (first_row * self.columns, self.columns);
        let points = Span { start, width, height, pitch: width, along: 0, bundle: height };
        worker.row_base = worker.own_rows();
        let accumulators = frame.accumulators(worker.row_base, height);
        // SAFETY: the caller's.
        unsafe {
            for pass in &self.program.passes {
                frame.run_insts(worker, &pass.row, rows);
                accumulators.begin(worker, pass);
                frame.run_insts(worker, &pass.element, points);
            }
            frame.run_insts(worker, &self.program.last_row, rows);
        }
    }
}
