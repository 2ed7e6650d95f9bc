//! Scatters: the base, then the updates in one launch, both computed on the way.
//!
//! Sums of numbers that the device adds to memory at once take a thread per update; those of floats come out in any
//! order. All else takes a thread per column and part of the indexed axis, which goes over all indices in order, or, where
//! that would take long, updates are put in the order of their rows first (`by_row.rs`).

use crate::codegen::ir::builder::{Code, I32, I64};
use crate::codegen::ir::intrinsics::{Intrinsic, Word};
use crate::codegen::ops::assertion::is_clear;
use crate::codegen::ops::body::{BodyCode, Memory, Registers};
use crate::codegen::ops::packed_types::narrowed_on_the_way;
use crate::codegen::ops::scalar::{narrowed, widened, within_type};
use crate::codegen::ops::vector_group::Group;
use crate::codegen::schedule::map::{THREADS, registers_at_point, registers_of_group};
use crate::codegen::schedule::matmul::with_used_operands;
use crate::codegen::schedule::scatter_sorted;
use crate::codegen::target::Target;
use crate::codegen::{Buffers, CodegenError, Form, KernelSpec, operand_forms};
use crate::fusion::{Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, Reg, ScatterBody};
use crate::ir::{Combine, DType};
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, ElemType, Variable};

/// Threads that an ordered scatter is cut for.
const ENOUGH_THREADS: usize = 1 << 15;

/// Most rows whose indices each block looks at before it writes.
pub const MOST_ROWS_CHECKED: usize = 1024;

/// What is combined where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterForm {
    result: usize,
    index: Index,
    update: Reg,
    indices: usize,
    after: usize,
    combine: Combine,
    dtype: DType,
    /// Parts of the indexed axis; none if each update has a thread.
    parts: Option<usize>,
    /// Rows of indices to look at, which each block does before it writes if state is written; 0 if there are none.
    pub rows_checked: usize,
    /// Whether nothing is written.
    only_checks: bool,
    /// Neighbouring updates of a thread, which are added at once.
    pub width: usize,
    /// Threads.
    pub n_points: usize,
}

impl ScatterForm {
    fn of(kernel: &Kernel, body: &ScatterBody, target: Target) -> ScatterForm {
        let [batch, before, indexed, indices, after] = body.extents;
        let dtype = kernel.operands[body.result].ty.dtype;
        let n_columns = batch * before * after;
        let parts = match is_in_any_order(body, dtype, target) {
            true => None,
            false => Some((ENOUGH_THREADS / n_columns.max(1)).clamp(1, indexed.max(1))),
        };
        let n_points = n_columns * parts.unwrap_or(indices);
        let width = if parts.is_none() { added_at_once(dtype, after, target) } else { 1 };
        let ScatterBody { update, result, combine, .. } = *body;
        let checks = body.updates.insts.iter().any(|inst| matches!(inst.op, FusedOp::Check { .. }));
        let rows_checked = if checks && parts.is_none() { batch * before * indices } else { 0 };
        ScatterForm {
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
            n_points,
        }
    }
}

/// Whether the device adds updates to memory at once. Sums of integers are the same in any order.
pub fn is_in_any_order(body: &ScatterBody, dtype: DType, target: Target) -> bool {
    body.combine == Combine::Add && target.adds(dtype) && (dtype.is_int() || !body.in_order)
}

/// Neighbours in rows of `after` that are added at once.
pub fn added_at_once(dtype: DType, after: usize, target: Target) -> usize {
    if target.adds_four && dtype == DType::F32 && after.is_multiple_of(4) { 4 } else { 1 }
}

/// Emits the updates of a scatter, which `tile` computes.
pub fn scatter(
    code: &mut Code,
    form: &ScatterForm,
    tile: &FusedBody,
    buffers: &Buffers,
    n_points: Variable,
) -> Result<(), CodegenError> {
    if form.only_checks {
        return form.check_all(code, &BodyCode { tile, buffers, shared: buffers });
    }
    let mut checked = None;
    if let Some(guard) = buffers.guard.filter(|_| form.rows_checked > 0) {
        form.check_all(code, &BodyCode { tile, buffers, shared: buffers })?;
        // All that this block could have found is in the flag now, and so is what other kernels found.
        code.sync();
        checked = Some(Buffers { is_clear: Some(is_clear(code, guard)), ..buffers.clone() });
    }
    let buffers = checked.as_ref().unwrap_or(buffers);
    let thread = code.builtin(Builtin::AbsolutePos);
    let point = code.scaled(thread, form.width as i64);
    let is_point = code.less(point, n_points);
    let tile = BodyCode { tile, buffers, shared: buffers };
    let mut result = Ok(());
    code.when(is_point, |code| {
        result = match form.parts {
            None => form.at_once(code, &tile, point),
            Some(parts) => form.in_order(code, &tile, parts, point),
        };
    });
    result
}

