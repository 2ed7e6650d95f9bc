//! The code of a sorted scatter: a thread combines the updates of a row, or of a piece of it.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::buffers::Memory;
use crate::codegen::ops::scalar::narrowed;
use crate::codegen::ops::vector_group::Group;
use crate::codegen::schedule::map::{registers_at_point, registers_of_group};
use crate::codegen::schedule::scatter_update::{add_atomically, computed, sum};
use crate::fusion::Reg;
use crate::ir::{Combine, DType};
use cubecl_core::ir::{Arithmetic, Comparison, Variable};

/// Updates of a piece that is added atomically.
pub(super) const PIECE: usize = 64;
/// Updates of a piece that makes a row long enough for a block.
pub(super) const LONG_PIECE: usize = 128;
/// Updates that a thread loads together, to hide latency.
const LOADED_TOGETHER: usize = 4;
/// The longest body whose code is repeated for that.
pub(super) const MOST_INSTRUCTIONS: usize = 64;

/// The extents of a sorted scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Extents {
    /// Rows of updates.
    pub(super) n: usize,
    /// Elements of a row.
    pub(super) after: usize,
    /// Rows of the result.
    pub(super) n_rows: usize,
}

/// The combination of updates with rows of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Combining {
    pub(super) update: Reg,
    pub(super) combine: Combine,
    pub(super) dtype: DType,
    /// The operand of the result. The sorted keys and the numbers of the updates follow it.
    pub(super) result: usize,
    /// What adds up rows of many updates.
    pub(super) long: LongRows,
}

/// What adds up rows of many updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LongRows {
    /// A thread for each vector of columns.
    Thread,
    /// Threads for each piece; their sums are added atomically.
    Pieces,
    /// A block for each tile of columns.
    Block,
}

/// A launch that combines updates in the order of their rows.
pub(super) struct Rows<'t> {
    pub(super) form: Combining,
    pub(super) extents: Extents,
    pub(super) width: usize,
    pub(super) body: &'t BodyCode<'t>,
    /// By place in the order: the row of the result.
    pub(super) keys: Variable,
    /// By place in the order: the row of updates.
    pub(super) numbers: Variable,
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
    /// The thread at the first update of a row combines the row; for `Set`, the thread at the last one.
    pub(super) fn row(&self, code: &mut Code, point: Variable) -> Result<(), CodegenError> {
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
        match self.form.long {
            LongRows::Thread => {}
            LongRows::Pieces => {
                let (first, is_full) = self.whole_piece(code, (key, start), PIECE);
                let is_start = code.cmp(Comparison::Equal, first, start);
                let is_empty = code.and(is_full, is_start);
                let has_some = code.not(is_empty);
                is_combined = code.and(is_combined, has_some);
                limit = code.select(is_full, first, limit);
            }
            LongRows::Block => {
                let (_, is_full) = self.whole_piece(code, (key, start), LONG_PIECE);
                let is_short = code.not(is_full);
                is_combined = code.and(is_combined, is_short);
            }
        }
        let run = Run { key, column, start, limit, number };
        let mut result = Ok(());
        code.when(is_combined, |code| {
            result = if is_set { self.last(code, &run) } else { self.sum(code, &run) }
        });
        result
    }

    /// Whether the place at a distance exists and has the same key.
    pub(super) fn is_of(&self, code: &mut Code, key: Variable, place: Variable, distance: i64) -> Variable {
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

    /// The start of the first piece from a row's start on, and whether it is the row's as a whole.
    fn whole_piece(
        &self,
        code: &mut Code,
        (key, start): (Variable, Variable),
        length: usize,
    ) -> (Variable, Variable) {
        let up = code.at_offset(start, length - 1);
        let piece = code.divided(up, length);
        let first = code.scaled(piece, length as i64);
        let is_full = self.is_of(code, key, first, length as i64 - 1);
        (first, is_full)
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
    pub(super) fn piece(&self, code: &mut Code, point: Variable) -> Result<(), CodegenError> {
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
    pub(super) fn updates(
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
        self.element_at(code, run.key, run.column)
    }

    /// The element of a row of the result at a column.
    pub(super) fn element_at(&self, code: &mut Code, key: Variable, column: Variable) -> Variable {
        let row = code.cast(code.index, key);
        let start = code.scaled(row, self.extents.after as i64);
        code.add_at(start, column)
    }
}
