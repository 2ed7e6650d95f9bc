//! Runs programs over blocks of points: each instruction is one loop over the block.

use super::address::{Address, Stretch};
use super::loops::philox::{philox_f32, philox_u32};
use super::loops::reduce::{self, Fold, Foldable};
use super::loops::{Operand, Source, affine, pair};
use super::memory::Memory;
use super::program::{Arg, Dest, Fetch, Index, Inst, Op, Pass, Program, Term};
use super::scalar::{MAX_ARITY, View, copy, literal_bits, run_scalar, slice_mut, with_size, with_type};
use super::simd::prefetch::Prefetch;
use crate::device::DeviceError;
use engine_core::codegen::FailedAssertion;
use engine_core::ir::{DType, Monoid, Requirement};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The points that instructions run over: `height` runs of `width` neighbours, `pitch` points apart.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First point.
    pub start: usize,
    /// Points of a run.
    pub width: usize,
    /// Runs.
    pub height: usize,
    /// From run to run.
    pub pitch: usize,
    /// Coordinate of the first point along the row.
    pub along: usize,
}

impl Span {
    /// Neighbours.
    pub fn line(start: usize, len: usize) -> Span {
        Span { start, width: len, height: 1, pitch: len, along: 0 }
    }

    fn len(&self) -> usize {
        self.width * self.height
    }

    /// The same points as few runs as possible: their length and number.
    fn runs(&self) -> (usize, usize) {
        match self.pitch == self.width || self.height == 1 {
            true => (self.len(), 1),
            false => (self.width, self.height),
        }
    }
}

/// Memory of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Its first byte.
    pub start: *mut u8,
    /// Elements.
    pub len: usize,
    /// Bytes of one.
    pub size: usize,
}

// SAFETY: a buffer is an address; all access is `unsafe` with its own argument.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// The first value found that is not as required, if any.
#[derive(Default)]
pub struct AssertionRecord {
    is_raised: AtomicBool,
    first: Mutex<Option<FailedAssertion>>,
}

impl AssertionRecord {
    /// The finding of the lowest node at the lowest position, if there is one; and forgets it.
    pub fn take(&self) -> Option<FailedAssertion> {
        if !self.is_raised.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether there is one.
    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    #[cold]
    fn raise(&self, finding: FailedAssertion) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        *first = Some(first.map_or(finding, |first| first.min(finding)));
        self.is_raised.store(true, Ordering::Release);
    }
}

/// What all workers of a launch share.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The program.
    pub program: &'a Program,
    /// By kernel operand.
    pub buffers: &'a [Buffer],
    /// Uniform values, eight bytes each.
    pub uniforms: *mut u8,
    /// The alarm of the checks.
    pub alarm: &'a AssertionRecord,
    /// The seed of random numbers.
    pub seed: u64,
    /// Whether rows run across the runs of a block, rather than along them.
    pub reduces_down: bool,
    /// Bytes from one place of row values to the next.
    pub row_pitch: usize,
}

// SAFETY: the uniform values are written before workers start and only read by them.
unsafe impl Send for Frame<'_> {}
// SAFETY: as above.
unsafe impl Sync for Frame<'_> {}

/// Scratch of one worker, for programs of up to a given size.
pub struct Worker {
    slots: Memory,
    slot_bytes: usize,
    rows: Memory,
    views: Vec<View>,
    /// Row values of all rows of a group, while its rows are run one by one.
    pub saved: Vec<View>,
    /// Whether the block that follows in memory is run next.
    pub has_next: bool,
    /// Where row values are written.
    pub row_base: *mut u8,
    /// Where the accumulator of a contraction lies.
    pub accumulator: View,
}

// SAFETY: the pointer is to the worker's own memory, or to memory that its task owns.
unsafe impl Send for Worker {}

/// How much scratch programs need.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScratchSize {
    /// Slots, one more than programs name.
    pub n_slots: usize,
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// Bytes of row values.
    pub row_bytes: usize,
    /// Places of row values.
    pub n_row_places: usize,
    /// Registers.
    pub n_regs: usize,
}

/// Bytes from one place of row values to the next, for so many rows.
pub fn row_pitch(lanes: usize) -> usize {
    (lanes * 8).next_multiple_of(64)
}

