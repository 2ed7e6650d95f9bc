//! Row kernels: which threads share a row, in how many passes they go over it, and how they combine what they found.
//!
//! A reduction splits a tile in two: what feeds it must be known along the whole row before what uses it can start. The
//! *pass* of an instruction is the number of reductions on the way to it. Rows of up to [`LONGEST_HELD`] elements stay
//! in registers from pass to pass; longer ones are read again in each. Of those that would fit, long ones that lie packed in
//! memory are read again from cache, and long ones of a single pass are read along: what is not held leaves registers to more
//! threads. A thread takes its elements in groups of neighbours ([`crate::codegen::ops::vector_group`]). Sums are taken in an order that depends on
//! the tile alone, not on the number of rows.

use crate::codegen::CodegenError;
use crate::codegen::analysis::nan::may_forget_nan;
use crate::codegen::ir::builder::{Code, F32, U32};
use crate::codegen::ops::body::{BodyCode, Registers, carried_type, operands};
use crate::codegen::ops::fast_math::cost;
use crate::codegen::ops::reduction::{
    INFINITY_BITS, NOWHERE, State, Wanted, bits_type, butterfly, from_word, is_same, knows_nan_by_bits,
    size_bits, to_word,
};
use crate::codegen::ops::vector_group::{self, Group};
use crate::codegen::schedule::double_buffer::DoubleBuffer;
use crate::codegen::target::Target;
use crate::fusion::{Class, Domain, FusedBody, FusedInst, FusedOp, Reg};
use crate::ir::{DType, Monoid};
use cubecl_core::ir::{Arithmetic, Bitwise, Builtin, Comparison, ElemType, Variable};

/// The longest row that is held in registers.
pub const LONGEST_HELD: usize = 32768;
/// Threads of a plane on CUDA, and those that share a short row.
pub const PLANE: usize = 32;
/// Elements of a thread, unless the row is too long for so many threads.
const MOST_COPIES: usize = 8;
/// Vectors of a thread, if they are of more elements: enough loads under way at once, with few threads to wait for.
const VECTORS: usize = 2;
/// Elements that a thread holds, at most.
const MOST_HELD: usize = 32;

/// Columns that share threads with more neighbours than fill a line of memory have too few threads each from here on.
const LONG_COLUMN: usize = 1024;
/// Elements that fill a line of memory.
const NEIGHBOURS: usize = 8;
/// The most threads that columns of a block share.
const MOST_THREADS: usize = 1024;

/// Who computes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowPlan {
    /// Threads that share a row; a power of two.
    pub threads: usize,
    /// Rows of a cube.
    pub rows: usize,
    /// Neighbours that a thread takes at once.
    pub width: usize,
    /// Groups of neighbours that each thread holds; none if it reads them again in each pass.
    pub groups: Option<usize>,
    /// Whether neighbouring threads work on neighbouring rows rather than elements: rows that are not contiguous.
    pub is_across: bool,
}

impl RowPlan {
    /// By the length of the row: up to a plane of threads for a short one, a block for a longer one. Neighbours read
    /// neighbours, so a plane goes across rows that are not contiguous.
    pub fn of(tile: &FusedBody, target: Target) -> RowPlan {
        let Domain { row, inner, .. } = tile.domain;
        if inner > 1 {
            let threads = row.div_ceil(MOST_COPIES).next_power_of_two();
            let width = if row < LONG_COLUMN { PLANE } else { NEIGHBOURS };
            let threads = threads.min(target.most_threads / width).min(MOST_THREADS / width);
            let rows = if threads == 1 { 128 } else { width };
            let groups = (row <= MOST_COPIES * PLANE).then_some(row.div_ceil(threads));
            return RowPlan { threads, rows, width: 1, groups, is_across: true };
        }
        let width = vector_group::width(tile, row);
        let n_groups = row / width;
        let copies = MOST_COPIES.max(VECTORS * width);
        let threads = match row {
            0..=256 => n_groups.div_ceil(groups_of_short(tile, n_groups)).next_power_of_two().min(PLANE),
            _ => row.div_ceil(copies).next_power_of_two().min(target.most_threads).min(target.row_threads),
        };
        let is_held = row <= LONGEST_HELD.min(MOST_HELD * target.most_threads)
            && (row <= MOST_HELD * threads || !(is_read_once(tile) || is_packed(tile, target)));
        let groups = is_held.then_some(n_groups.div_ceil(threads));
        // A long row is a block's own: what its planes talk through belongs to one row.
        let rows = if threads <= PLANE { rows_of_block(tile, target, threads) } else { 1 };
        RowPlan { threads, rows, width, groups, is_across: false }
    }

