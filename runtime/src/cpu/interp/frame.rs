//! Runs programs over blocks of points: each instruction is one loop over the block.

use super::check::{AssertionRecord, Check};
use super::generate::{Words, coordinates};
use super::load::{add_parts, copied, load};
use super::program::{Arg, Dest, Draw, Fetch, Inst, Op, Program, Superinstruction, Term};
use super::reduce::{Accumulators, BlockReduction, expand};
use super::scalar::{MAX_ARITY, run_scalar};
use super::span::Span;
use super::store::{row_of, store};
use super::view::{Buffer, View, copy, literal_bits, slice_mut, with_size, with_type};
use super::worker::Worker;
use engine_core::ir::{DType, Literal, Monoid, Scalar};
use engine_numerics::loops::{Prefetch, Source, affine, pair};

/// The data that all workers of a launch share.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The program.
    pub program: &'a Program,
    /// The memory of each kernel operand.
    pub buffers: &'a [Buffer],
    /// The uniform values, eight bytes each.
    pub uniforms: *mut u8,
    /// The record of failed assertions.
    pub assertions: &'a AssertionRecord,
    /// The seed of random numbers.
    pub seed: u64,
    /// Whether rows run across the runs of a block, not along them.
    pub reduces_down: bool,
    /// The bytes from one place of row values to the next.
    pub row_pitch: usize,
}

// SAFETY: the uniform values are written before workers start and only read by them.
unsafe impl Send for Frame<'_> {}
// SAFETY: as above.
unsafe impl Sync for Frame<'_> {}