impl ScratchSize {
    /// For a program on blocks of so many points and so many rows.
    pub fn of(program: &Program, block: usize, lanes: usize) -> ScratchSize {
        ScratchSize {
            n_slots: program.n_slots + 1,
            slot_bytes: (block * program.widest).next_multiple_of(64),
            // Twice: for the accumulators of a part of the rows as well.
            row_bytes: 2 * program.n_row_places * row_pitch(lanes),
            n_row_places: program.n_row_places,
            n_regs: program.n_regs,
        }
    }

    /// Enough for both.
    pub fn max(self, other: ScratchSize) -> ScratchSize {
        ScratchSize {
            n_slots: self.n_slots.max(other.n_slots),
            slot_bytes: self.slot_bytes.max(other.slot_bytes),
            row_bytes: self.row_bytes.max(other.row_bytes),
            n_row_places: self.n_row_places.max(other.n_row_places),
            n_regs: self.n_regs.max(other.n_regs),
        }
    }
}

impl Worker {
    /// Scratch of that size.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(size: ScratchSize) -> Result<Worker, DeviceError> {
        // Slots a power of two apart would fall on the same cache sets; a line more spreads them.
        let slot_bytes = size.slot_bytes + 64;
        let rows = Memory::new(size.row_bytes)?;
        Ok(Worker {
            slots: Memory::new(size.n_slots * slot_bytes)?,
            slot_bytes,
            has_next: false,
            row_base: rows.start(),
            rows,
            views: vec![View::UNSET; size.n_regs],
            saved: vec![View::UNSET; size.n_row_places],
            accumulator: View::UNSET,
        })
    }

    fn slot(&self, slot: usize) -> *mut u8 {
        self.slots.start().wrapping_add(slot * self.slot_bytes)
    }

    fn temporary(&self) -> *mut u8 {
        self.slots.start().wrapping_add(self.slots.bytes() - self.slot_bytes)
    }

    /// The worker's own memory for row values.
    pub fn own_rows(&self) -> *mut u8 {
        self.rows.start()
    }

    /// Sets what a register stands for.
    pub fn set(&mut self, reg: usize, view: View) {
        self.views[reg] = view;
    }

    /// What a register stands for.
    pub fn get(&self, reg: usize) -> View {
        self.views[reg]
    }
}