    /// Threads of a cube.
    pub fn cube_threads(&self) -> usize {
        self.threads * self.rows
    }
}

/// Short rows of a block of 256 threads, or of fewer, a plane at least, if there are so few rows that processors would go
/// without one: next to nothing but waiting for memory remains then, and each processor waits for less.
fn rows_of_block(tile: &FusedBody, target: Target, threads: usize) -> usize {
    let share = tile.domain.points(Class::Row).div_ceil(target.n_processors).next_power_of_two();
    share.clamp(target.plane.max(PLANE) / threads, 256 / threads)
}

/// Whether nothing is computed of a row's elements once something of the whole row is known.
fn is_read_once(tile: &FusedBody) -> bool {
    let insts = tile.insts.iter().zip(passes(tile));
    insts.filter(|(inst, _)| inst.class == Class::Element && !is_reduce(&inst.op)).all(|(_, pass)| pass == 0)
}

/// Whether what is read of a row's elements before anything of the whole row is known lies packed in memory, where it
/// takes half of the registers' room or less, and nothing slow is computed of it, which each pass would compute again.
fn is_packed(tile: &FusedBody, target: Target) -> bool {
    let first = tile.insts.iter().zip(passes(tile)).filter(|&(_, pass)| pass == 0).map(|(inst, _)| inst);
    let elements: Vec<&FusedInst> = first.filter(|inst| inst.class == Class::Element).collect();
    let is_load = |inst: &FusedInst| matches!(inst.op, FusedOp::Load { .. });
    let is_cheap = |inst: &FusedInst| match is_load(inst) {
        true => target.lanes(inst.dtype) > 1,
        false => cost(inst, target) <= 1,
    };
    elements.iter().any(|inst| is_load(inst)) && elements.iter().all(|inst| is_cheap(inst))
}

/// Groups of a thread of a short row: with several, fewer threads exchange what they found. Where there is nothing to
/// exchange, more threads wait for memory at once.
fn groups_of_short(tile: &FusedBody, n_groups: usize) -> usize {
    let exchanges = tile.insts.iter().any(|inst| is_reduce(&inst.op));
    if exchanges && n_groups > 8 { 4 } else { 1 }
}

/// Emits a row kernel; `n_rows` is the number of rows, `outer · inner`.
pub fn row(code: &mut Code, tile: BodyCode, n_rows: Variable) -> Result<(), CodegenError> {
    let plan = RowPlan::of(tile.tile, code.target);
    let shared = shared_words(code, tile.tile, plan);
    if let Some(ahead) = DoubleBuffer::of(tile.tile, plan, code.target) {
        return ahead.rows(code, tile, shared, n_rows);
    }
    row_by(code, tile, plan, shared, n_rows)
}

/// The same by a plan of somebody else's, with memory that has room for [`n_shared_words`].
pub fn row_by(
    code: &mut Code,
    tile: BodyCode,
    plan: RowPlan,
    shared: Option<SharedWords>,
    n_rows: Variable,
) -> Result<(), CodegenError> {
    let place = Place::new(code, plan, &tile.tile.domain, n_rows);
    RowCode::new(code, tile, plan, place, shared).emit(code)
}

/// Rows of a kernel that are computed by so many cubes, at most.
pub fn cubes(tile: &FusedBody, target: Target, n_rows: usize) -> usize {
    let plan = RowPlan::of(tile, target);
    match DoubleBuffer::of(tile, plan, target) {
        Some(_) => n_rows.min(target.n_processors),
        None => n_rows.div_ceil(plan.rows),
    }
}

/// Memory of a block from some word on.
#[derive(Clone, Copy)]
pub struct SharedWords {
    /// All of it.
    pub array: Variable,
    /// The first word.
    pub start: usize,
}

/// By instruction: the number of reductions on the way to it.
fn passes(tile: &FusedBody) -> Vec<usize> {
    let mut passes: Vec<usize> = vec![];
    for inst in &tile.insts {
        let pass = operands(&inst.op).into_iter().map(|reg| passes[reg]).max().unwrap_or(0);
        passes.push(pass + matches!(inst.op, FusedOp::Reduce { .. }) as usize);
    }
    passes
}

/// Where this thread stands.
pub struct Place {
    domain: Domain,
    plan: RowPlan,
    /// The row, the last one at most.
    row: Variable,
    /// Whether there is such a row; none if always.
    is_row: Option<Variable>,
    /// Number of the thread within its row.
    pub lane: Variable,
    /// The point of the row's first element.
    first: Variable,
    /// The number of the row's first group among those of all rows, where rows are whole groups: from it, vectors lie at
    /// known distances.
    first_group: Option<Variable>,
}