impl Frame<'_> {
    /// Computes the constants and the uniform values; `literals` replaces the constants of the program, in their order.
    ///
    /// # Safety
    /// Buffers must be those of the program, and no other worker may use the uniform values meanwhile.
    pub unsafe fn begin(&self, worker: &mut Worker, literals: Option<&[Literal]>) {
        for (i, (place, dtype, literal)) in self.program.constants.iter().enumerate() {
            let literal = literals.and_then(|literals| literals.get(i)).unwrap_or(literal);
            // SAFETY: there is room for all uniform values.
            unsafe { self.uniforms.add(8 * place).cast::<u64>().write(literal_bits(literal, *dtype)) };
        }
        // SAFETY: the caller's.
        unsafe { self.run_insts(worker, &self.program.uniform, Span::line(0, 1)) }
    }

    /// Runs instructions over a span.
    ///
    /// # Safety
    /// Buffers must be those of the program. Other workers may run other spans only, and this worker must be the only
    /// user of the elements that its span writes.
    pub unsafe fn run_insts(&self, worker: &mut Worker, insts: &[Inst], span: Span) {
        if span.len() == 0 {
            return;
        }
        for inst in insts {
            // SAFETY: the caller's.
            unsafe { self.run_inst(worker, inst, span) }
        }
    }

    /// The accumulators of `n_rows` rows with their row values at `base`.
    pub fn accumulators(&self, base: *mut u8, n_rows: usize) -> Accumulators {
        Accumulators { base, row_pitch: self.row_pitch, n_rows }
    }

    /// # Safety
    /// As for [`Frame::run_insts`].
    unsafe fn run_inst(&self, worker: &mut Worker, inst: &Inst, span: Span) {
        let (len, out) = (span.len(), self.place(worker, inst, span));
        // SAFETY: the caller's; slots are as long as blocks, and a result has a slot apart from its arguments.
        let view = unsafe {
            match &inst.op {
                Op::Load { operand, address, index, is_copied } => {
                    let index = index.as_ref().map(|index| (index, self.view(worker, index.reg)));
                    let view = load(self.buffers[*operand], address, index, span, out);
                    match inst.dest {
                        Dest::Operand(_) if view.is_scalar => repeated(view, inst.dtype.size(), len, out),
                        Dest::Operand(_) => copied(view, inst.dtype.size(), len, out),
                        _ if *is_copied => copied(view, inst.dtype.size(), len, out),
                        _ => view,
                    }
                }
                Op::Coord(address) => coordinates(address, inst.dtype, span, out),
                Op::Random(draw) => self.words(worker, draw, None).draw(&draw.address, span, out),
                Op::Scalar { op, dtype, args } => self.scalar(worker, inst, (op, *dtype, args), span, out),
                Op::Super(op) => self.superinstruction(worker, inst, op, span, out),
                &Op::Check { value, requirement, site, ref address } => {
                    let check = Check { requirement, site, address, span, record: self.assertions };
                    check.run(self.view(worker, value), inst.dtype, out)
                }
                Op::Expand(arg) => {
                    let view = self.view(worker, *arg);
                    with_size!(inst.dtype.size(), T => expand::<T>(view, span, self.reduces_down, out))
                }
                &Op::Reduce { monoid, value, dtype, best } => {
                    self.reduce(worker, inst, (monoid, value, dtype, best), span)
                }
                Op::Accumulator { is_second: false } => worker.accumulator,
                Op::Accumulator { is_second: true } => worker.second_accumulator,
                // The launch reads the register.
                Op::Fold(_) => return,
                Op::Store { operand, address, value, index } => {
                    let value = self.view(worker, *value);
                    let moved = index.map(|index| index.moved(self.view(worker, index.reg)));
                    let Some(buffer) = row_of(self.buffers[*operand], address, moved) else { return };
                    with_size!(buffer.size, T => store::<T>(buffer, address, span, value.operand(len)));
                    return;
                }
            }
        };
        if let (Dest::Uniform(_), false) = (inst.dest, view.start == out.cast_const()) {
            // SAFETY: one value each; all workers read it among the uniform values.
            unsafe { std::ptr::copy_nonoverlapping(view.start, out, inst.dtype.size()) };
        }
        worker.set(inst.reg, view);
    }

    fn view(&self, worker: &Worker, arg: Arg) -> View {
        match arg {
            Arg::Uniform(place) => View { start: self.uniforms.wrapping_add(8 * place), is_scalar: true },
            Arg::Local(reg) => worker.get(reg),
        }
    }

    /// The value of an argument that is one value for the block.
    unsafe fn value<T: Copy>(&self, worker: &Worker, arg: Arg) -> T {
        // SAFETY: the caller's: a value of this type.
        unsafe { self.view(worker, arg).start.cast::<T>().read() }
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

    unsafe fn words(&self, worker: &Worker, draw: &Draw, shift: Option<Arg>) -> Words {
        // SAFETY: the caller's.
        let word = |arg: Arg| unsafe { self.value::<u32>(worker, arg) };
        Words {
            key: [self.seed as u32 ^ (self.seed >> 32) as u32, draw.stream],
            counter: [word(draw.step), draw.iteration.map_or(0, word)],
            shift: shift.map(word),
        }
    }

    unsafe fn scalar(
        &self,
        worker: &Worker,
        inst: &Inst,
        (op, dtype, args): (&Scalar, DType, &[Arg]),
        span: Span,
        out: *mut u8,
    ) -> View {
        let mut views = [View::UNSET; MAX_ARITY];
        for (view, arg) in views.iter_mut().zip(args) {
            *view = self.view(worker, *arg);
        }
        let views = &views[..args.len()];
        let n_computed = n_computed(views, span);
        // SAFETY: the caller's.
        unsafe {
            run_scalar(op, dtype, views, out, n_computed, self.ahead(worker, inst, span));
            self.computed(inst, out, n_computed, span.len())
        }
    }

    unsafe fn superinstruction(
        &self,
        worker: &Worker,
        inst: &Inst,
        op: &Superinstruction,
        span: Span,
        out: *mut u8,
    ) -> View {
        let ahead = self.ahead(worker, inst, span);
        // SAFETY: the caller's.
        unsafe {
            let n_computed = match op {
                Superinstruction::Pair { first, second, args } => {
                    let views = args.map(|arg| self.view(worker, arg));
                    let n = n_computed(&views, span);
                    let source = |View { start, is_scalar }| Source { start: start.cast(), is_scalar };
                    pair([*first, *second], views.map(source), out.cast(), n, ahead);
                    n
                }
                Superinstruction::Affine { op, x, scale, shift } => {
                    let x = self.view(worker, *x);
                    let n = n_computed(&[x], span);
                    let terms = [self.term(worker, scale, 1.0), self.term(worker, shift, -0.0)];
                    affine(*op, x.slice(n), terms, slice_mut(out, n), ahead);
                    n
                }
                Superinstruction::ShiftedRandom { draw, shift } => {
                    return self.words(worker, draw, Some(*shift)).draw(&draw.address, span, out);
                }
                Superinstruction::Parts { base, parts } => {
                    let base = self.view(worker, *base).operand(span.len());
                    let parts = parts.iter().map(|(operand, address)| (self.buffers[*operand], address));
                    add_parts(base, parts, span, slice_mut(out, span.len()));
                    return View::block(out, span.len());
                }
            };
            self.computed(inst, out, n_computed, span.len())
        }
    }

    unsafe fn term(&self, worker: &Worker, term: &Term, neutral: f32) -> f32 {
        // SAFETY: the caller's.
        let value = term.value.map_or(neutral, |arg| unsafe { self.value(worker, arg) });
        if term.is_negated { -value } else { value }
    }

    unsafe fn reduce(
        &self,
        worker: &Worker,
        inst: &Inst,
        (monoid, value, dtype, best): (Monoid, Arg, DType, usize),
        span: Span,
    ) -> View {
        let accumulator = worker.get(inst.reg);
        let accumulators = accumulator.start.cast_mut();
        // The extreme values are as far from the accumulators as their places are apart.
        let best = match inst.dest {
            Dest::Row(row) => {
                let distance = (best as isize - row as isize) * self.row_pitch as isize;
                accumulators.wrapping_offset(distance)
            }
            _ => std::ptr::null_mut(),
        };
        let (reduces_down, ahead) = (self.reduces_down, self.ahead(worker, inst, span));
        let reduction = BlockReduction { monoid, span, reduces_down, accumulators, best, ahead };
        // SAFETY: the caller's.
        unsafe {
            let value = full(worker, self.view(worker, value), dtype.size(), span.len());
            with_type!(dtype, T => reduction.run::<T>(value.slice(span.len())));
        }
        accumulator
    }

    /// The instruction's share of the memory of the next block.
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
        let view = View::block(out, n_computed);
        match inst.dest {
            // SAFETY: the caller's: the operand has room for all values.
            Dest::Operand(_) if n_computed < len => unsafe { repeated(view, inst.dtype.size(), len, out) },
            _ => view,
        }
    }
}

/// The values to compute: one, if all arguments are one value for the block.
fn n_computed(args: &[View], span: Span) -> usize {
    if args.iter().any(|view| !view.is_scalar) { span.len() } else { 1 }
}

/// A view of a whole block; a scalar is repeated in the temporary slot.
unsafe fn full(worker: &Worker, view: View, size: usize, len: usize) -> View {
    if !view.is_scalar || len == 1 {
        return view;
    }
    // SAFETY: the temporary slot is as long as a block.
    unsafe { repeated(view, size, len, worker.temporary()) }
}

/// Repeats a scalar over a block, which may begin with it.
unsafe fn repeated(scalar: View, size: usize, len: usize, out: *mut u8) -> View {
    // SAFETY: the caller's: there is room for the block.
    unsafe { with_size!(size, T => copy(scalar.operand::<T>(len), slice_mut(out, len))) };
    View { start: out, is_scalar: false }
}