impl Frame<'_> {
    /// Computes the uniform values.
    ///
    /// # Safety
    /// Buffers must hold what the program says, and nobody else may use the uniform values.
    pub unsafe fn run_uniform(&self, worker: &mut Worker) {
        // SAFETY: the caller's.
        unsafe { self.run_insts(worker, &self.program.uniform, Span::line(0, 1)) }
    }

    /// Writes the constants among the uniform values; `literals` replaces those of the program, in their order.
    ///
    /// # Safety
    /// Nobody else may use the uniform values.
    pub unsafe fn write_constants(&self, literals: Option<&[engine_core::ir::Literal]>) {
        for (i, (place, dtype, literal)) in self.program.constants.iter().enumerate() {
            let literal = literals.and_then(|literals| literals.get(i)).unwrap_or(literal);
            // SAFETY: there is room for all uniform values.
            unsafe { self.uniforms.add(8 * place).cast::<u64>().write(literal_bits(literal, *dtype)) };
        }
    }

    /// Runs instructions over a span.
    ///
    /// # Safety
    /// Buffers must hold what the program says; other workers may run other spans only; what a span writes, nobody
    /// else may use.
    pub unsafe fn run_insts(&self, worker: &mut Worker, insts: &[Inst], span: Span) {
        if span.len() == 0 {
            return;
        }
        for inst in insts {
            // SAFETY: the caller's.
            unsafe { self.run_inst(worker, inst, span) }
        }
    }

    /// Sets the accumulators of a pass, for `lanes` rows, to where nothing has been combined yet.
    ///
    /// # Safety
    /// `base` must be memory for all row values, and nobody else may use it.
    pub unsafe fn begin_reductions(&self, worker: &mut Worker, pass: &Pass, lanes: usize, base: *mut u8) {
        let place = |place: usize| base.wrapping_add(place * self.row_pitch);
        for inst in &pass.element {
            let (Op::Reduce { monoid, dtype, best, .. }, Dest::Row(row)) = (&inst.op, inst.dest) else {
                continue;
            };
            let fold = Fold::of(*monoid);
            let values = if monoid.is_index() { place(*best) } else { place(row) };
            // SAFETY: the caller's.
            with_type!(*dtype, T => unsafe { slice_mut::<T>(values, lanes) }.fill(T::neutral(fold)));
            if monoid.is_index() {
                // SAFETY: as above; an index of -1 marks that nothing was seen.
                unsafe { slice_mut::<i32>(place(row), lanes) }.fill(-1);
            }
        }
        self.show_reductions(worker, pass, lanes, base);
    }

    fn view(&self, worker: &Worker, arg: Arg) -> View {
        match arg {
            Arg::Uniform(place) => View { start: self.uniforms.wrapping_add(8 * place), is_scalar: true },
            Arg::Local(reg) => worker.views[reg],
        }
    }

    fn place(&self, worker: &Worker, inst: &Inst, span: Span) -> *mut u8 {
        match inst.dest {
            Dest::Uniform(place) => self.uniforms.wrapping_add(8 * place),
            Dest::Row(place) => worker.row_base.wrapping_add(place * self.row_pitch),
            Dest::Slot(slot) => worker.slot(slot),
            Dest::Operand(operand) => {
                self.buffers[operand].start.wrapping_add(span.start * self.buffers[operand].size)
            }
            Dest::None => std::ptr::null_mut(),
        }
    }

    /// # Safety
    /// As for [`Frame::run_insts`].
    unsafe fn run_inst(&self, worker: &mut Worker, inst: &Inst, span: Span) {
        let len = span.len();
        let out = self.place(worker, inst, span);
        let is_full = |view: &View| !view.is_scalar;
        // SAFETY: the caller's; slots are as long as blocks, and a result has a slot apart from its arguments.
        let view = unsafe {
            match &inst.op {
                Op::Load { operand, address, index, is_copied } => {
                    let view = self.load(worker, *operand, address, index.as_ref(), span, out);
                    if *is_copied { copied(view, inst.dtype.size(), len, out) } else { view }
                }
                Op::Coord(address) => {
                    coordinates(address, inst.dtype, span, out);
                    View { start: out, is_scalar: len == 1 }
                }
                Op::Random { stream, step, iteration, address, shift } => {
                    let word = |arg: Arg| self.view(worker, arg).start.cast::<u32>().read();
                    let key = [self.seed as u32 ^ (self.seed >> 32) as u32, *stream];
                    let counter = [word(*step), iteration.map_or(0, word)];
                    let draw = Draw { key, counter, shift: shift.map(word) };
                    draw.points(address, span, slice_mut(out, len));
                    View { start: out, is_scalar: len == 1 }
                }
                Op::Scalar { op, dtype, args } => {
                    let mut views = [View::UNSET; MAX_ARITY];
                    for (view, arg) in views.iter_mut().zip(args) {
                        *view = self.view(worker, *arg);
                    }
                    let views = &views[..args.len()];
                    let n_computed = if views.iter().any(is_full) { len } else { 1 };
                    run_scalar(op, *dtype, views, out, n_computed, self.ahead(worker, inst, span));
                    self.computed(inst, out, n_computed, len)
                }
                Op::Pair { first, second, args } => {
                    let views = args.map(|arg| self.view(worker, arg));
                    let n_computed = if views.iter().any(is_full) { len } else { 1 };
                    let sources =
                        views.map(|view| Source { start: view.start.cast(), is_scalar: view.is_scalar });
                    pair([*first, *second], sources, out.cast(), n_computed, self.ahead(worker, inst, span));
                    self.computed(inst, out, n_computed, len)
                }
                Op::Affine { op, x, scale, shift } => {
                    let term = |term: &Term, neutral: f32| {
                        let value = term
                            .value
                            .map_or(neutral, |arg| self.view(worker, arg).start.cast::<f32>().read());
                        if term.is_negated { -value } else { value }
                    };
                    let (scale, shift) = (term(scale, 1.0), term(shift, -0.0));
                    let x = self.view(worker, *x);
                    let n_computed = if is_full(&x) { len } else { 1 };
                    let ahead = self.ahead(worker, inst, span);
                    affine(*op, x.slice(n_computed), [scale, shift], slice_mut(out, n_computed), ahead);
                    self.computed(inst, out, n_computed, len)
                }
                Op::Check { value, requirement, site, address } => {
                    let view = self.view(worker, *value);
                    let n = if view.is_scalar { 1 } else { len };
                    let raise = |at: usize, value: i64| {
                        let point = span.start + at / span.width * span.pitch + at % span.width;
                        // What stands in for an element outside is not of the tensor that is checked.
                        if let Some(position) = address.element(point) {
                            self.alarm.raise(FailedAssertion { site: *site, position, value });
                        }
                    };
                    check(view, inst.dtype, n, *requirement, out, raise);
                    View { start: out, is_scalar: n == 1 }
                }
                Op::Expand(arg) => {
                    let view = self.view(worker, *arg);
                    with_size!(inst.dtype.size(), T => self.expand::<T>(view, span, slice_mut(out, len)))
                }
                Op::Reduce { monoid, value, dtype, best } => {
                    let value = self.full(worker, self.view(worker, *value), dtype.size(), len);
                    let accumulator = worker.views[inst.reg];
                    let best = self.best_place(worker, inst, *best);
                    let ahead = self.ahead(worker, inst, span);
                    with_type!(*dtype, T => self.reduce::<T>(*monoid, value.slice(len), span, accumulator, best, ahead));
                    accumulator
                }
                Op::Accumulator => worker.accumulator,
                // The launch asks for the register itself.
                Op::Fold(_) => return,
                Op::Store { operand, address, value } => {
                    let (buffer, value) = (self.buffers[*operand], self.view(worker, *value));
                    with_size!(buffer.size, T => store::<T>(buffer, address, span, value.operand(len)));
                    return;
                }
            }
        };
        if let (Dest::Uniform(_), false) = (inst.dest, view.start == out.cast_const()) {
            // SAFETY: one value each; all workers look for it among the uniform values.
            unsafe { std::ptr::copy_nonoverlapping(view.start, out, inst.dtype.size()) };
        }
        worker.views[inst.reg] = view;
    }

    /// The instruction's share of what the next block touches.
    fn ahead(&self, worker: &Worker, inst: &Inst, span: Span) -> Prefetch {
        let mut ahead = Prefetch::NOTHING;
        let len = span.len();
        if !worker.has_next || span.runs().1 > 1 {
            return ahead;
        }
        for Fetch { operand, address, shares: [from, to, all] } in &inst.ahead {
            if let Some((first, 1)) = address.single(span.start + len, len) {
                let Buffer { start, size, .. } = self.buffers[*operand];
                let share = first as usize + len * from / all..first as usize + len * to / all;
                ahead.push(start.wrapping_add(share.start * size), share.len() * size);
            }
        }
        ahead
    }

    /// The result of an instruction that has computed one value or all of them.
    unsafe fn computed(&self, inst: &Inst, out: *mut u8, n_computed: usize, len: usize) -> View {
        match inst.dest {
            // SAFETY: the caller's: the operand has room for them all.
            Dest::Operand(_) if n_computed < len => unsafe { fill_rest(out, inst.dtype.size(), len) },
            _ => View { start: out, is_scalar: n_computed == 1 },
        }
    }

    /// The extreme values lie as far from the accumulator as their places are apart.
    fn best_place(&self, worker: &Worker, inst: &Inst, best: usize) -> *mut u8 {
        let Dest::Row(row) = inst.dest else { return std::ptr::null_mut() };
        let apart = (best as isize - row as isize) * self.row_pitch as isize;
        worker.views[inst.reg].start.cast_mut().wrapping_offset(apart)
    }

    unsafe fn full(&self, worker: &Worker, view: View, size: usize, len: usize) -> View {
        if !view.is_scalar || len == 1 {
            return view;
        }
        let out = worker.temporary();
        // SAFETY: the temporary slot is as long as a block.
        unsafe { with_size!(size, T => copy(view.operand::<T>(len), slice_mut(out, len))) };
        View { start: out, is_scalar: false }
    }

    // ---- Loads.

    unsafe fn load(
        &self,
        worker: &Worker,
        operand: usize,
        address: &Address,
        index: Option<&Index>,
        span: Span,
        out: *mut u8,
    ) -> View {
        let buffer = self.buffers[operand];
        // SAFETY: the caller's.
        unsafe {
            match index {
                None => load_plain(buffer, address, span, out),
                Some(index) => {
                    let view = self.view(worker, index.reg);
                    if view.is_scalar || index.by_row {
                        self.load_by_row(buffer, address, index, view, span, out)
                    } else {
                        with_size!(buffer.size, T => gather::<T>(buffer, address, index, view, span, slice_mut(out, span.len())));
                        View { start: out, is_scalar: span.len() == 1 }
                    }
                }
            }
        }
    }

    /// One index for each run of the span: each run is a plain load from elsewhere.
    unsafe fn load_by_row(
        &self,
        buffer: Buffer,
        address: &Address,
        index: &Index,
        view: View,
        span: Span,
        out: *mut u8,
    ) -> View {
        let base = |row: usize| {
            let row = if view.is_scalar { 0 } else { row };
            // SAFETY: the caller's: an index for each row.
            unsafe { index_at(view, index.dtype, row) * index.stride }
        };
        // SAFETY: the caller's.
        unsafe {
            if span.height == 1 {
                return load_moved(buffer, address, span.start, span.width, base(0), out);
            }
            for row in 0..span.height {
                let out = out.add(row * span.width * buffer.size);
                let view =
                    load_moved(buffer, address, span.start + row * span.pitch, span.width, base(row), out);
                if view.start != out.cast_const() || view.is_scalar {
                    with_size!(buffer.size, T => copy(view.operand::<T>(span.width), slice_mut(out, span.width)));
                }
            }
        }
        View { start: out, is_scalar: span.len() == 1 }
    }

    // ---- Row values and reductions.

    unsafe fn expand<T: Copy>(&self, view: View, span: Span, out: &mut [T]) -> View {
        let start = out.as_ptr().cast();
        // SAFETY: the caller's: as many row values as the span has rows.
        unsafe {
            match (view.is_scalar, self.reduces_down) {
                (true, _) => return view,
                (false, true) => {
                    let values = view.slice::<T>(span.width);
                    out.chunks_exact_mut(span.width).for_each(|run| run.copy_from_slice(values));
                }
                (false, false) => {
                    let values = view.slice::<T>(span.height);
                    out.chunks_exact_mut(span.width).zip(values).for_each(|(run, &value)| run.fill(value));
                }
            }
        }
        View { start, is_scalar: out.len() == 1 }
    }

    unsafe fn reduce<T: Foldable>(
        &self,
        monoid: Monoid,
        block: &[T],
        span: Span,
        accumulator: View,
        best: *mut u8,
        ahead: Prefetch,
    ) {
        let out = accumulator.start.cast_mut();
        let fold = Fold::of(monoid);
        // SAFETY: the caller's: accumulators for each row of the span.
        unsafe {
            match (monoid.is_index(), self.reduces_down) {
                (false, true) => {
                    reduce::fold_rows(fold, block, span.height, span.width, slice_mut(out, span.width))
                }
                (false, false) => {
                    // Only where there is one row is it long.
                    let ahead = if span.height == 1 { ahead } else { Prefetch::NOTHING };
                    for (accumulator, row) in
                        slice_mut::<T>(out, span.height).iter_mut().zip(block.chunks_exact(span.width))
                    {
                        let folded = reduce::fold_with_prefetch(fold, row, ahead);
                        *accumulator = reduce::combine(fold, *accumulator, folded);
                    }
                }
                (true, false) => {
                    let accumulators =
                        slice_mut::<i32>(out, span.height).iter_mut().zip(slice_mut::<T>(best, span.height));
                    for ((index, best), row) in accumulators.zip(block.chunks_exact(span.width)) {
                        let found = match monoid {
                            Monoid::ArgMax => reduce::argmax(row),
                            _ => reduce::argmin(row),
                        };
                        if let Some(found) = found {
                            take_better(fold, index, best, (span.along + found) as i32, row[found]);
                        }
                    }
                }
                (true, true) => {
                    let (indices, bests) =
                        (slice_mut::<i32>(out, span.width), slice_mut::<T>(best, span.width));
                    for (i, row) in block.chunks_exact(span.width).enumerate() {
                        for ((index, best), &value) in indices.iter_mut().zip(bests.iter_mut()).zip(row) {
                            take_better(fold, index, best, (span.along + i) as i32, value);
                        }
                    }
                }
            }
        }
    }

    /// Points the registers of the reductions of a pass at their accumulators.
    pub fn show_reductions(&self, worker: &mut Worker, pass: &Pass, lanes: usize, base: *mut u8) {
        for inst in &pass.element {
            if let (Op::Reduce { .. }, Dest::Row(row)) = (&inst.op, inst.dest) {
                worker.set(
                    inst.reg,
                    View { start: base.wrapping_add(row * self.row_pitch), is_scalar: lanes == 1 },
                );
            }
        }
    }

    /// Merges the accumulators of a later part of the rows into those of an earlier one.
    ///
    /// # Safety
    /// Both must be memory for all row values, of `lanes` rows, with the accumulators of this pass.
    pub unsafe fn merge(&self, pass: &Pass, lanes: usize, into: *mut u8, from: *mut u8) {
        let into = |place: usize| into.wrapping_add(place * self.row_pitch);
        let from = |place: usize| from.wrapping_add(place * self.row_pitch);
        for inst in &pass.element {
            let (Op::Reduce { monoid, dtype, best, .. }, Dest::Row(row)) = (&inst.op, inst.dest) else {
                continue;
            };
            let fold = Fold::of(*monoid);
            // SAFETY: the caller's.
            with_type!(*dtype, T => unsafe {
                if monoid.is_index() {
                    let (indices, bests) = (slice_mut::<i32>(into(row), lanes), slice_mut::<T>(into(*best), lanes));
                    let later = slice_mut::<i32>(from(row), lanes).iter_mut().zip(slice_mut::<T>(from(*best), lanes));
                    for ((index, best), (&mut later, &mut value)) in indices.iter_mut().zip(bests).zip(later) {
                        if later >= 0 {
                            take_better(fold, index, best, later, value);
                        }
                    }
                } else {
                    let values = slice_mut::<T>(into(row), lanes).iter_mut().zip(slice_mut::<T>(from(row), lanes));
                    values.for_each(|(value, later)| *value = reduce::combine(fold, *value, *later));
                }
            });
        }
    }
}

