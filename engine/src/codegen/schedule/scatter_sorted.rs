//! Sorted scatters: updates are sorted by their row of the result, in a stable order ([`Sorted`]). A thread
//! then loads neighbouring elements of a row, combines them with the row's updates in order, and stores them once.
//! Producers of the updates are fused. Rows without updates stay untouched.
//!
//! Sums in this order equal the CPU's bit by bit. Where the order is free, rows with many updates are cut into
//! pieces, whose sums are added atomically. Otherwise a single block would handle a row with all updates.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::kernel::{Argument, KernelCode, KernelSpec, OperandForm, Schedule, THREADS, needed_by};
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::buffers::Memory;
use crate::codegen::ops::scalar::narrowed;
use crate::codegen::ops::vector_group::{self, Group};
use crate::codegen::schedule::map::{Map, registers_at_point, registers_of_group, wide_enough};
use crate::codegen::schedule::radix_sort::Sorted;
use crate::codegen::schedule::scatter_update::{
    Index, add_atomically, atomic_width, computed, is_in_any_order, sum,
};
use crate::device_model::DeviceModel;
use crate::fusion::{FusedBody, Kernel, Reg, ScatterBody};
use crate::ir::{Combine, DType};
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, Variable};

/// Fewest indices for which sorting is faster than a loop over all indices in each thread. A sort takes at least
/// three launches.
const FEWEST_IN_ORDER: usize = 64;
/// Fewest elements for which sorting is faster than atomic adds of single elements, where the order is free.
const FEWEST_ELEMENTS: usize = 1 << 26;
/// Shortest row worth sorting for; for shorter ones the sort takes most of the time.
const SHORTEST_ROW: usize = 128;
/// Updates of a piece.
const PIECE: usize = 64;
/// Updates that a thread loads together, to hide latency.
const LOADED_TOGETHER: usize = 4;
/// The longest body whose code is repeated for that.
const MOST_INSTRUCTIONS: usize = 64;