/// Neighbours in the row, with what is known of them.
pub struct Held {
    /// Their positions in the row.
    positions: Vec<Variable>,
    /// Their points in the domain.
    group: Group,
    /// Whether the row is that long; none if always.
    is_inside: Option<Variable>,
    /// Element registers of each.
    registers: Vec<Registers>,
}

impl Place {
    fn new(code: &mut Code, plan: RowPlan, domain: &Domain, n_rows: Variable) -> Place {
        let unit = code.builtin(Builtin::UnitPosX);
        let cube = code.builtin(Builtin::CubePos);
        let (lane, within) = lane_and_row(code, plan, unit);
        let (row, is_row) = if plan.rows == 1 && code.target.has_exact_grid {
            (cube, None)
        } else {
            let before = code.scaled(cube, plan.rows as i64);
            let row = code.bin(Arithmetic::Add, before, within);
            let is_row = code.less(row, n_rows);
            // Threads past the last row stay on it: they take part in shuffles but store nothing.
            let one = code.at(1);
            let last = code.bin(Arithmetic::Sub, n_rows, one);
            (code.select(is_row, row, last), Some(is_row))
        };
        Place::of(code, plan, domain, row, (is_row, lane))
    }

    /// On a row that is there, which the whole cube shares.
    pub fn at_row(code: &mut Code, plan: RowPlan, domain: &Domain, row: Variable) -> Place {
        let lane = code.builtin(Builtin::UnitPosX);
        Place::of(code, plan, domain, row, (None, lane))
    }

    fn of(
        code: &mut Code,
        plan: RowPlan,
        domain: &Domain,
        row: Variable,
        (is_row, lane): (Option<Variable>, Variable),
    ) -> Place {
        let first = if domain.inner == 1 {
            code.scaled(row, domain.row as i64)
        } else {
            let outer = code.divided(row, domain.inner);
            let inner = code.modulo(row, domain.inner);
            let start = code.scaled(outer, (domain.row * domain.inner) as i64);
            code.add_at(start, inner)
        };
        let is_even = domain.inner == 1 && plan.width > 1 && domain.row.is_multiple_of(plan.width);
        let first_group = is_even.then(|| code.scaled(row, (domain.row / plan.width) as i64));
        Place { domain: *domain, plan, row, is_row, lane, first, first_group }
    }

    /// The `k`-th group of this thread, nothing known yet.
    pub fn held(&self, code: &mut Code, k: usize, n_registers: usize) -> Held {
        let RowPlan { threads, width, .. } = self.plan;
        let offset = code.at((k * threads) as i64);
        let number = code.add_at(self.lane, offset);
        let position = code.scaled(number, width as i64);
        let group = self.first_group.map(|first| {
            let group = code.add_at(first, self.lane);
            code.add_at(group, offset)
        });
        let (position, group, is_inside) = if (k + 1) * threads * width <= self.domain.row {
            (position, group, None)
        } else {
            let end = code.at(self.domain.row as i64);
            let is_inside = code.less(position, end);
            let start = code.at(0);
            let group = group.zip(self.first_group);
            let group = group.map(|(group, first)| code.select(is_inside, group, first));
            (code.select(is_inside, position, start), group, Some(is_inside))
        };
        let (positions, group) = self.neighbours(code, position, group);
        Held { positions, group, is_inside, registers: vec![vec![None; n_registers]; width] }
    }

    /// The group that starts at a position, as positions and as points; `number` is its own among all groups.
    fn neighbours(
        &self,
        code: &mut Code,
        position: Variable,
        number: Option<Variable>,
    ) -> (Vec<Variable>, Group) {
        let width = self.plan.width;
        let positions = Group::from(code, position, width).points;
        let first = self.point(code, position);
        if let Some(number) = number {
            let start = code.at(0);
            code.note_place(first, width, number, start);
        }
        let group = Group::from(code, first, width);
        if self.domain.inner == 1 {
            for (&point, &position) in group.points.iter().zip(&positions) {
                code.note_place(point, self.domain.row, self.row, position);
            }
        }
        (positions, group)
    }

    fn point(&self, code: &mut Code, position: Variable) -> Variable {
        let step = code.scaled(position, self.domain.inner as i64);
        code.add_at(self.first, step)
    }
}