/// Keeps the first of equal values, and the first NaN.
#[allow(clippy::eq_op)]
fn take_better<T: Foldable>(fold: Fold, index: &mut i32, best: &mut T, found: i32, value: T) {
    let is_better = match fold {
        Fold::Max => value > *best,
        _ => value < *best,
    };
    let is_first_nan = value != value && *best == *best;
    if *index < 0 || is_better || is_first_nan {
        (*index, *best) = (found, value);
    }
}

/// Repeats the first value.
unsafe fn fill_rest(out: *mut u8, size: usize, len: usize) -> View {
    // SAFETY: the caller's: room for `len` values, the first one set.
    unsafe {
        with_size!(size, T => {
            let value = *out.cast::<T>();
            slice_mut::<T>(out, len).fill(value);
        });
    }
    View { start: out, is_scalar: false }
}

/// The same elements in scratch.
unsafe fn copied(view: View, size: usize, len: usize, out: *mut u8) -> View {
    if view.start != out.cast_const() {
        let n = if view.is_scalar { 1 } else { len };
        // SAFETY: the caller's: room for a block's elements, apart from all operands.
        unsafe { std::ptr::copy_nonoverlapping(view.start, out, n * size) };
    }
    View { start: out, ..view }
}

unsafe fn load_plain(buffer: Buffer, address: &Address, span: Span, out: *mut u8) -> View {
    let (width, height) = span.runs();
    // SAFETY: the caller's.
    unsafe {
        if height == 1 {
            return load_moved(buffer, address, span.start, width, 0, out);
        }
        for row in 0..height {
            let out = out.add(row * width * buffer.size);
            with_size!(buffer.size, T => read::<T>(buffer, address, span.start + row * span.pitch, 0, slice_mut(out, width)));
        }
    }
    View { start: out, is_scalar: false }
}