impl ScatterForm {
    /// The same, but it only looks at the indices.
    pub fn only_checks(self) -> ScatterForm {
        ScatterForm { only_checks: true, n_points: 1, ..self }
    }

    /// The threads of a block look at all indices.
    fn check_all(&self, code: &mut Code, tile: &BodyCode) -> Result<(), CodegenError> {
        let start = code.builtin(Builtin::UnitPosX);
        let end = code.at(self.rows_checked as i64);
        let mut result = Ok(());
        code.range(start, end, THREADS as i64, |code, row| {
            result = self.index.registers(code, tile, row).map(drop)
        });
        result
    }

    fn at_once(&self, code: &mut Code, tile: &BodyCode, point: Variable) -> Result<(), CodegenError> {
        let (row, column) = (code.divided(point, self.after), code.modulo(point, self.after));
        let registers = self.index.registers(code, tile, row)?;
        let (index, is_inside) = self.index.of_registers(code, tile, &registers);
        let mut result = Ok(());
        code.when(is_inside, |code| {
            result = self.updates(code, tile, point, registers).map(|updates| {
                let lead = code.divided(row, self.indices);
                let element = self.result_element(code, lead, index, column);
                tile.shared.unless_raised(code, |code| {
                    add_at_once(code, tile.shared, (self.result, element), &updates);
                });
            });
        });
        result
    }

    /// The updates of a thread, from `point` on.
    fn updates(
        &self,
        code: &mut Code,
        tile: &BodyCode,
        point: Variable,
        registers: Registers,
    ) -> Result<Vec<Variable>, CodegenError> {
        if self.width == 1 {
            return self.update(code, tile, point, registers).map(|update| vec![update]);
        }
        let group = Group::from(code, point, self.width);
        let registers = registers_of_group(code, tile, &group, registers)?;
        Ok(registers.iter().map(|registers| computed(registers, self.update)).collect())
    }

    fn in_order(
        &self,
        code: &mut Code,
        tile: &BodyCode,
        parts: usize,
        point: Variable,
    ) -> Result<(), CodegenError> {
        let (rest, column) = (code.divided(point, self.after), code.modulo(point, self.after));
        let (lead, part) = (code.divided(rest, parts), code.modulo(rest, parts));
        let length = self.index.extent.div_ceil(parts);
        let low = code.scaled(part, length as i64);
        let elem = self.index.elem(code, tile);
        let low = code.cast(elem, low);
        let length = code.int(elem, length as i64);
        let high = code.bin(Arithmetic::Add, low, length);
        let (start, end) = (code.at(0), code.at(self.indices as i64));
        let mut result = Ok(());
        code.range(start, end, 1, |code, i| {
            result = self.in_turn(code, tile, (lead, i, column), (low, high));
        });
        result
    }

    /// One update of one column, if its index lies in a part of the indexed axis.
    fn in_turn(
        &self,
        code: &mut Code,
        tile: &BodyCode,
        (lead, i, column): (Variable, Variable, Variable),
        (low, high): (Variable, Variable),
    ) -> Result<(), CodegenError> {
        let first = code.scaled(lead, self.indices as i64);
        let row = code.add_at(first, i);
        let registers = self.index.registers(code, tile, row)?;
        let (index, is_inside) = self.index.of_registers(code, tile, &registers);
        let is_above = code.cmp(Comparison::GreaterEqual, index, low);
        let is_below = code.less(index, high);
        let is_own = code.and(is_above, is_below);
        let is_own = code.and(is_own, is_inside);
        let mut result = Ok(());
        code.when(is_own, |code| {
            let start = code.scaled(row, self.after as i64);
            let point = code.add_at(start, column);
            result = self.update(code, tile, point, registers).map(|update| {
                let element = self.result_element(code, lead, index, column);
                let value = match self.combine {
                    Combine::Set => narrowed(code, self.dtype, update),
                    Combine::Add => {
                        let old = tile.shared.load(code, self.result, element);
                        sum(code, self.dtype, old, update)
                    }
                };
                tile.shared.store_unless_raised(code, self.result, element, value);
            });
        });
        result
    }