/// The number of a thread within its row, and of its row within the cube.
fn lane_and_row(code: &mut Code, plan: RowPlan, unit: Variable) -> (Variable, Variable) {
    match (plan.threads, plan.rows, plan.is_across) {
        (1, _, _) => (code.at(0), unit),
        (_, 1, _) => (unit, code.at(0)),
        (_, rows, true) => (code.divided(unit, rows), code.modulo(unit, rows)),
        (threads, _, false) => (code.modulo(unit, threads), code.divided(unit, threads)),
    }
}

impl Held {
    /// The point of its first element.
    pub fn first_point(&self) -> Variable {
        self.group.first()
    }
}

/// A reduction on its way along a row.
struct Total {
    /// The register that is reduced, and its type.
    value: Reg,
    dtype: DType,
    /// In mutable locals.
    so_far: State,
    /// The largest of all bits without their signs, where they alone say whether there is a NaN.
    largest: Option<Variable>,
}

impl Total {
    fn value_of(&self, registers: &Registers) -> Variable {
        registers[self.value].unwrap_or_else(|| crate::bug!("register {} is not computed", self.value))
    }
}

/// A row in the making.
pub struct RowCode<'t> {
    /// What is computed.
    pub tile: BodyCode<'t>,
    plan: RowPlan,
    /// Where.
    pub place: Place,
    passes: Vec<usize>,
    /// Uniform and row registers.
    base: Registers,
    /// What this thread holds of the row.
    groups: Vec<Held>,
    /// What planes talk through.
    shared: Option<SharedWords>,
}