/// Reads `len` neighbouring points, `base` elements further on: in place where they are neighbours in memory.
unsafe fn load_moved(
    buffer: Buffer,
    address: &Address,
    start: usize,
    len: usize,
    base: i64,
    out: *mut u8,
) -> View {
    if let Some((first, stride)) = address.single(start, len) {
        let first = first + base;
        let end = first + (len as i64 - 1) * stride;
        if (stride == 0 || stride == 1) && first >= 0 && end < buffer.len as i64 {
            let start = buffer.start.wrapping_add(first as usize * buffer.size);
            return View { start, is_scalar: stride == 0 };
        }
    }
    // SAFETY: the caller's.
    unsafe { with_size!(buffer.size, T => read::<T>(buffer, address, start, base, slice_mut(out, len))) };
    View { start: out, is_scalar: len == 1 }
}

/// Copies `n` values, with the fallback in place of those that are not as required; `raise` is told where they are.
// The cast to i64 is none where the value is i64.
#[allow(clippy::unnecessary_cast)]
unsafe fn check(
    values: View,
    dtype: DType,
    n: usize,
    requirement: Requirement,
    out: *mut u8,
    raise: impl Fn(usize, i64),
) {
    // SAFETY: the caller's.
    unsafe {
        with_type!(dtype, T => {
            let out = slice_mut::<T>(out, n);
            copy(values.operand::<T>(n), out);
            for (at, value) in out.iter_mut().enumerate() {
                let wide = *value as i64;
                if !requirement.holds(wide) {
                    raise(at, wide);
                    *value = requirement.fallback() as T;
                }
            }
        })
    }
}

