//! Inclusive scans along the rows of a domain.
//!
//! A thread scans a short row. It also scans a strided row with many neighbours, as loads across rows are
//! coalesced. A block scans any other row chunk by chunk: each thread scans a few neighbours, then the block scans
//! the threads' totals by recursive doubling.
//!
//! The running total of a long row is a sum of two floats; the second one holds the rounding error of the first.
//! The order of combination depends only on the row's length and stride.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32, U32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::reduction::{State, bits_type, from_word, to_word};
use crate::codegen::ops::scalar::{narrowed, widened};
use crate::codegen::types::carried_type;
use crate::device_model::DeviceModel;
use crate::fusion::{Class, Domain, FusedBody, Kernel, ScanBody};
use crate::ir::{DType, Monoid};
use cubecl_core::ir::{Arithmetic, Bitwise, Builtin, Comparison, Variable};

/// Threads of a block.
const THREADS: usize = 128;
/// Neighbours that a thread scans.
const PER_THREAD: usize = 8;
/// The longest row that one block scans, if there are few rows.
pub const LONG_SCAN: usize = 16384;
/// The longest contiguous row that one thread scans.
const LONGEST_BY_THREAD: usize = 64;
/// The longest strided row that one thread scans, unless it has as many neighbouring rows as elements. Mesa's
/// software Vulkan ends a thread's loop after 65,535 iterations.
const LONGEST_STRIDED: usize = 4096;

/// A scan of operand 0 into operand 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowScan {
    monoid: Monoid,
    dtype: DType,
}

/// The launch of a scan.
pub fn launch(kernel: &Kernel, body: &ScanBody, device: DeviceModel) -> KernelSpec {
    let ScanBody { monoid, domain } = *body;
    let schedule = RowScan { monoid, dtype: kernel.operands[0].ty.dtype };
    KernelSpec::new(FusedBody { domain, insts: vec![] }, schedule, OperandForm::of(kernel), device)
}

impl Schedule for RowScan {
    fn entry(&self) -> &'static str {
        "scan"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        THREADS
    }

    fn blocks(&self, kernel: &KernelSpec, n_rows: usize) -> usize {
        if is_by_thread(&kernel.body.domain) { n_rows.div_ceil(THREADS) } else { n_rows }
    }

    fn n_points(&self, kernel: &KernelSpec) -> usize {
        kernel.body.domain.points(Class::Row)
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let (domain, n_rows) = (&kernel.kernel.body.domain, kernel.points());
        let scan = Scan { form: self, domain, buffers: kernel.buffers, n_rows };
        scan.emit(code);
        Ok(())
    }
}

fn is_by_thread(domain: &Domain) -> bool {
    let longest = if domain.inner > 1 { LONGEST_STRIDED.max(domain.inner) } else { LONGEST_BY_THREAD };
    domain.row <= longest
}

struct Scan<'k> {
    form: &'k RowScan,
    domain: &'k Domain,
    buffers: &'k Buffers,
    n_rows: Variable,
}