impl<'t> RowCode<'t> {
    /// Nothing computed yet.
    pub fn new(
        code: &mut Code,
        tile: BodyCode<'t>,
        plan: RowPlan,
        place: Place,
        shared: Option<SharedWords>,
    ) -> RowCode<'t> {
        let n_registers = tile.tile.insts.len();
        let n_groups = plan.groups.unwrap_or(0);
        let groups: Vec<Held> = (0..n_groups).map(|k| place.held(code, k, n_registers)).collect();
        let base = vec![None; n_registers];
        RowCode { tile, plan, place, passes: passes(tile.tile), base, groups, shared }
    }

    /// What a register holds in the `k`-th group, so that it need not be computed.
    pub fn give(&mut self, k: usize, reg: Reg, values: &[Variable]) {
        for (registers, &value) in self.groups[k].registers.iter_mut().zip(values) {
            registers[reg] = Some(value);
        }
    }

    /// Emits the row.
    pub fn emit(mut self, code: &mut Code) -> Result<(), CodegenError> {
        let last = self.passes.iter().copied().max().unwrap_or(0);
        for pass in 0..=last {
            let once =
                self.select(pass, |class, op| class != Class::Element && !is_reduce(op) && !is_store(op));
            self.tile.run(code, once, self.place.row, &mut self.base)?;
            self.compute_held(code, pass)?;
            // A reduction's own pass is the one after what it reads.
            let reduces = self.select(pass + 1, |_, op| is_reduce(op));
            self.reduce(code, &reduces)?;
        }
        self.store_elements(code)?;
        self.store_rows(code)
    }

    fn select(&self, pass: usize, is_wanted: impl Fn(Class, &FusedOp) -> bool) -> Vec<Reg> {
        let insts = self.tile.tile.insts.iter().enumerate();
        let wanted = insts.filter(|(reg, inst)| self.passes[*reg] == pass && is_wanted(inst.class, &inst.op));
        wanted.map(|(reg, _)| reg).collect()
    }

    fn compute_held(&mut self, code: &mut Code, pass: usize) -> Result<(), CodegenError> {
        let insts = self.select(pass, |class, op| class == Class::Element && !is_store(op));
        for held in &mut self.groups {
            let mut registers: Vec<Registers> =
                held.registers.iter().map(|held| over(&self.base, held)).collect();
            let missing = insts.iter().copied().filter(|&reg| held.registers[0][reg].is_none());
            self.tile.run_group(code, missing, &held.group, &mut registers)?;
            held.registers = registers;
        }
        Ok(())
    }

    fn reduce(&mut self, code: &mut Code, reduces: &[Reg]) -> Result<(), CodegenError> {
        if reduces.is_empty() {
            return Ok(());
        }
        let states: Vec<State> = match self.plan.groups {
            Some(_) => reduces.iter().map(|&reg| self.held_total(code, reg)).collect(),
            None => {
                let partials = self.reduce_along(code, reduces)?;
                partials.into_iter().map(|partial| self.across_threads(code, partial)).collect()
            }
        };
        for (&reg, state) in reduces.iter().zip(states) {
            self.base[reg] = Some(state.result(code, self.tile.tile.insts[reg].dtype));
        }
        Ok(())
    }

    /// Of all elements that the threads of a row hold.
    fn held_total(&self, code: &mut Code, reg: Reg) -> State {
        let (monoid, _, _) = self.reduction(reg);
        match monoid.of_value() {
            None => {
                let partial = self.reduce_held(code, reg, monoid);
                self.across_threads(code, partial)
            }
            Some(extreme) => self.held_index(code, reg, monoid, extreme),
        }
    }

    /// The extreme first, then the first position that has it: only threads that hold it look for that.
    fn held_index(&self, code: &mut Code, reg: Reg, monoid: Monoid, extreme: Monoid) -> State {
        let (_, value, dtype) = self.reduction(reg);
        let own = self.reduce_held(code, reg, extreme);
        let best = self.across_threads(code, own.clone()).parts[0];
        let nowhere = code.int(U32, NOWHERE);
        let first = code.mutable(nowhere);
        let has_it = is_same(code, own.parts[0], best);
        code.when(has_it, |code| {
            // One thread looks while the others wait: by as little as it takes.
            let wanted = Wanted::new(code, best);
            let mut found = code.snapshot(first);
            for held in self.groups.iter().rev() {
                for (&position, registers) in held.positions.iter().zip(&held.registers).rev() {
                    let value =
                        registers[value].unwrap_or_else(|| crate::bug!("register {value} is not held"));
                    let value = code.cast(carried_type(dtype), value);
                    let is_it = wanted.is(code, value);
                    let is_it = held.is_inside.map_or(is_it, |inside| code.and(is_it, inside));
                    let position = code.cast(U32, position);
                    found = code.select(is_it, position, found);
                }
            }
            code.assign(first, found);
        });
        let own = State { monoid: Monoid::Min, parts: vec![code.snapshot(first)], forgets_nan: false };
        let position = self.across_threads(code, own).parts[0];
        State { monoid, parts: vec![best, position], forgets_nan: false }
    }

    /// A state that keeps NaN where somebody needs it. One instruction may do both.
    fn as_needed(&self, code: &Code, reg: Reg, state: State) -> State {
        let forgets_nan = !code.target.has_extremes
            && state.parts[0].elem_type() == F32
            && may_forget_nan(self.tile.tile, reg);
        State { forgets_nan, ..state }
    }

    fn reduction(&self, reg: Reg) -> (Monoid, Reg, DType) {
        let FusedOp::Reduce { monoid, value } = self.tile.tile.insts[reg].op else {
            crate::bug!("register {reg} is no reduction")
        };
        (monoid, value, self.tile.tile.insts[value].dtype)
    }

    fn reduce_held(&self, code: &mut Code, reg: Reg, monoid: Monoid) -> State {
        let (_, value, dtype) = self.reduction(reg);
        let identity = State::identity(code, monoid, dtype);
        let identity = self.as_needed(code, reg, identity);
        if !identity.forgets_nan && knows_nan_by_bits(code, monoid, &identity) {
            return self.reduce_held_by_bits(code, value, identity);
        }
        let mut state: Option<State> = None;
        for held in &self.groups {
            for (&position, registers) in held.positions.iter().zip(&held.registers) {
                let value = registers[value].unwrap_or_else(|| crate::bug!("register {value} is not held"));
                let mut next = State::of(code, monoid, dtype, value, position);
                if let Some(is_inside) = held.is_inside {
                    next = next.or(code, is_inside, &identity);
                }
                state = Some(match state {
                    Some(state) => state.combined(code, &next),
                    None => State { forgets_nan: identity.forgets_nan, ..next },
                });
            }
        }
        state.unwrap_or(identity)
    }

    /// An extreme of numbers, and beside it the largest of all bits without their signs, which says whether there is a NaN.
    fn reduce_held_by_bits(&self, code: &mut Code, value: Reg, identity: State) -> State {
        let (mut state, mut largest) = (State { forgets_nan: true, ..identity.clone() }, code.int(U32, 0));
        for held in &self.groups {
            for registers in &held.registers {
                let value = registers[value].unwrap_or_else(|| crate::bug!("register {value} is not held"));
                let value =
                    held.is_inside.map_or(value, |inside| code.select(inside, value, identity.parts[0]));
                state = state.combined(code, &State { parts: vec![value], ..identity });
                let size = size_bits(code, value);
                largest = code.bin(Arithmetic::Max, largest, size);
            }
        }
        let infinity = code.int(U32, INFINITY_BITS);
        let is_nan = code.cmp(Comparison::Greater, largest, infinity);
        let nan = code.float(F32, f64::NAN);
        State { parts: vec![code.select(is_nan, nan, state.parts[0])], ..identity }
    }

    fn reduce_along(&self, code: &mut Code, reduces: &[Reg]) -> Result<Vec<State>, CodegenError> {
        let totals: Vec<Total> = reduces.iter().map(|&reg| self.total(code, reg)).collect();
        let needed = self.needed(totals.iter().map(|total| total.value));
        self.along(code, |code, position| {
            let (positions, registers) = self.computed(code, &needed, position)?;
            for total in &totals {
                let mut sum = total.so_far.clone();
                for (&position, registers) in positions.iter().zip(&registers) {
                    let value = total.value_of(registers);
                    let next = State::of(code, sum.monoid, total.dtype, value, position);
                    sum = sum.followed_by(code, &next);
                    if let Some(largest) = total.largest {
                        let size = size_bits(code, next.parts[0]);
                        let larger = code.bin(Arithmetic::Max, largest, size);
                        code.assign(largest, larger);
                    }
                }
                total.so_far.assign(code, &sum);
            }
            Ok(())
        })?;
        totals.into_iter().map(|total| self.with_nan(code, total)).collect()
    }

    /// Before the first element.
    fn total(&self, code: &mut Code, reg: Reg) -> Total {
        let (monoid, value, dtype) = self.reduction(reg);
        let identity = State::identity(code, monoid, dtype);
        let mut start = self.as_needed(code, reg, identity);
        let by_bits = !start.forgets_nan && knows_nan_by_bits(code, monoid, &start);
        if by_bits {
            start.forgets_nan = true;
            if let Some(position) = start.parts.get_mut(1) {
                // Where nothing is better than the least there is, the first is the best.
                let first = code.scaled(self.place.lane, self.plan.width as i64);
                *position = code.cast(U32, first);
            }
        }
        let zero = code.int(U32, 0);
        let largest = by_bits.then(|| code.mutable(zero));
        Total { value, dtype, so_far: start.map(|x| code.mutable(x)), largest }
    }

    /// What a thread has found; if there was a NaN, that is it, at its first position, which is looked for anew.
    fn with_nan(&self, code: &mut Code, total: Total) -> Result<State, CodegenError> {
        let so_far = &total.so_far;
        let Some(largest) = total.largest else { return Ok(so_far.map(|x| code.snapshot(x))) };
        let infinity = code.int(U32, INFINITY_BITS);
        let has_nan = code.cmp(Comparison::Greater, largest, infinity);
        let mut result = Ok(());
        code.when(has_nan, |code| {
            let nan = code.float(F32, f64::NAN);
            code.assign(so_far.parts[0], nan);
            let Some(&first) = so_far.parts.get(1) else { return };
            let nowhere = code.int(U32, NOWHERE);
            code.assign(first, nowhere);
            let needed = self.needed([total.value]);
            result = self.along(code, |code, position| {
                let (positions, registers) = self.computed(code, &needed, position)?;
                for (position, registers) in positions.into_iter().zip(&registers) {
                    let value = code.cast(F32, total.value_of(registers));
                    let size = size_bits(code, value);
                    let is_nan = code.cmp(Comparison::Greater, size, infinity);
                    let position = code.cast(U32, position);
                    let earlier = code.bin(Arithmetic::Min, first, position);
                    let found = code.select(is_nan, earlier, first);
                    code.assign(first, found);
                }
                Ok(())
            });
        });
        result?;
        let state = so_far.map(|x| code.snapshot(x));
        Ok(State { forgets_nan: false, ..state })
    }

    fn along(
        &self,
        code: &mut Code,
        body: impl FnOnce(&mut Code, Variable) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        let RowPlan { threads, width, .. } = self.plan;
        let start = code.scaled(self.place.lane, width as i64);
        let end = code.at(self.place.domain.row as i64);
        let mut result = Ok(());
        code.range(start, end, (threads * width) as i64, |code, i| result = body(code, i));
        result
    }

    /// Instructions at the group that starts at a position: the positions, and the registers of each.
    fn computed(
        &self,
        code: &mut Code,
        insts: &[Reg],
        position: Variable,
    ) -> Result<(Vec<Variable>, Vec<Registers>), CodegenError> {
        let (positions, group) = self.place.neighbours(code, position, None);
        let mut registers = vec![self.base.clone(); positions.len()];
        self.tile.run_group(code, insts.iter().copied(), &group, &mut registers)?;
        Ok((positions, registers))
    }

    /// Element instructions that `targets` are made of, in order.
    fn needed(&self, targets: impl IntoIterator<Item = Reg>) -> Vec<Reg> {
        let insts = &self.tile.tile.insts;
        let mut stack: Vec<Reg> = targets.into_iter().collect();
        let mut found = std::collections::BTreeSet::new();
        while let Some(reg) = stack.pop() {
            if insts[reg].class == Class::Element && found.insert(reg) {
                stack.extend(operands(&insts[reg].op));
            }
        }
        found.into_iter().collect()
    }

    fn stores(&self, is_element: bool) -> Vec<Reg> {
        let insts = self.tile.tile.insts.iter().enumerate();
        let stores =
            insts.filter(|(_, inst)| is_store(&inst.op) && (inst.class == Class::Element) == is_element);
        stores.map(|(reg, _)| reg).collect()
    }

    /// Last, as a result may lie where an operand lies.
    fn store_elements(&mut self, code: &mut Code) -> Result<(), CodegenError> {
        let stores = self.stores(true);
        if stores.is_empty() {
            return Ok(());
        }
        if self.plan.groups.is_none() {
            let insts = self.needed(stores);
            let row = &*self;
            return when_all(code, &[self.place.is_row], |code| {
                row.along(code, |code, position| row.computed(code, &insts, position).map(drop))
            });
        }
        let (whole, partial): (Vec<&Held>, Vec<&Held>) =
            self.groups.iter().partition(|held| held.is_inside.is_none());
        when_all(code, &[self.place.is_row], |code| {
            whole.into_iter().try_for_each(|held| self.store_held(code, held, &stores))
        })?;
        for held in partial {
            when_all(code, &[self.place.is_row, held.is_inside], |code| {
                self.store_held(code, held, &stores)
            })?;
        }
        Ok(())
    }

    fn store_held(&self, code: &mut Code, held: &Held, stores: &[Reg]) -> Result<(), CodegenError> {
        let mut registers: Vec<Registers> =
            held.registers.iter().map(|held| over(&self.base, held)).collect();
        self.tile.run_group(code, stores.iter().copied(), &held.group, &mut registers)
    }

    fn store_rows(&mut self, code: &mut Code) -> Result<(), CodegenError> {
        let stores = self.stores(false);
        if stores.is_empty() {
            return Ok(());
        }
        let is_first = (self.plan.threads > 1).then(|| {
            let zero = code.at(0);
            code.cmp(Comparison::Equal, self.place.lane, zero)
        });
        when_all(code, &[self.place.is_row, is_first], |code| {
            self.tile.run(code, stores.iter().copied(), self.place.row, &mut self.base.clone())
        })
    }

    /// All threads of the row get the same, by a butterfly within planes and shared memory between them.
    fn across_threads(&self, code: &mut Code, state: State) -> State {
        if self.plan.is_across {
            return self.across_planes(code, state);
        }
        let width = code.target.plane;
        if width == 1 {
            return self.by_memory(code, state);
        }
        let planes = self.plan.threads / width;
        let state = butterfly(code, state, self.plan.threads.min(width));
        if planes <= 1 {
            return state;
        }
        let n_places = self.plan.cube_threads() / width;
        let unit = code.builtin(Builtin::UnitPosX);
        let (plane, lane) = (code.divided(unit, width), code.modulo(unit, width));
        let zero = code.at(0);
        let is_first = code.cmp(Comparison::Equal, lane, zero);
        code.when(is_first, |code| self.write_shared(code, &state, plane, n_places));
        code.sync();
        let source = code.modulo(lane, planes);
        let source = match self.plan.rows {
            1 => source,
            _ => {
                let row = code.divided(unit, self.plan.threads);
                let first = code.scaled(row, planes as i64);
                code.add_at(first, source)
            }
        };
        let mut partial = self.read_shared(code, &state, source, n_places);
        for round in 1..planes.div_ceil(width) {
            let place = part_place(code, source, round * width);
            let next = self.read_shared(code, &state, place, n_places);
            partial = partial.combined(code, &next);
        }
        // The memory serves the next reduction, too.
        code.sync();
        butterfly(code, partial, planes.min(width))
    }

    /// The same where threads exchange values through memory only: in the same order.
    fn by_memory(&self, code: &mut Code, mut state: State) -> State {
        let n_places = self.plan.cube_threads();
        let unit = code.builtin(Builtin::UnitPosX);
        for distance in exchange_distances(self.plan.threads) {
            self.write_shared(code, &state, unit, n_places);
            code.sync();
            let distance = code.at(distance as i64);
            let other = code.bit(Bitwise::BitwiseXor, unit, distance);
            let other = self.read_shared(code, &state, other, n_places);
            code.sync();
            state = state.combined(code, &other);
        }
        state
    }

    /// The same where each thread of a plane has a row of its own: in the order of the planes.
    fn across_planes(&self, code: &mut Code, state: State) -> State {
        if self.plan.threads == 1 {
            return state;
        }
        let n_places = self.plan.cube_threads();
        let unit = code.builtin(Builtin::UnitPosX);
        self.write_shared(code, &state, unit, n_places);
        code.sync();
        let within = code.modulo(unit, self.plan.rows);
        let mut total = self.read_shared(code, &state, within, n_places);
        for thread in 1..self.plan.threads {
            let place = part_place(code, within, thread * self.plan.rows);
            let partial = self.read_shared(code, &state, place, n_places);
            total = total.combined(code, &partial);
        }
        code.sync();
        total
    }

    /// Writes a state to its place among `n_places`.
    fn write_shared(&self, code: &mut Code, state: &State, place: Variable, n_places: usize) {
        let SharedWords { array, start } = self.shared();
        for (i, &x) in state.parts.iter().enumerate() {
            let place = part_place(code, place, start + i * n_places);
            let word = to_word(code, array.elem_type(), x);
            code.store(array, place, word);
        }
    }

    /// Reads a state of the kind of `like`.
    fn read_shared(&self, code: &mut Code, like: &State, place: Variable, n_places: usize) -> State {
        let SharedWords { array, start } = self.shared();
        let mut parts = vec![];
        for (i, x) in like.parts.iter().enumerate() {
            let place = part_place(code, place, start + i * n_places);
            let word = code.load(array, place);
            parts.push(from_word(code, x.elem_type(), word));
        }
        State { parts, ..*like }
    }

    fn shared(&self) -> SharedWords {
        self.shared.unwrap_or_else(|| crate::bug!("threads of a row without shared memory"))
    }
}