/// Copies points to a slot. What an index leads out of the buffer reads as zero: `Check` has told of it, or the graph
/// chose not to know.
unsafe fn read<T: Copy + Default + Bits>(
    buffer: Buffer,
    address: &Address,
    start: usize,
    base: i64,
    out: &mut [T],
) {
    // SAFETY: the caller's: a buffer of that many elements of this size.
    let elements = unsafe { std::slice::from_raw_parts(buffer.start.cast::<T>(), buffer.len) };
    address.walk(start, out.len(), |at, count, stretch| {
        let out = &mut out[at..at + count];
        match stretch {
            Stretch::Fill(literal) => out.fill(T::from_literal(&literal)),
            Stretch::Elements { first, stride } => read_stretch(elements, first + base, stride, out),
        }
    });
}

fn read_stretch<T: Copy + Default>(elements: &[T], first: i64, stride: i64, out: &mut [T]) {
    let last = first + (out.len() as i64 - 1) * stride;
    let is_inside = first.min(last) >= 0 && first.max(last) < elements.len() as i64;
    match (is_inside, stride) {
        (true, 0) => out.fill(elements[first as usize]),
        (true, 1) => out.copy_from_slice(&elements[first as usize..][..out.len()]),
        _ => {
            for (i, out) in out.iter_mut().enumerate() {
                let element = usize::try_from(first + i as i64 * stride).ok();
                *out = element.and_then(|element| elements.get(element)).copied().unwrap_or_default();
            }
        }
    }
}

