//! Inclusive scans along the rows of a domain.
//!
//! Short rows, and rows whose neighbours are other rows' elements, are scanned by a thread each. Longer ones are scanned
//! by a block, chunk by chunk: each thread combines a few neighbours, the block combines the threads' totals in steps
//! of doubling width. What is combined with what depends on the length of the row alone.

use super::Buffers;
use super::code::Code;
use super::scalar::{narrowed, widened};
use super::state::{State, bits_type, from_word, to_word};
use super::tile::{Memory, carried_type};
use crate::fuse::{Domain, Kernel};
use crate::ir::{DType, Monoid};
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, Variable};

/// Threads of a cube.
pub const THREADS: usize = 128;
/// Neighbours that a thread combines.
const EACH: usize = 8;
/// The longest row that one thread scans.
const LONGEST_ALONE: usize = 64;

/// What is scanned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScanForm {
    monoid: Monoid,
    dtype: DType,
}

impl ScanForm {
    pub fn of(kernel: &Kernel, monoid: Monoid) -> ScanForm {
        ScanForm { monoid, dtype: kernel.operands[0].ty.dtype }
    }
}

fn is_alone(domain: &Domain) -> bool {
    domain.inner > 1 || domain.row <= LONGEST_ALONE
}

/// Cubes for so many rows.
pub fn cubes(domain: &Domain, n_rows: usize) -> usize {
    if is_alone(domain) { n_rows.div_ceil(THREADS) } else { n_rows }
}

/// Emits a scan of operand 0 into operand 1.
pub fn scan(code: &mut Code, form: &ScanForm, domain: &Domain, buffers: &Buffers, n_rows: Variable) {
    let scan = Scan { form, domain, buffers };
    if !is_alone(domain) {
        let row = code.builtin(Builtin::CubePos);
        if code.target.has_exact_grid {
            return scan.by_cube(code, row);
        }
        let is_row = code.less(row, n_rows);
        return code.when(is_row, |code| scan.by_cube(code, row));
    }
    let row = code.builtin(Builtin::AbsolutePos);
    let is_row = code.less(row, n_rows);
    code.when(is_row, |code| scan.by_thread(code, row));
}

struct Scan<'k> {
    form: &'k ScanForm,
    domain: &'k Domain,
    buffers: &'k Buffers,
}

