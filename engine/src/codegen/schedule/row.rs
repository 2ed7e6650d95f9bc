//! Row kernels. A plan divides rows among threads; rows that leave room for one block per SM are double-buffered.

use crate::codegen::analysis::cost::is_compute_bound;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::ops::vector_group;
use crate::codegen::schedule::double_buffer::DoubleBuffer;
use crate::codegen::schedule::row_emit::row_by;
use crate::codegen::schedule::row_exchange::SharedWords;
use crate::codegen::schedule::row_plan::RowPlan;
use crate::fusion::Class;

/// The schedule of a row kernel; the length of a row determines its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row;

impl Schedule for Row {
    fn entry(&self) -> &'static str {
        "row"
    }

    fn threads(&self, kernel: &KernelSpec) -> usize {
        plan(kernel).block_threads()
    }

    fn blocks(&self, kernel: &KernelSpec, n_rows: usize) -> usize {
        let plan = plan(kernel);
        match DoubleBuffer::of(&kernel.body, plan, kernel.device()) {
            Some(_) => n_rows.min(kernel.device().n_processors),
            None => n_rows.div_ceil(plan.rows),
        }
    }

    fn n_points(&self, kernel: &KernelSpec) -> usize {
        kernel.body.domain.points(Class::Row)
    }

    fn vector_width(&self, kernel: &KernelSpec, operand: usize) -> usize {
        vector_group::shared_width(&kernel.body, operand, plan(kernel).width)
    }

    /// Exact functions cost no time in a memory-bound kernel.
    fn allows_fast_math(&self, kernel: &KernelSpec) -> bool {
        is_compute_bound(&kernel.body, kernel.device())
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let (body, n_rows) = (kernel.body(), kernel.points());
        let plan = RowPlan::of(body.body, code.device);
        let shared = SharedWords::of(code, body.body, plan);
        match DoubleBuffer::of(body.body, plan, code.device) {
            Some(buffer) => buffer.rows(code, body, shared, n_rows),
            None => row_by(code, body, plan, shared, n_rows),
        }
    }
}

fn plan(kernel: &KernelSpec) -> RowPlan {
    RowPlan::of(&kernel.body, kernel.device())
}
