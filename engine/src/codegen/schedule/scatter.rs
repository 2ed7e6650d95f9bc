//! Scatters: a launch for the base, then one for the updates, both fused with their producers.
//!
//! If the device adds numbers of the type to memory atomically, each update has a thread; sums of floats then vary
//! in their order. Where there are many updates, a thread has a few rows of them, and adds up neighbours with equal
//! indices. Blocks add many updates to few elements in shared memory first ([`scatter_shared`]). Otherwise a
//! thread per column and part of the indexed axis visits all indices in order. Where that would take long, a sorted
//! scatter is used ([`scatter_sorted`]).

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::assertion::is_clear;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::scalar::narrowed;
use crate::codegen::ops::vector_group::Group;
use crate::codegen::schedule::map::{Map, registers_at_point, registers_of_group};
use crate::codegen::schedule::scatter_update::{
    Index, add_atomically, atomic_width, computed, is_in_any_order, sum,
};
use crate::codegen::schedule::{scatter_shared, scatter_sorted};
use crate::codegen::types::THREADS;
use crate::device_model::DeviceModel;
use crate::fusion::{Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, Reg, ScatterBody};
use crate::ir::{Combine, DType};
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, Variable};

/// Threads that the parts of an ordered scatter should yield.
const ENOUGH_THREADS: usize = 1 << 15;

/// Rows of a thread whose neighbours with equal indices are added up.
const RUN: usize = 4;

/// The fewest threads with [`RUN`] rows each. Fewer would leave multiprocessors idle.
const FEWEST_RUNS: usize = 1 << 16;

/// Most rows whose indices each block checks before it writes.
pub const MOST_ROWS_CHECKED: usize = 1024;

/// A scatter with a thread per update, or per column and part of the indexed axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterByUpdate {
    result: usize,
    index: Index,
    update: Reg,
    indices: usize,
    after: usize,
    combine: Combine,
    dtype: DType,
    /// Parts of the indexed axis; none if each update has a thread.
    parts: Option<usize>,
    /// Rows of indices that each block of a guarded kernel checks before it writes; 0 if there is nothing to
    /// check.
    rows_checked: usize,
    /// Whether the launch only evaluates assertions.
    only_checks: bool,
    /// Neighbouring updates that a thread adds with one instruction.
    width: usize,
    /// Rows of a thread.
    run: usize,
    /// Threads times width.
    n_points: usize,
}

impl ScatterByUpdate {
    fn of(kernel: &Kernel, body: &ScatterBody, device: DeviceModel) -> ScatterByUpdate {
        let [batch, before, indexed, indices, after] = body.extents;
        let dtype = kernel.operands[body.result].ty.dtype;
        let n_columns = batch * before * after;
        let parts = match is_in_any_order(body, dtype, device) {
            true => None,
            false => Some((ENOUGH_THREADS / n_columns.max(1)).clamp(1, indexed.min(indices).max(1))),
        };
        let n_updates = n_columns * parts.unwrap_or(indices);
        let width = if parts.is_none() { atomic_width(dtype, after, device) } else { 1 };
        let is_word = device.lanes(dtype) == 1 && dtype.size() >= 4;
        let is_many = indices.is_multiple_of(RUN) && n_updates / (RUN * width) >= FEWEST_RUNS;
        let run = if parts.is_none() && is_word && is_many { RUN } else { 1 };
        let ScatterBody { update, result, combine, .. } = *body;
        let checks = body.updates.insts.iter().any(|inst| matches!(inst.op, FusedOp::Check { .. }));
        let rows_checked = if checks && parts.is_none() { batch * before * indices } else { 0 };
        ScatterByUpdate {
            result,
            index: Index::of(body),
            update,
            indices,
            after,
            combine,
            dtype,
            parts,
            rows_checked,
            only_checks: false,
            width,
            run,
            n_points: n_updates / run,
        }
    }
}