impl Scan<'_> {
    fn by_thread(&self, code: &mut Code, row: Variable) {
        let first = self.first_point(code, row);
        let total = self.identity(code).map(|x| code.mutable(x));
        let (start, end) = (code.at(0), code.at(self.domain.row as i64));
        code.range(start, end, 1, |code, position| {
            let step = code.scaled(position, self.domain.inner as i64);
            let point = code.add_at(first, step);
            let next = self.load(code, point);
            let sum = total.combined(code, &next);
            total.assign(code, &sum);
            self.store(code, point, &sum);
        });
    }

    fn by_cube(&self, code: &mut Code, row: Variable) {
        let first = self.first_point(code, row);
        let unit = code.builtin(Builtin::UnitPosX);
        let elem = carried_type(self.form.dtype);
        let shared = code.shared(bits_type(elem), 2 * THREADS);
        let carry = self.identity(code).map(|x| code.mutable(x));
        let (start, end) = (code.at(0), code.at(self.domain.row as i64));
        code.range(start, end, (THREADS * EACH) as i64, |code, chunk| {
            let before = code.scaled(unit, EACH as i64);
            let own = code.add_at(chunk, before);
            let copies = self.own_sums(code, first, own, end);
            let total = &copies[EACH - 1].1;
            let sums = self.across_threads(code, shared, unit, total);
            let (before, all) = (&sums[0], &sums[1]);
            let carried = carry.map(|x| code.snapshot(x));
            let offset = carried.combined(code, before);
            for (position, sum) in &copies {
                let is_inside = code.less(*position, end);
                let sum = offset.combined(code, sum);
                code.when(is_inside, |code| {
                    let point = code.add_at(first, *position);
                    self.store(code, point, &sum);
                });
            }
            let next = carried.combined(code, all);
            carry.assign(code, &next);
        });
    }

    /// This thread's neighbours from `own` on, each with the sum up to it.
    fn own_sums(
        &self,
        code: &mut Code,
        first: Variable,
        own: Variable,
        end: Variable,
    ) -> Vec<(Variable, State)> {
        let mut sums: Vec<(Variable, State)> = vec![];
        for i in 0..EACH {
            let offset = code.at(i as i64);
            let position = code.add_at(own, offset);
            let is_inside = code.less(position, end);
            let nowhere = code.at(0);
            let safe = code.select(is_inside, position, nowhere);
            let point = code.add_at(first, safe);
            let loaded = self.load(code, point);
            let identity = self.identity(code);
            let value = loaded.or(code, is_inside, &identity);
            let sum = match sums.last() {
                Some((_, before)) => before.combined(code, &value),
                None => value,
            };
            sums.push((position, sum));
        }
        sums
    }

    /// The sum of the totals of the threads before this one, and that of all threads.
    fn across_threads(&self, code: &mut Code, shared: Variable, unit: Variable, total: &State) -> [State; 2] {
        let mut sum = total.clone();
        let mut half = 0;
        self.write(code, shared, half, unit, &sum);
        code.sync();
        let mut distance = 1;
        while distance < THREADS {
            let reach = code.at(distance as i64);
            let has_other = code.cmp(Comparison::GreaterEqual, unit, reach);
            let other = code.bin(Arithmetic::Sub, unit, reach);
            let other = code.select(has_other, other, unit);
            let earlier = self.read(code, shared, half, other);
            let combined = earlier.combined(code, &sum);
            sum = combined.or(code, has_other, &sum);
            half = 1 - half;
            self.write(code, shared, half, unit, &sum);
            code.sync();
            distance *= 2;
        }
        let one = code.at(1);
        let is_first = code.less(unit, one);
        let other = code.bin(Arithmetic::Sub, unit, one);
        let other = code.select(is_first, unit, other);
        let before = self.read(code, shared, half, other);
        let identity = self.identity(code);
        let before = identity.or(code, is_first, &before);
        let last = code.at(THREADS as i64 - 1);
        let all = self.read(code, shared, half, last);
        // The memory serves the next chunk, too.
        code.sync();
        [before, all]
    }

    fn write(&self, code: &mut Code, shared: Variable, half: usize, unit: Variable, state: &State) {
        let start = code.at((half * THREADS) as i64);
        let place = code.add_at(unit, start);
        let word = to_word(code, shared.elem_type(), state.parts[0]);
        code.store(shared, place, word);
    }

    fn read(&self, code: &mut Code, shared: Variable, half: usize, unit: Variable) -> State {
        let start = code.at((half * THREADS) as i64);
        let place = code.add_at(unit, start);
        let word = code.load(shared, place);
        let value = from_word(code, carried_type(self.form.dtype), word);
        State { monoid: self.form.monoid, parts: vec![value], forgets_nan: false }
    }

    fn first_point(&self, code: &mut Code, row: Variable) -> Variable {
        let outer = code.divided(row, self.domain.inner);
        let start = code.scaled(outer, (self.domain.row * self.domain.inner) as i64);
        let inner = code.modulo(row, self.domain.inner);
        code.add_at(start, inner)
    }

    fn identity(&self, code: &mut Code) -> State {
        State::identity(code, self.form.monoid, self.form.dtype)
    }

    fn load(&self, code: &mut Code, point: Variable) -> State {
        let stored = self.buffers.load(code, 0, point);
        let value = widened(code, self.form.dtype, stored);
        State::of(code, self.form.monoid, self.form.dtype, value, point)
    }

    fn store(&self, code: &mut Code, point: Variable, state: &State) {
        let value = state.result(code, self.form.dtype);
        let value = narrowed(code, self.form.dtype, value);
        self.buffers.store_unless_raised(code, 1, point, value);
    }
}