/// One launch of a sorted scatter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterSorted {
    step: Step,
    extents: Extents,
    /// Neighbours of a thread.
    width: usize,
    /// Threads times neighbours.
    n_points: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Extents {
    /// Rows of updates.
    n: usize,
    /// Elements of a row.
    after: usize,
    /// Rows of the result.
    n_rows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Computes the row of the result of each row of updates; rows without one get the number after the last.
    Keys { index: Index, indices: usize },
    /// Computes all updates for their assertions.
    Checks,
    /// Combines the updates of a row, from its first one on.
    Rows(Combining),
    /// Combines the updates of a piece, if the row has a full piece.
    Pieces(Combining),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Combining {
    update: Reg,
    combine: Combine,
    dtype: DType,
    /// The operand of the result. The sorted keys and the numbers of the updates follow it.
    result: usize,
    /// Whether rows are cut into pieces.
    is_cut: bool,
}

/// The launches of a sorted scatter's updates; none if another schedule is faster.
pub fn launches(kernel: &Kernel, body: &ScatterBody, device: DeviceModel) -> Option<Vec<KernelSpec>> {
    let [batch, before, _, indices, after] = body.extents;
    let is_cut = is_in_any_order(body, kernel.operands[body.result].ty.dtype, device);
    let is_worth_it = match is_cut {
        true => {
            let n_elements = batch * before * indices * after;
            !device.adds_four && after >= SHORTEST_ROW && n_elements >= FEWEST_ELEMENTS
        }
        false => indices >= FEWEST_IN_ORDER && after > 0,
    };
    is_worth_it.then(|| sorted_launches(kernel, body, is_cut, device)).flatten()
}

/// The launches of a sorted scatter's updates, regardless of speed. None if a row number exceeds a word, or a
/// launch has too many tensors. If `is_cut`, the updates of a row are added in any order.
pub fn sorted_launches(
    kernel: &Kernel,
    body: &ScatterBody,
    is_cut: bool,
    device: DeviceModel,
) -> Option<Vec<KernelSpec>> {
    let [batch, before, indexed, indices, after] = body.extents;
    let extents = Extents { n: batch * before * indices, after, n_rows: batch * before * indexed };
    let largest = u32::try_from(extents.n_rows.max(extents.n)).ok()?;
    let sorted = Sorted::new(extents.n, extents.n_rows as u32);
    let mut launches = vec![keys(kernel, body, extents, &sorted)];
    launches.extend(sorted.launches(device));
    launches.push(rows(kernel, body, extents, &sorted, is_cut));
    launches.extend(is_cut.then(|| pieces(kernel, body, extents, &sorted, device)));
    // The error flag's two arguments do not count as tensors.
    let fits = |fused: &KernelSpec| {
        fused.clone().guarded().arguments().len() <= device.most_tensors.saturating_add(2)
    };
    let is_possible = largest < u32::MAX && launches.iter().all(fits);
    is_possible.then(|| launches.into_iter().map(|fused| fused.on(device)).collect())
}

fn keys(kernel: &Kernel, body: &ScatterBody, extents: Extents, sorted: &Sorted) -> KernelSpec {
    let insts = body.updates.insts[..=body.index].to_vec();
    let step = Step::Keys { index: Index::of(body), indices: body.extents[3] };
    let schedule = ScatterSorted { step, extents, width: 1, n_points: extents.n };
    let of_index = FusedBody { insts, ..body.updates.clone() };
    let mut keys = KernelSpec::of_used_operands(of_index, schedule, OperandForm::of(kernel));
    keys.operands.push(sorted.unsorted_keys());
    keys
}

fn rows(kernel: &Kernel, body: &ScatterBody, extents: Extents, sorted: &Sorted, is_cut: bool) -> KernelSpec {
    let n_points = extents.n * extents.after;
    let dtype = kernel.operands[body.result].ty.dtype;
    let (updates, _) = needed_by(&body.updates, body.update);
    let width = vector_group::width(&updates, extents.after).min(vector_group::VECTOR_BYTES / dtype.size());
    let schedule = |combining: Combining| ScatterSorted {
        step: Step::Rows(combining),
        extents,
        width: wide_enough(width, n_points),
        n_points,
    };
    combining(kernel, body, (sorted, is_cut), schedule)
}

/// The launch that sums pieces of rows and adds the sums atomically.
fn pieces(
    kernel: &Kernel,
    body: &ScatterBody,
    extents: Extents,
    sorted: &Sorted,
    device: DeviceModel,
) -> KernelSpec {
    let dtype = kernel.operands[body.result].ty.dtype;
    let schedule = |combining: Combining| ScatterSorted {
        step: Step::Pieces(combining),
        extents,
        width: atomic_width(dtype, extents.after, device),
        n_points: extents.n.div_ceil(PIECE) * extents.after,
    };
    let mut pieces = combining(kernel, body, (sorted, true), schedule);
    let result = pieces.operands.len() - 3;
    pieces.operands[result].is_atomic = true;
    pieces
}

/// A launch that computes updates in the order of their rows. The result, the sorted keys and the numbers of the
/// updates follow the operands of the updates.
fn combining(
    kernel: &Kernel,
    body: &ScatterBody,
    (sorted, is_cut): (&Sorted, bool),
    schedule: impl FnOnce(Combining) -> ScatterSorted,
) -> KernelSpec {
    let (updates, update) = needed_by(&body.updates, body.update);
    let forms = OperandForm::of(kernel);
    let result = forms[body.result];
    let launch = KernelSpec::of_used_operands(updates, Map, forms);
    let (dtype, combine, place) = (result.dtype, body.combine, launch.operands.len());
    let mut launch =
        launch.with_schedule(schedule(Combining { update, combine, dtype, result: place, is_cut }));
    launch.operands.push(result);
    launch.operands.extend(sorted.keys_and_numbers());
    launch
}

impl Schedule for ScatterSorted {
    fn entry(&self) -> &'static str {
        match self.step {
            Step::Keys { .. } => "scatter_keys",
            Step::Checks => "scatter_checks",
            Step::Rows(_) => "scatter_rows",
            Step::Pieces(_) => "scatter_pieces",
        }
    }

    fn blocks(&self, _: &KernelSpec, n_points: usize) -> usize {
        n_points.div_ceil(THREADS * self.width)
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.n_points
    }

    fn vector_width(&self, kernel: &KernelSpec, operand: usize) -> usize {
        match kernel.operands[operand].argument {
            Argument::Operand(_) => vector_group::shared_width(&kernel.body, operand, self.width),
            _ => 1,
        }
    }

    fn writes_tensors(&self) -> bool {
        matches!(self.step, Step::Rows(_) | Step::Pieces(_))
    }

    /// The launch that computes keys checks the indices. For the other assertions, one launch computes all
    /// updates.
    fn without_stores(&self, kernel: &KernelSpec) -> Option<KernelSpec> {
        let Step::Rows(combining) = self.step else { return None };
        let Extents { n, after, .. } = self.extents;
        let checks = ScatterSorted { step: Step::Checks, width: 1, n_points: n * after, ..self.clone() };
        let mut kernel = kernel.clone().with_schedule(checks);
        kernel.operands.truncate(combining.result);
        Some(kernel)
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let thread = code.builtin(Builtin::AbsolutePos);
        let point = code.scaled(thread, self.width as i64);
        let is_point = code.less(point, kernel.points());
        let mut result = Ok(());
        code.when(is_point, |code| {
            result = match self.step {
                Step::Keys { index, indices } => self.key(code, &body, (index, indices), point),
                Step::Checks => {
                    registers_at_point(code, &body, point, vec![None; body.body.insts.len()]).map(drop)
                }
                Step::Rows(combining) => self.combining(combining, &body).row(code, point),
                Step::Pieces(combining) => self.combining(combining, &body).piece(code, point),
            };
        });
        result
    }
}

