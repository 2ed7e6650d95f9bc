//! Bodies on values of rows, some of which the launch gives.

use super::super::interp::{
    Arg, Buffer, Frame, Layout, Op, Program, ScratchSize, Sharing, Span, Spread, View, Worker, compile,
    row_pitch,
};
use super::super::memory::Memory;
use super::call::Call;
use crate::device::DeviceError;
use engine_core::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::{DType, Scalar};
use std::ops::Range;

/// A compiled body that runs once a row. Values of rows that the launch gives are operands beyond those of the kernel.
pub struct RowRun {
    program: Program,
    uniforms: Memory,
    /// The register of the result.
    result: Reg,
    n_operands: usize,
    most_rows: usize,
    /// The size of a given value.
    size: usize,
}

impl RowRun {
    /// The operation that reads given value number `number` of each of `n_rows` rows.
    pub fn given(number: usize, n_operands: usize, n_rows: usize) -> FusedOp {
        FusedOp::Load { operand: n_operands + number, access: Access::strided(&[n_rows], &[1]), index: None }
    }

    /// Compiles a body whose values vary by row at most, for at most `most_rows` rows at a time. The result and given
    /// values are of type `dtype`.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        body: &FusedBody,
        result: Reg,
        dtype: DType,
        [most_rows, n_given]: [usize; 2],
        sharing: &[Sharing],
    ) -> Result<RowRun, DeviceError> {
        let mut body = body.clone();
        let class = Class::Row;
        let cast = FusedOp::Scalar(Scalar::Cast(dtype), vec![result]);
        body.insts.push(FusedInst { op: cast, dtype, class });
        let value = body.insts.len() - 1;
        body.insts.push(FusedInst { op: FusedOp::Fold { value }, dtype, class });
        let n_operands = sharing.len();
        let sharing: Vec<Sharing> =
            sharing.iter().copied().chain(std::iter::repeat_n(Sharing::Alone, n_given)).collect();
        let layout =
            Layout { spread: Spread::One, is_resident: true, is_contiguous: true, sharing: &sharing };
        let program = compile(&body, layout);
        let folded = program.insts().find_map(|inst| match inst.op {
            Op::Fold(Arg::Local(reg)) => Some(reg),
            _ => None,
        });
        let result = folded.unwrap_or_else(|| panic!("bug: a body of rows has no result"));
        let uniforms = Memory::new(8 * program.n_uniforms)?;
        Ok(RowRun { program, uniforms, result, n_operands, most_rows, size: dtype.size() })
    }

    /// The scratch that the program needs of a worker.
    pub fn size(&self) -> ScratchSize {
        ScratchSize::of(&self.program, self.most_rows, self.most_rows)
    }

    fn frame<'a>(&'a self, call: Call<'a>) -> Frame<'a> {
        call.frame(&self.program, &self.uniforms, row_pitch(self.most_rows))
    }

    /// Computes the uniform values.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and no other worker may run the body meanwhile.
    pub unsafe fn begin(&self, call: Call, worker: &mut Worker) {
        // SAFETY: the caller's.
        unsafe { self.frame(call).begin(worker, None) }
    }

    /// Runs the body over rows and returns their results, which are valid until the next run. Given values start with the
    /// first row.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and this worker the only user of the memory that the rows write.
    pub unsafe fn run(
        &self,
        call: Call,
        worker: &mut Worker,
        buffers: &mut Vec<Buffer>,
        rows: Range<usize>,
        given: &[*mut u8],
    ) -> View {
        buffers.clear();
        buffers.extend_from_slice(&call.buffers[..self.n_operands]);
        for start in given {
            let start = start.wrapping_sub(rows.start * self.size);
            buffers.push(Buffer { start, len: rows.end, size: self.size });
        }
        let frame = Frame { buffers, ..self.frame(call) };
        worker.row_base = worker.own_rows();
        let span = Span::line(rows.start, rows.len());
        // SAFETY: the caller's.
        unsafe {
            self.program.passes.iter().for_each(|pass| frame.run_insts(worker, &pass.row, span));
            frame.run_insts(worker, &self.program.last_row, span);
        }
        worker.get(self.result)
    }
}