unsafe fn gather<T: Copy + Default + Bits>(
    buffer: Buffer,
    address: &Address,
    index: &Index,
    indices: View,
    span: Span,
    out: &mut [T],
) {
    // SAFETY: the caller's.
    let elements = unsafe { std::slice::from_raw_parts(buffer.start.cast::<T>(), buffer.len) };
    let (width, height) = span.runs();
    for row in 0..height {
        address.walk(span.start + row * span.pitch, width, |at, count, stretch| {
            let at = row * width + at;
            for (i, out) in out[at..at + count].iter_mut().enumerate() {
                *out = match stretch {
                    Stretch::Fill(literal) => T::from_literal(&literal),
                    Stretch::Elements { first, stride } => {
                        // SAFETY: the caller's: an index for each point.
                        let moved = unsafe { index_at(indices, index.dtype, at + i) } * index.stride;
                        let element = usize::try_from(first + i as i64 * stride + moved).ok();
                        element.and_then(|element| elements.get(element)).copied().unwrap_or_default()
                    }
                };
            }
        });
    }
}

unsafe fn index_at(view: View, dtype: DType, i: usize) -> i64 {
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::I32 => *view.start.cast::<i32>().add(i) as i64,
            DType::I64 => *view.start.cast::<i64>().add(i),
            DType::U32 => *view.start.cast::<u32>().add(i) as i64,
            _ => *view.start.add(i) as i64,
        }
    }
}