impl ScatterSorted {
    fn key(
        &self,
        code: &mut Code,
        body: &BodyCode,
        (index, indices): (Index, usize),
        row: Variable,
    ) -> Result<(), CodegenError> {
        let registers = index.registers(code, body, row)?;
        let (index_word, is_inside) = index.of_registers(code, body, &registers);
        let index_word = code.cast(U32, index_word);
        let lead = code.divided(row, indices);
        let first = code.scaled(lead, index.extent as i64);
        let first = code.cast(U32, first);
        let key = code.bin(Arithmetic::Add, first, index_word);
        let no_row = code.int(U32, self.extents.n_rows as i64);
        let key = code.select(is_inside, key, no_row);
        // The keys are the last operand.
        if let Some(keys) = body.shared.operands.last() {
            code.store(keys.array, row, key);
        }
        Ok(())
    }

    fn combining<'t>(&self, form: Combining, body: &'t BodyCode<'t>) -> Rows<'t> {
        let [keys, numbers] = [1, 2].map(|i| body.shared.operands[form.result + i].array);
        Rows { form, extents: self.extents, width: self.width, body, keys, numbers }
    }
}

/// A launch that combines updates in the order of their rows.
struct Rows<'t> {
    form: Combining,
    extents: Extents,
    width: usize,
    body: &'t BodyCode<'t>,
    /// By place in the order: the row of the result.
    keys: Variable,
    /// By place in the order: the row of updates.
    numbers: Variable,
}

/// The updates of one row of the result at neighbouring columns.
struct Run {
    key: Variable,
    column: Variable,
    /// The first place in the order, and the end of the places to visit.
    start: Variable,
    limit: Variable,
    /// The row of updates at `start`.
    number: Variable,
}