impl Schedule for ScatterByUpdate {
    fn entry(&self) -> &'static str {
        "scatter"
    }

    fn blocks(&self, _: &KernelSpec, n_points: usize) -> usize {
        n_points.div_ceil(THREADS * self.width)
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.n_points
    }

    fn without_stores(&self, kernel: &KernelSpec) -> Option<KernelSpec> {
        let checks = ScatterByUpdate { only_checks: true, n_points: 1, ..self.clone() };
        Some(kernel.without_stores().with_schedule(checks))
    }

    fn checks_before_writing(&self) -> bool {
        self.rows_checked > 0
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let (body, buffers) = (kernel.body(), kernel.buffers);
        if self.only_checks {
            return self.check_all(code, &body);
        }
        let mut checked = None;
        if let Some(guard) = buffers.guard.filter(|_| self.rows_checked > 0) {
            self.check_all(code, &body)?;
            // After the barrier, the flag holds all failures that this block can find, and those of earlier
            // kernels.
            code.sync();
            checked = Some(Buffers { is_clear: Some(is_clear(code, guard)), ..buffers.clone() });
        }
        let buffers = checked.as_ref().unwrap_or(buffers);
        let thread = code.builtin(Builtin::AbsolutePos);
        let point = code.scaled(thread, self.width as i64);
        let is_point = code.less(point, kernel.points());
        let body = BodyCode { buffers, shared: buffers, ..body };
        let mut result = Ok(());
        code.when(is_point, |code| {
            result = match self.parts {
                None if self.run > 1 => self.add_run(code, &body, point),
                None => self.add_update(code, &body, point),
                Some(parts) => self.in_order(code, &body, parts, point),
            };
        });
        result
    }
}

impl ScatterByUpdate {
    /// The threads of a block check all indices.
    fn check_all(&self, code: &mut Code, body: &BodyCode) -> Result<(), CodegenError> {
        let start = code.builtin(Builtin::UnitPosX);
        let end = code.at(self.rows_checked as i64);
        let mut result = Ok(());
        code.range(start, end, THREADS as i64, |code, row| {
            result = self.index.registers(code, body, row).map(drop)
        });
        result
    }

    fn add_update(&self, code: &mut Code, body: &BodyCode, point: Variable) -> Result<(), CodegenError> {
        let (row, column) = (code.divided(point, self.after), code.modulo(point, self.after));
        let registers = self.index.registers(code, body, row)?;
        let (index, is_inside) = self.index.of_registers(code, body, &registers);
        let mut result = Ok(());
        code.when(is_inside, |code| {
            result = self.updates(code, body, point, registers).map(|updates| {
                let lead = code.divided(row, self.indices);
                let element = self.result_element(code, lead, index, column);
                body.shared.unless_failed(code, |code| {
                    add_atomically(code, body.shared, (self.result, element), &updates);
                });
            });
        });
        result
    }

    /// Adds a few rows of updates. Neighbours with equal indices are added up, so long runs of one index, such as those of
    /// padding, meet in memory less often.
    fn add_run(&self, code: &mut Code, body: &BodyCode, point: Variable) -> Result<(), CodegenError> {
        let (group, column) = (code.divided(point, self.after), code.modulo(point, self.after));
        let first = code.scaled(group, self.run as i64);
        let lead = code.divided(first, self.indices);
        let mut rows = Vec::new();
        for i in 0..self.run {
            let i = code.at(i as i64);
            let row = code.add_at(first, i);
            let registers = self.index.registers(code, body, row)?;
            let place = self.index.of_registers(code, body, &registers);
            let start = code.scaled(row, self.after as i64);
            let point = code.add_at(start, column);
            rows.push((place, self.updates(code, body, point, registers)?));
        }
        let sums: Vec<Variable> = rows[0].1.iter().map(|&update| code.mutable(update)).collect();
        let ((mut index, mut is_inside), _) = rows[0];
        for ((next, is_next_inside), updates) in &rows[1..] {
            let is_equal = code.cmp(Comparison::Equal, index, *next);
            let is_other = code.not(is_equal);
            let ends = code.and(is_inside, is_other);
            self.end_run(code, body, (lead, index, column), (ends, &sums));
            for (&sum, &update) in sums.iter().zip(updates) {
                let together = code.bin(Arithmetic::Add, sum, update);
                let value = code.select(is_equal, together, update);
                code.assign(sum, value);
            }
            (index, is_inside) = (*next, *is_next_inside);
        }
        self.end_run(code, body, (lead, index, column), (is_inside, &sums));
        Ok(())
    }

    /// Adds the sums of a run to memory, if it ends here.
    fn end_run(
        &self,
        code: &mut Code,
        body: &BodyCode,
        (lead, index, column): (Variable, Variable, Variable),
        (ends, sums): (Variable, &[Variable]),
    ) {
        code.when(ends, |code| {
            let element = self.result_element(code, lead, index, column);
            let sums: Vec<Variable> = sums.iter().map(|&sum| code.snapshot(sum)).collect();
            body.shared.unless_failed(code, |code| {
                add_atomically(code, body.shared, (self.result, element), &sums);
            });
        });
    }