    fn update(
        &self,
        code: &mut Code,
        tile: &BodyCode,
        point: Variable,
        registers: Registers,
    ) -> Result<Variable, CodegenError> {
        Ok(computed(&registers_at_point(code, tile, point, registers)?, self.update))
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

/// Adds neighbours to those in memory.
pub fn add_at_once(
    code: &mut Code,
    buffers: &Buffers,
    (result, element): (usize, Variable),
    updates: &[Variable],
) {
    if let &[update] = updates {
        let place = buffers.place(code, result, element);
        code.atomic_add(place, update);
        return;
    }
    let place = Word::Place(buffers.operands[result].array, element);
    let words = updates.iter().map(|&update| Word::Value(update));
    let words: Vec<Word> = [place].into_iter().chain(words).collect();
    code.perform(Intrinsic::AddFour, &words);
}

/// What an element becomes, as both lie in memory.
pub fn sum(code: &mut Code, dtype: DType, old: Variable, update: Variable) -> Variable {
    let old = widened(code, dtype, old);
    let sum = match dtype {
        DType::Bool => code.or(old, update),
        _ => code.bin(Arithmetic::Add, old, update),
    };
    let sum = within_type(code, dtype, sum);
    match code.target.lanes(dtype) {
        1 => narrowed(code, dtype, sum),
        _ => narrowed_on_the_way(code, dtype, sum),
    }
}

/// Where an index of a row of updates comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    reg: Reg,
    /// The extent of the axis that it is of.
    pub extent: usize,
}

impl Index {
    pub fn of(body: &ScatterBody) -> Index {
        Index { reg: body.index, extent: body.extents[2] }
    }

    /// Computes it, with what else is the same all along the row.
    pub fn registers(
        &self,
        code: &mut Code,
        tile: &BodyCode,
        row: Variable,
    ) -> Result<Registers, CodegenError> {
        let mut registers = vec![None; tile.tile.insts.len()];
        tile.run(code, 0..=self.reg, row, &mut registers)?;
        Ok(registers)
    }

    /// The index, and whether there is such a row.
    pub fn of_registers(
        &self,
        code: &mut Code,
        tile: &BodyCode,
        registers: &Registers,
    ) -> (Variable, Variable) {
        let elem = self.elem(code, tile);
        let index = code.cast(elem, computed(registers, self.reg));
        let (zero, extent) = (code.int(elem, 0), code.int(elem, self.extent as i64));
        let is_above = code.cmp(Comparison::GreaterEqual, index, zero);
        let is_below = code.less(index, extent);
        (index, code.and(is_above, is_below))
    }

    /// The signed type that indices and bounds are compared in. Where there is no wider one, what does not fit is
    /// negative, and so outside.
    fn elem(&self, code: &Code, tile: &BodyCode) -> ElemType {
        let fits = matches!(tile.tile.insts[self.reg].dtype, DType::I32 | DType::U8);
        let is_short = fits && i32::try_from(self.extent).is_ok();
        if is_short || !code.target.has_i64 { I32 } else { I64 }
    }
}

/// What a register holds.
pub fn computed(registers: &Registers, reg: Reg) -> Variable {
    registers[reg].unwrap_or_else(|| crate::bug!("register {reg} of a scatter was not computed"))
}

/// The base, and the updates.
pub fn launches(kernel: &Kernel, body: &ScatterBody, target: Target) -> Vec<KernelSpec> {
    let base = with_used_operands(by_point(&body.base), Form::Map, operand_forms(kernel)).on(target);
    if let Some(by_row) = scatter_sorted::launches(kernel, body, target) {
        return [base].into_iter().chain(by_row).collect();
    }
    let form = ScatterForm::of(kernel, body, target);
    let mut operands = operand_forms(kernel);
    operands[body.result].is_atomic = form.parts.is_none();
    let updates = KernelSpec {
        tile: body.updates.clone(),
        form: Form::Scatter(form),
        operands,
        is_guarded: false,
        target,
    };
    vec![base, updates]
}

/// The same tile, where a row is a point: neighbours are in different rows then, and nothing is there once for a group of them.
fn by_point(tile: &FusedBody) -> FusedBody {
    let Domain { row, inner, .. } = tile.domain;
    let class = |class: Class| if class == Class::Row && row * inner == 1 { Class::Element } else { class };
    let insts = tile.insts.iter().map(|inst| FusedInst { class: class(inst.class), ..inst.clone() });
    FusedBody { insts: insts.collect(), ..tile.clone() }
}