impl Scan<'_> {
    fn emit(&self, code: &mut Code) {
        if !is_by_thread(self.domain) {
            let row = code.builtin(Builtin::CubePos);
            if code.device.has_exact_grid {
                return self.by_block(code, row);
            }
            let is_row = code.less(row, self.n_rows);
            return code.when(is_row, |code| self.by_block(code, row));
        }
        let row = code.builtin(Builtin::AbsolutePos);
        let is_row = code.less(row, self.n_rows);
        code.when(is_row, |code| self.by_thread(code, row));
    }

    fn by_thread(&self, code: &mut Code, row: Variable) {
        let first = self.first_point(code, row);
        let total = self.identity(code).map(|x| code.mutable(x));
        let rounding_error = self.rounding_error(code);
        let (start, end) = (code.at(0), code.at(self.domain.row as i64));
        code.range(start, end, 1, |code, position| {
            let point = self.point(code, first, position);
            let next = self.load(code, point);
            let sum = self.next_total(code, &total, rounding_error, &next);
            self.store(code, point, &sum);
        });
    }

    fn by_block(&self, code: &mut Code, row: Variable) {
        let first = self.first_point(code, row);
        let unit = code.builtin(Builtin::UnitPosX);
        let elem = carried_type(self.form.dtype);
        let shared = code.shared(bits_type(elem), 2 * THREADS);
        let carry = self.identity(code).map(|x| code.mutable(x));
        let rounding_error = self.rounding_error(code);
        let (start, end) = (code.at(0), code.at(self.domain.row as i64));
        code.range(start, end, (THREADS * PER_THREAD) as i64, |code, chunk| {
            let before = code.scaled(unit, PER_THREAD as i64);
            let own = code.add_at(chunk, before);
            let copies = self.own_sums(code, first, own, end);
            let total = &copies[PER_THREAD - 1].1;
            let sums = self.across_threads(code, shared, unit, total);
            let (before, all) = (&sums[0], &sums[1]);
            let carried = self.with_rounding_error(code, &carry, rounding_error);
            let offset = carried.combined(code, before);
            for (position, sum) in &copies {
                let is_inside = code.less(*position, end);
                let sum = offset.combined(code, sum);
                code.when(is_inside, |code| {
                    let point = self.point(code, first, *position);
                    self.store(code, point, &sum);
                });
            }
            self.next_total(code, &carry, rounding_error, all);
        });
    }

    // ---- Running totals.

    /// The rounding error of a running total, kept for sums of `f32` in long rows.
    fn rounding_error(&self, code: &mut Code) -> Option<Variable> {
        let tracks_error = self.form.monoid == Monoid::Sum
            && carried_type(self.form.dtype) == F32
            && self.domain.row > LONGEST_BY_THREAD;
        tracks_error.then(|| {
            let zero = code.float(F32, 0.0);
            code.mutable(zero)
        })
    }

    /// A total plus its rounding error.
    fn with_rounding_error(&self, code: &mut Code, total: &State, rounding_error: Option<Variable>) -> State {
        let total = total.map(|x| code.snapshot(x));
        let Some(rounding_error) = rounding_error else { return total };
        let rounding_error = code.snapshot(rounding_error);
        total.map(|x| code.bin(Arithmetic::Add, x, rounding_error))
    }

    /// Combines a total with the next state, and returns the new total.
    fn next_total(
        &self,
        code: &mut Code,
        total: &State,
        rounding_error: Option<Variable>,
        next: &State,
    ) -> State {
        let Some(rounding_error) = rounding_error else {
            let sum = total.combined(code, next);
            total.assign(code, &sum);
            return sum;
        };
        let before = total.map(|x| code.snapshot(x));
        let sum = before.combined(code, next);
        total.assign(code, &sum);
        let error = self.rounding(code, [before.parts[0], next.parts[0]], sum.parts[0]);
        let known = code.snapshot(rounding_error);
        let known = code.bin(Arithmetic::Add, known, error);
        code.assign(rounding_error, known);
        self.with_rounding_error(code, total, Some(rounding_error))
    }

    /// The rounding error of a sum of two floats; 0 if it is not finite. (D. Knuth, "Seminumerical algorithms",
    /// section 4.2.2, theorem B)
    fn rounding(&self, code: &mut Code, [a, b]: [Variable; 2], sum: Variable) -> Variable {
        let sum = self.opaque(code, sum);
        let of_b = code.bin(Arithmetic::Sub, sum, a);
        let of_b = self.opaque(code, of_b);
        let of_a = code.bin(Arithmetic::Sub, sum, of_b);
        let [a_lost, b_lost] = [(a, of_a), (b, of_b)].map(|(x, part)| code.bin(Arithmetic::Sub, x, part));
        let error = code.bin(Arithmetic::Add, a_lost, b_lost);
        let is_nan = code.is_nan(error);
        let zero = code.float(F32, 0.0);
        code.select(is_nan, zero, error)
    }

    /// The same number, hidden from a compiler that replaces `(a + b) - a` by `b`. Its bits are combined with a
    /// bit of the number of rows that is never set.
    fn opaque(&self, code: &mut Code, x: Variable) -> Variable {
        if code.device.has_exact_functions {
            return x;
        }
        let n_rows = code.cast(U32, self.n_rows);
        let highest = code.int(U32, 31);
        let nothing = code.bit(Bitwise::ShiftRight, n_rows, highest);
        let bits = code.reinterpret(U32, x);
        let bits = code.bit(Bitwise::BitwiseXor, bits, nothing);
        code.reinterpret(F32, bits)
    }

    /// This thread's neighbours from `own` on, each with the scan up to it.
    fn own_sums(
        &self,
        code: &mut Code,
        first: Variable,
        own: Variable,
        end: Variable,
    ) -> Vec<(Variable, State)> {
        let mut sums: Vec<(Variable, State)> = vec![];
        for i in 0..PER_THREAD {
            let offset = code.at(i as i64);
            let position = code.add_at(own, offset);
            let is_inside = code.less(position, end);
            let row_start = code.at(0);
            let safe = code.select(is_inside, position, row_start);
            let point = self.point(code, first, safe);
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

    /// The sum of the totals of earlier threads, and that of all threads.
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
        // The next chunk uses the same memory.
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
        State { monoid: self.form.monoid, parts: vec![value], skips_nan: false }
    }

    fn first_point(&self, code: &mut Code, row: Variable) -> Variable {
        let outer = code.divided(row, self.domain.inner);
        let start = code.scaled(outer, (self.domain.row * self.domain.inner) as i64);
        let inner = code.modulo(row, self.domain.inner);
        code.add_at(start, inner)
    }

    /// The point of a row at a position.
    fn point(&self, code: &mut Code, first: Variable, position: Variable) -> Variable {
        let step = code.scaled(position, self.domain.inner as i64);
        code.add_at(first, step)
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
        self.buffers.store_unless_failed(code, 1, point, value);
    }
}
