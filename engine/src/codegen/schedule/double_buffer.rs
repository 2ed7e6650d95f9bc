//! Double buffering of compute-bound rows.
//!
//! Compute-bound row kernels leave room for one block per SM, so loads cannot overlap arithmetic. They run as
//! persistent blocks that copy the next row to shared memory asynchronously.

use crate::codegen::analysis::cost::is_compute_bound;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::ir::intrinsics::{Intrinsic, Word};
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::scalar::widened;
use crate::codegen::ops::vector_group;
use crate::codegen::schedule::row_code::RowCode;
use crate::codegen::schedule::row_exchange::SharedWords;
use crate::codegen::schedule::row_place::Place;
use crate::codegen::schedule::row_plan::RowPlan;
use crate::device_model::DeviceModel;
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use cubecl_core::ir::{Arithmetic, Builtin, Variable};

/// Bytes of one asynchronous copy.
const COPY_BYTES: usize = 16;
/// Elements per thread from which a block of the most threads occupies an SM alone.
const FEWEST_HELD: usize = 24;

/// The loads that are double-buffered.
pub struct DoubleBuffer {
    /// Loads along the row.
    pub loads: Vec<Reg>,
    plan: RowPlan,
    n_groups: usize,
}

impl DoubleBuffer {
    /// None if the rows cannot be double-buffered, or if other blocks hide the latency.
    pub fn of(body: &FusedBody, plan: RowPlan, device: DeviceModel) -> Option<DoubleBuffer> {
        let n_groups = plan.groups?;
        let is_alone = plan.threads == device.most_threads && n_groups * plan.width >= FEWEST_HELD;
        let n_points = body.domain.points(Class::Element);
        let same = vector_group::same(body, plan.width);
        let is_copied = |reg: &Reg| match &body.insts[*reg].op {
            FusedOp::Load { access, index: None, .. } => {
                vector_group::is_vector(&body.insts[*reg], plan.width, &same)
                    && access.is_identity(n_points)
                    && plan.width * body.insts[*reg].dtype.size() == COPY_BYTES
            }
            _ => false,
        };
        let loads: Vec<Reg> = (0..body.insts.len()).filter(is_copied).collect();
        let bytes = loads.len() * n_groups * plan.threads * COPY_BYTES;
        let is_room = (1..=device.double_buffer_bytes).contains(&bytes);
        (is_alone && is_room && is_compute_bound(body, device)).then_some(DoubleBuffer {
            loads,
            plan,
            n_groups,
        })
    }

    /// Emits all rows of a persistent block.
    pub fn rows(
        &self,
        code: &mut Code,
        body: BodyCode,
        shared: Option<SharedWords>,
        n_rows: Variable,
    ) -> Result<(), CodegenError> {
        let elem = |reg: Reg| code.device.memory(body.body.insts[reg].dtype);
        let elems: Vec<_> = self.loads.iter().map(|&reg| elem(reg)).collect();
        let length = self.n_groups * self.plan.threads;
        let arrays: Vec<Variable> =
            elems.into_iter().map(|elem| code.shared_vectors(elem, self.plan.width, length)).collect();
        let [first, step] = [Builtin::CubePos, Builtin::CubeCount].map(|builtin| code.builtin(builtin));
        self.copy(code, &body, &arrays, first);
        let mut result = Ok(());
        code.range_by(first, n_rows, Some(step), |code, row| {
            code.perform(Intrinsic::AwaitCopies, &[]);
            let place = Place::at_row(code, self.plan, &body.body.domain, row);
            let mut rows = RowCode::new(code, body, self.plan, place, shared);
            self.read(code, &mut rows, &arrays);
            let next = code.bin(Arithmetic::Add, row, step);
            let is_row = code.less(next, n_rows);
            code.when(is_row, |code| self.copy(code, &rows.body, &arrays, next));
            result = rows.emit(code);
        });
        result
    }

    /// Starts the copy of a row. Each thread reads only the elements that it copies.
    fn copy(&self, code: &mut Code, body: &BodyCode, arrays: &[Variable], row: Variable) {
        let place = Place::at_row(code, self.plan, &body.body.domain, row);
        for k in 0..self.n_groups {
            let group = place.held(code, k, 0);
            let slot = self.slot(code, &place, k);
            for (&reg, &array) in self.loads.iter().zip(arrays) {
                let FusedOp::Load { operand, .. } = body.body.insts[reg].op else { continue };
                let from = Word::Place(body.shared.operands[operand].array, group.first_point());
                code.perform(Intrinsic::CopyAsync, &[Word::Place(array, slot), from]);
            }
        }
    }

    /// Loads the copied elements into registers, which frees the memory for the next copy.
    fn read(&self, code: &mut Code, rows: &mut RowCode, arrays: &[Variable]) {
        for k in 0..self.n_groups {
            let slot = self.slot(code, &rows.place, k);
            for (&reg, &array) in self.loads.iter().zip(arrays) {
                let dtype = rows.body.body.insts[reg].dtype;
                let values = code.load_components(array, slot, self.plan.width);
                let values: Vec<Variable> = values.into_iter().map(|x| widened(code, dtype, x)).collect();
                rows.give(k, reg, &values);
            }
        }
    }

    fn slot(&self, code: &mut Code, place: &Place, k: usize) -> Variable {
        let offset = code.at((k * self.plan.threads) as i64);
        code.add_at(place.lane, offset)
    }
}