impl Rows<'_> {
    /// The thread at the first update of a row combines the row.
    fn row(&self, code: &mut Code, point: Variable) -> Result<(), CodegenError> {
        let Extents { n, after, n_rows } = self.extents;
        let (start, column) = (code.divided(point, after), code.modulo(point, after));
        let (key, number) = (code.load(self.keys, start), code.load(self.numbers, start));
        let n_rows = code.int(U32, n_rows as i64);
        let is_row = code.less(key, n_rows);
        let is_set = self.form.combine == Combine::Set;
        let is_next = self.is_of(code, key, start, if is_set { 1 } else { -1 });
        let is_end = code.not(is_next);
        let mut is_combined = code.and(is_row, is_end);
        let mut limit = code.at(n as i64);
        if self.form.is_cut {
            let (end, is_empty) = self.whole_pieces(code, key, start, limit);
            let has_some = code.not(is_empty);
            is_combined = code.and(is_combined, has_some);
            limit = end;
        }
        let run = Run { key, column, start, limit, number };
        let mut result = Ok(());
        code.when(is_combined, |code| {
            result = if is_set { self.last(code, &run) } else { self.sum(code, &run) }
        });
        result
    }

    /// Whether the place at a distance exists and has the same key.
    fn is_of(&self, code: &mut Code, key: Variable, place: Variable, distance: i64) -> Variable {
        let other = code.at(distance);
        // Before place 0, this wraps around.
        let other = code.bin(Arithmetic::Add, place, other);
        let end = code.at(self.extents.n as i64);
        let is_there = code.less(other, end);
        let other = code.select(is_there, other, place);
        let other = code.load(self.keys, other);
        let is_same = code.cmp(Comparison::Equal, other, key);
        code.and(is_there, is_same)
    }

    /// The start of the row's full pieces, or `end` if it has none; and whether the row starts there.
    fn whole_pieces(
        &self,
        code: &mut Code,
        key: Variable,
        start: Variable,
        end: Variable,
    ) -> (Variable, Variable) {
        let up = code.at_offset(start, PIECE - 1);
        let piece = code.divided(up, PIECE);
        let first = code.scaled(piece, PIECE as i64);
        let is_full = self.is_of(code, key, first, PIECE as i64 - 1);
        let is_start = code.cmp(Comparison::Equal, first, start);
        (code.select(is_full, first, end), code.and(is_full, is_start))
    }

    fn last(&self, code: &mut Code, run: &Run) -> Result<(), CodegenError> {
        let updates = self.updates(code, run.number, run.column)?;
        let values: Vec<Variable> =
            updates.into_iter().map(|update| narrowed(code, self.form.dtype, update)).collect();
        self.store(code, run, &values);
        Ok(())
    }

    fn sum(&self, code: &mut Code, run: &Run) -> Result<(), CodegenError> {
        let element = self.element(code, run);
        let old = match self.width {
            1 => vec![self.body.shared.load(code, self.form.result, element)],
            width => self.body.shared.load_vector(code, self.form.result, element, width),
        };
        let sums = self.with_updates(code, run, &old)?;
        self.store(code, run, &sums);
        Ok(())
    }

    fn store(&self, code: &mut Code, run: &Run, values: &[Variable]) {
        let element = self.element(code, run);
        let buffers = self.body.shared;
        buffers.unless_failed(code, |code| match values {
            &[value] => buffers.store(code, self.form.result, element, value),
            values => buffers.store_vector(code, self.form.result, element, values),
        });
    }

    /// A row's first full piece has a thread, and so does each later piece.
    fn piece(&self, code: &mut Code, point: Variable) -> Result<(), CodegenError> {
        let Extents { n, after, n_rows } = self.extents;
        let (piece, column) = (code.divided(point, after), code.modulo(point, after));
        let start = code.scaled(piece, PIECE as i64);
        let (key, number) = (code.load(self.keys, start), code.load(self.numbers, start));
        let is_full = self.is_of(code, key, start, PIECE as i64 - 1);
        let is_behind = self.is_of(code, key, start, -(PIECE as i64));
        let is_long = code.or(is_full, is_behind);
        let n_rows = code.int(U32, n_rows as i64);
        let is_row = code.less(key, n_rows);
        let is_combined = code.and(is_long, is_row);
        let (end, all) = (code.at_offset(start, PIECE), code.at(n as i64));
        let is_inside = code.less(end, all);
        let limit = code.select(is_inside, end, all);
        let run = Run { key, column, start, limit, number };
        let mut result = Ok(());
        code.when(is_combined, |code| {
            let zero = code.constant(code.device.register(self.form.dtype), 0.0);
            result = self.with_updates(code, &run, &vec![zero; self.width]).map(|sums| {
                let element = self.element(code, &run);
                let buffers = self.body.shared;
                buffers.unless_failed(code, |code| {
                    add_atomically(code, buffers, (self.form.result, element), &sums);
                });
            });
        });
        result
    }

    /// `old` with all updates of a run added in order, as memory holds it.
    fn with_updates(
        &self,
        code: &mut Code,
        run: &Run,
        old: &[Variable],
    ) -> Result<Vec<Variable>, CodegenError> {
        let sums: Vec<Variable> = old.iter().map(|&old| code.mutable(old)).collect();
        let (place, number) = (code.mutable(run.start), code.mutable(run.number));
        let n_loaded = if self.body.body.insts.len() <= MOST_INSTRUCTIONS { LOADED_TOGETHER } else { 1 };
        let mut result = Ok(());
        code.forever(|code| {
            let here = code.snapshot(place);
            let first = code.snapshot(number);
            let mut add = |code: &mut Code, numbers: &[Variable]| {
                if let Err(error) = self.add(code, run, numbers, &sums) {
                    result = Err(error);
                }
                let next = code.at_offset(here, numbers.len());
                code.assign(place, next);
            };
            if n_loaded == 1 {
                add(code, &[first]);
            } else {
                let are_more = self.is_in_run(code, run, here, n_loaded - 1);
                code.when(are_more, |code| {
                    let others = (1..n_loaded).map(|i| {
                        let place = code.at_offset(here, i);
                        code.load(self.numbers, place)
                    });
                    let numbers: Vec<Variable> = [first].into_iter().chain(others).collect();
                    add(code, &numbers);
                });
                let is_single = code.not(are_more);
                code.when(is_single, |code| add(code, &[first]));
            }
            let next = code.snapshot(place);
            let is_in_run = self.is_in_run(code, run, next, 0);
            let is_done = code.not(is_in_run);
            code.stop_if(is_done);
            let next = code.load(self.numbers, next);
            code.assign(number, next);
        });
        result.map(|()| sums)
    }

    /// Whether the place at a distance is in a run.
    fn is_in_run(&self, code: &mut Code, run: &Run, place: Variable, distance: usize) -> Variable {
        let place = code.at_offset(place, distance);
        let is_inside = code.less(place, run.limit);
        let place = code.select(is_inside, place, run.start);
        let key = code.load(self.keys, place);
        let is_same = code.cmp(Comparison::Equal, key, run.key);
        code.and(is_inside, is_same)
    }

    /// Adds rows of updates to sums in order; all of them are loaded first.
    fn add(
        &self,
        code: &mut Code,
        run: &Run,
        numbers: &[Variable],
        sums: &[Variable],
    ) -> Result<(), CodegenError> {
        let updates = numbers.iter().map(|&number| self.updates(code, number, run.column));
        let updates: Vec<Vec<Variable>> = updates.collect::<Result<_, _>>()?;
        for (i, &total) in sums.iter().enumerate() {
            let old = code.snapshot(total);
            let total_then =
                updates.iter().fold(old, |old, updates| sum(code, self.form.dtype, old, updates[i]));
            code.assign(total, total_then);
        }
        Ok(())
    }

    /// A row of updates at neighbouring columns.
    fn updates(
        &self,
        code: &mut Code,
        number: Variable,
        column: Variable,
    ) -> Result<Vec<Variable>, CodegenError> {
        let row = code.cast(code.index, number);
        let start = code.scaled(row, self.extents.after as i64);
        let point = code.add_at(start, column);
        code.note_place(point, self.extents.after, row, column);
        let registers = vec![None; self.body.body.insts.len()];
        let registers = match self.width {
            1 => vec![registers_at_point(code, self.body, point, registers)?],
            width => {
                let group = Group::from(code, point, width);
                registers_of_group(code, self.body, &group, registers)?
            }
        };
        Ok(registers.iter().map(|registers| computed(registers, self.form.update)).collect())
    }

    /// The first element of the result at the run's columns.
    fn element(&self, code: &mut Code, run: &Run) -> Variable {
        let row = code.cast(code.index, run.key);
        let start = code.scaled(row, self.extents.after as i64);
        code.add_at(start, run.column)
    }
}
