//! Sums of integers into few elements, such as counts. Updates of one element in memory wait for each other, so each block adds
//! its part of the updates in shared memory, and then these sums to the result.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::body::BodyCode;
use crate::codegen::schedule::map::registers_at_point;
use crate::codegen::schedule::scatter_update::{Index, computed, is_in_any_order};
use crate::codegen::types::THREADS;
use crate::device_model::DeviceModel;
use crate::fusion::{Kernel, Reg, ScatterBody};
use crate::ir::DType;
use cubecl_core::ir::{Builtin, Comparison, Variable};

/// The most elements that a block adds to.
const MOST_ELEMENTS: usize = 2048;
/// The fewest updates, and the fewest for each element.
const FEWEST_UPDATES: usize = 1 << 16;
const FEWEST_EACH: usize = 32;
/// Updates of a thread.
const EACH: usize = 32;

/// A sum of integers by blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterShared {
    result: usize,
    index: Index,
    update: Reg,
    dtype: DType,
    /// Indices, and elements behind the indexed axis.
    indices: usize,
    after: usize,
    /// Parts of the result that blocks add to on their own: its leading axes if all of it is too large, or else one.
    n_groups: usize,
    /// Elements and updates of a group.
    n_elements: usize,
    n_updates: usize,
}

/// The launch of a scatter's updates; none if another schedule is faster.
pub fn launch(kernel: &Kernel, body: &ScatterBody, device: DeviceModel) -> Option<KernelSpec> {
    let [batch, before, indexed, indices, after] = body.extents;
    let dtype = kernel.operands[body.result].ty.dtype;
    let (leads, of_lead) = (batch * before, indexed * after);
    let n_groups = if leads * of_lead <= MOST_ELEMENTS { 1 } else { leads };
    let (n_elements, n_updates) =
        (leads * of_lead / n_groups.max(1), leads * indices * after / n_groups.max(1));
    let is_sum = is_in_any_order(body, dtype, device) && matches!(dtype, DType::I32 | DType::U32);
    let is_crowded = n_elements <= MOST_ELEMENTS && n_updates >= FEWEST_UPDATES.max(FEWEST_EACH * n_elements);
    if !is_sum || !is_crowded || body.updates.has_checks() {
        return None;
    }
    let ScatterBody { update, result, .. } = *body;
    let schedule = ScatterShared {
        result,
        index: Index::of(body),
        update,
        dtype,
        indices,
        after,
        n_groups,
        n_elements,
        n_updates,
    };
    let mut operands = OperandForm::of(kernel);
    operands[result].is_atomic = true;
    Some(KernelSpec::new(body.updates.clone(), schedule, operands, device))
}

impl Schedule for ScatterShared {
    fn entry(&self) -> &'static str {
        "scatter_shared"
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        self.n_groups * self.blocks_of_group()
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.n_groups * self.n_updates
    }

    /// Its body has no assertions.
    fn without_stores(&self, _: &KernelSpec) -> Option<KernelSpec> {
        None
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let (block, unit) = (code.builtin(Builtin::CubePos), code.builtin(Builtin::UnitPosX));
        let sums = code.shared_atomics(self.n_elements);
        let end = code.at(self.n_elements as i64);
        code.range(unit, end, THREADS as i64, |code, element| {
            let (place, zero) = (code.place(sums, element), code.int(U32, 0));
            code.atomic_store(place, zero);
        });
        code.sync();
        let n_blocks = self.blocks_of_group();
        let (group, part) = (code.divided(block, n_blocks), code.modulo(block, n_blocks));
        let of_group = code.scaled(group, self.n_updates as i64);
        let of_part = code.scaled(part, (THREADS * EACH) as i64);
        let first = code.add_at(of_group, of_part);
        let start = code.add_at(first, unit);
        let (end, last) = (code.at_offset(first, THREADS * EACH), code.at_offset(of_group, self.n_updates));
        let is_last = code.less(last, end);
        let end = code.select(is_last, last, end);
        let mut result = Ok(());
        // A GPU may launch more blocks.
        let n_groups = code.at(self.n_groups as i64);
        let is_group = code.less(group, n_groups);
        let end = code.select(is_group, end, start);
        code.range(start, end, THREADS as i64, |code, point| result = self.add(code, &body, sums, point));
        code.sync();
        let first = code.scaled(group, self.n_elements as i64);
        self.add_sums(code, &body, sums, [unit, first]);
        result
    }
}

impl ScatterShared {
    fn blocks_of_group(&self) -> usize {
        self.n_updates.div_ceil(THREADS * EACH).max(1)
    }

    /// Adds an update in shared memory.
    fn add(
        &self,
        code: &mut Code,
        body: &BodyCode,
        sums: Variable,
        point: Variable,
    ) -> Result<(), CodegenError> {
        let (row, column) = (code.divided(point, self.after), code.modulo(point, self.after));
        let registers = self.index.registers(code, body, row)?;
        let (index, is_inside) = self.index.of_registers(code, body, &registers);
        let mut result = Ok(());
        code.when(is_inside, |code| {
            result = registers_at_point(code, body, point, registers).map(|registers| {
                let index = code.cast(code.index, index);
                let row = match self.n_groups {
                    1 => {
                        let lead = code.divided(row, self.indices);
                        let first = code.scaled(lead, self.index.extent as i64);
                        code.add_at(first, index)
                    }
                    _ => index,
                };
                let start = code.scaled(row, self.after as i64);
                let element = code.add_at(start, column);
                let update = code.cast(U32, computed(&registers, self.update));
                let place = code.place(sums, element);
                code.atomic_add(place, update);
            });
        });
        result
    }

    /// Adds the sums of a block to the result, from element `first` on.
    fn add_sums(&self, code: &mut Code, body: &BodyCode, sums: Variable, [unit, first]: [Variable; 2]) {
        let end = code.at(self.n_elements as i64);
        code.range(unit, end, THREADS as i64, |code, element| {
            let place = code.place(sums, element);
            let sum = code.atomic_load(U32, place);
            let zero = code.int(U32, 0);
            let is_some = code.cmp(Comparison::NotEqual, sum, zero);
            code.when(is_some, |code| {
                let sum = code.cast(code.device.register(self.dtype), sum);
                let buffers = body.shared;
                buffers.unless_failed(code, |code| {
                    let element = code.add_at(first, element);
                    let place = buffers.place(code, self.result, element);
                    code.atomic_add(place, sum);
                });
            });
        });
    }
}