fn part_place(code: &mut Code, place: Variable, offset: usize) -> Variable {
    let offset = code.at(offset as i64);
    code.add_at(place, offset)
}

/// One array of words for all reductions: CubeCL declares several arrays in the order of a hash map.
fn shared_words(code: &mut Code, tile: &FusedBody, plan: RowPlan) -> Option<SharedWords> {
    let (word, length) = n_shared_words(tile, plan, code.target)?;
    Some(SharedWords { array: code.shared(word, length), start: 0 })
}

/// The type of the words that threads of a row exchange, and how many; none if they need none.
pub fn n_shared_words(tile: &FusedBody, plan: RowPlan, target: Target) -> Option<(ElemType, usize)> {
    let n_places = match (plan.is_across, plan.threads) {
        (_, 1) => return None,
        (true, _) => plan.cube_threads(),
        (false, _) if target.plane == 1 => plan.cube_threads(),
        (false, threads) if threads <= target.plane => return None,
        (false, _) => plan.cube_threads() / target.plane,
    };
    let reduced = tile.insts.iter().filter_map(|inst| match inst.op {
        FusedOp::Reduce { monoid, value } => {
            Some((bits_type(carried_type(tile.insts[value].dtype)), 1 + monoid.is_index() as usize))
        }
        _ => None,
    });
    let (words, n_parts): (Vec<ElemType>, Vec<usize>) = reduced.unzip();
    let word = words.into_iter().max_by_key(|word| word.size())?;
    (n_places > 1).then(|| (word, n_places * n_parts.into_iter().max().unwrap_or(1)))
}

/// How far apart threads are that exchange values, step by step: within planes, then between them.
fn exchange_distances(threads: usize) -> Vec<usize> {
    let halved = |from: usize, to: usize| {
        std::iter::successors(Some(from / 2), |distance| Some(distance / 2)).take_while(move |&d| d >= to)
    };
    let within = threads.min(PLANE);
    halved(within, 1).chain(halved(threads, PLANE)).collect()
}

/// `top` where it has something, else `base`.
fn over(base: &Registers, top: &Registers) -> Registers {
    top.iter().zip(base).map(|(top, base)| top.or(*base)).collect()
}

fn when_all(
    code: &mut Code,
    conditions: &[Option<Variable>],
    body: impl FnOnce(&mut Code) -> Result<(), CodegenError>,
) -> Result<(), CodegenError> {
    let all = conditions.iter().flatten().copied().reduce(|all, cond| code.and(all, cond));
    let Some(all) = all else { return body(code) };
    let mut result = Ok(());
    code.when(all, |code| result = body(code));
    result
}

fn is_reduce(op: &FusedOp) -> bool {
    matches!(op, FusedOp::Reduce { .. })
}

fn is_store(op: &FusedOp) -> bool {
    matches!(op, FusedOp::Store { .. })
}