    /// The updates of a thread, from `point` on.
    fn updates(
        &self,
        code: &mut Code,
        body: &BodyCode,
        point: Variable,
        registers: Registers,
    ) -> Result<Vec<Variable>, CodegenError> {
        if self.width == 1 {
            return self.update(code, body, point, registers).map(|update| vec![update]);
        }
        let group = Group::from(code, point, self.width);
        let registers = registers_of_group(code, body, &group, registers)?;
        Ok(registers.iter().map(|registers| computed(registers, self.update)).collect())
    }

    fn in_order(
        &self,
        code: &mut Code,
        body: &BodyCode,
        parts: usize,
        point: Variable,
    ) -> Result<(), CodegenError> {
        let (rest, column) = (code.divided(point, self.after), code.modulo(point, self.after));
        let (lead, part) = (code.divided(rest, parts), code.modulo(rest, parts));
        let length = self.index.extent.div_ceil(parts);
        let low = code.scaled(part, length as i64);
        let elem = self.index.elem(code, body);
        let low = code.cast(elem, low);
        let length = code.int(elem, length as i64);
        let high = code.bin(Arithmetic::Add, low, length);
        let (start, end) = (code.at(0), code.at(self.indices as i64));
        let mut result = Ok(());
        code.range(start, end, 1, |code, i| {
            result = self.update_in_order(code, body, (lead, i, column), (low, high));
        });
        result
    }

    /// Emits one update of a column, if its index lies in a part of the indexed axis.
    fn update_in_order(
        &self,
        code: &mut Code,
        body: &BodyCode,
        (lead, i, column): (Variable, Variable, Variable),
        (low, high): (Variable, Variable),
    ) -> Result<(), CodegenError> {
        let first = code.scaled(lead, self.indices as i64);
        let row = code.add_at(first, i);
        let registers = self.index.registers(code, body, row)?;
        let (index, is_inside) = self.index.of_registers(code, body, &registers);
        let is_above = code.cmp(Comparison::GreaterEqual, index, low);
        let is_below = code.less(index, high);
        let is_own = code.and(is_above, is_below);
        let is_own = code.and(is_own, is_inside);
        let mut result = Ok(());
        code.when(is_own, |code| {
            let start = code.scaled(row, self.after as i64);
            let point = code.add_at(start, column);
            result = self.update(code, body, point, registers).map(|update| {
                let element = self.result_element(code, lead, index, column);
                let value = match self.combine {
                    Combine::Set => narrowed(code, self.dtype, update),
                    Combine::Add => {
                        let old = body.shared.load(code, self.result, element);
                        sum(code, self.dtype, old, update)
                    }
                };
                body.shared.store_unless_failed(code, self.result, element, value);
            });
        });
        result
    }

    fn update(
        &self,
        code: &mut Code,
        body: &BodyCode,
        point: Variable,
        registers: Registers,
    ) -> Result<Variable, CodegenError> {
        Ok(computed(&registers_at_point(code, body, point, registers)?, self.update))
    }

    fn result_element(&self, code: &mut Code, lead: Variable, index: Variable, column: Variable) -> Variable {
        let index = code.cast(code.index, index);
        self.element(code, (lead, self.index.extent), index, column)
    }

    fn element(
        &self,
        code: &mut Code,
        (lead, rows): (Variable, usize),
        row: Variable,
        column: Variable,
    ) -> Variable {
        let first = code.scaled(lead, rows as i64);
        let row = code.add_at(first, row);
        let start = code.scaled(row, self.after as i64);
        code.add_at(start, column)
    }
}

/// The launches of a scatter: the base, then the updates.
pub fn launches(kernel: &Kernel, body: &ScatterBody, device: DeviceModel) -> Vec<KernelSpec> {
    let base = KernelSpec::of_used_operands(by_point(&body.base), Map, OperandForm::of(kernel), device);
    if let Some(shared) = scatter_shared::launch(kernel, body, device) {
        return vec![base, shared];
    }
    if let Some(sorted) = scatter_sorted::launches(kernel, body, device) {
        return [base].into_iter().chain(sorted).collect();
    }
    let schedule = ScatterByUpdate::of(kernel, body, device);
    let mut operands = OperandForm::of(kernel);
    operands[body.result].is_atomic = schedule.parts.is_none();
    vec![base, KernelSpec::new(body.updates.clone(), schedule, operands, device)]
}

/// The body with rows as points, if each row has one element. Neighbouring points then lie in different rows, and
/// a group has no row register in common.
fn by_point(body: &FusedBody) -> FusedBody {
    let Domain { row, inner, .. } = body.domain;
    let class = |class: Class| if class == Class::Row && row * inner == 1 { Class::Element } else { class };
    let insts = body.insts.iter().map(|inst| FusedInst { class: class(inst.class), ..inst.clone() });
    FusedBody { insts: insts.collect(), ..body.clone() }
}