/// Unsigned integers that stand for elements of their size; a fill literal is already in bits of the element type.
trait Bits {
    fn from_literal(literal: &engine_core::ir::Literal) -> Self;
}

macro_rules! bits {
    ($($unsigned:ident)*) => { $(
        impl Bits for $unsigned {
            fn from_literal(literal: &engine_core::ir::Literal) -> $unsigned {
                literal.as_i64() as $unsigned
            }
        }
    )* };
}
bits! { u8 u16 u32 u64 }

unsafe fn store<T: Copy>(buffer: Buffer, address: &Address, span: Span, values: Operand<T>) {
    let (width, height) = span.runs();
    for row in 0..height {
        address.walk(span.start + row * span.pitch, width, |at, count, stretch| {
            let Stretch::Elements { first, stride } = stretch else { return };
            let part = match values {
                Operand::Slice(values) => Operand::Slice(&values[row * width + at..][..count]),
                scalar => scalar,
            };
            if stride == 1 {
                let start = buffer.start.wrapping_add(first as usize * buffer.size);
                // Copied in place: the elements are there already.
                if matches!(part, Operand::Slice(values) if values.as_ptr().cast() == start.cast_const()) {
                    return;
                }
                // SAFETY: the caller's: the program's accesses stay inside, and nobody else writes these elements.
                let out = unsafe { slice_mut::<T>(start, count) };
                return copy(part, out);
            }
            for i in 0..count {
                let value = match part {
                    Operand::Slice(values) => values[i],
                    Operand::Scalar(value) => value,
                };
                // SAFETY: as above.
                unsafe {
                    buffer
                        .start
                        .cast::<T>()
                        .wrapping_offset((first + i as i64 * stride) as isize)
                        .write(value)
                };
            }
        });
    }
}

unsafe fn coordinates(address: &Address, dtype: DType, span: Span, out: *mut u8) {
    let (width, height) = span.runs();
    // SAFETY: the caller's: room for the span.
    unsafe {
        with_type!(dtype, T => {
            let out = slice_mut::<T>(out, span.len());
            for (row, out) in out.chunks_exact_mut(width.max(1)).enumerate().take(height) {
                address.walk(span.start + row * span.pitch, width, |at, count, stretch| {
                    let value = |i: i64| match stretch {
                        Stretch::Elements { first, stride } => (first + i * stride) as T,
                        Stretch::Fill(literal) => literal.as_i64() as T,
                    };
                    out[at..at + count].iter_mut().enumerate().for_each(|(i, out)| *out = value(i as i64));
                });
            }
        })
    }
}

/// Random words of points.
struct Draw {
    key: [u32; 2],
    /// Step and iteration.
    counter: [u32; 2],
    /// If set, the words are shifted right by as many bits and become f32.
    shift: Option<u32>,
}

impl Draw {
    fn points(&self, address: &Address, span: Span, out: &mut [u32]) {
        let (width, height) = span.runs();
        for (row, out) in out.chunks_exact_mut(width.max(1)).enumerate().take(height) {
            address.walk(span.start + row * span.pitch, width, |at, count, stretch| {
                let out = &mut out[at..at + count];
                match stretch {
                    Stretch::Elements { first, stride: 1 } => self.neighbours(first as u64, out),
                    Stretch::Elements { first, stride } => {
                        let elements = (0..count as i64).map(|i| (first + i * stride) as u64);
                        out.chunks_mut(1)
                            .zip(elements)
                            .for_each(|(out, element)| self.neighbours(element, out));
                    }
                    // Zero, as bits of either type.
                    Stretch::Fill(_) => out.fill(0),
                }
            });
        }
    }

    fn neighbours(&self, first: u64, out: &mut [u32]) {
        let [step, iteration] = self.counter;
        match self.shift {
            None => philox_u32(out, self.key, first, step, iteration),
            Some(shift) => philox_f32(out, shift, self.key, first, step, iteration),
        }
    }
}
