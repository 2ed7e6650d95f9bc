//! Two arithmetic operations of f32 in one loop, which halves the loads and stores of two loops. The result may overwrite
//! an argument.

use crate::match_type;
use crate::simd::operation::{Add, Arithmetic, Div, DivInto, Max, Min, Mul, Operation, Sub, SubFrom};
use crate::simd::prefetch::{CHUNK, Prefetch};
use engine_core::op::simd::{Aligned, Lanes};
use engine_core::op::simd::{Isa, Kernel, dispatch};

/// An argument in memory: `len` values, or one for all points.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The first value.
    pub start: *const f32,
    /// Whether it is the value of all points.
    pub is_scalar: bool,
}

/// `out[i] = second(first(a[i], b[i]), c[i])`; requests the memory in `ahead`.
///
/// # Safety
/// The sources must be valid for `len` values (one if scalar) and `out` for `len`. `out` may be the start of a source
/// that is not scalar; otherwise it overlaps none.
pub unsafe fn pair(
    [first, second]: [Arithmetic; 2],
    args: [Source; 3],
    out: *mut f32,
    len: usize,
    ahead: Prefetch,
) {
    dispatch(Pair { first, second, args, out, len, ahead });
}

struct Pair {
    first: Arithmetic,
    second: Arithmetic,
    args: [Source; 3],
    out: *mut f32,
    len: usize,
    ahead: Prefetch,
}

impl Kernel for Pair {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let pair = self.ordered();
        match_type!(
            pair.first, F => pair.run_with::<I::F32, F>(),
            Arithmetic::Add => Add,
            Arithmetic::Sub => Sub,
            Arithmetic::Mul => Mul,
            Arithmetic::Div => Div,
            Arithmetic::Max => Max,
            Arithmetic::Min => Min;
            other => engine_core::bug!("`{other:?}` first")
        );
    }
}

impl Pair {
    /// The pair with the operands of its first operation in order. Fewer loops are compiled so.
    #[inline(always)]
    fn ordered(mut self) -> Pair {
        if let (Arithmetic::SubFrom | Arithmetic::DivInto, Some(first)) = (self.first, self.first.flipped()) {
            self.first = first;
            self.args.swap(0, 1);
        }
        self
    }

    #[inline(always)]
    fn run_with<V: Lanes<Scalar = f32>, F: Operation>(self) {
        match_type!(
            self.second, S => self.run_as::<V, F, S>(),
            Arithmetic::Add => Add,
            Arithmetic::Sub => Sub,
            Arithmetic::SubFrom => SubFrom,
            Arithmetic::Mul => Mul,
            Arithmetic::Div => Div,
            Arithmetic::DivInto => DivInto,
            Arithmetic::Max => Max,
            Arithmetic::Min => Min
        );
    }
}

/// Values read in steps of a vector, or one vector read repeatedly, for the same loop.
struct Stream<'a> {
    start: *const f32,
    step: usize,
    repeated: &'a mut [f32; WIDEST],
}

/// The lanes of the widest vector.
const WIDEST: usize = 16;

impl Pair {
    #[inline(always)]
    fn run_as<V: Lanes<Scalar = f32>, F: Operation, S: Operation>(self) {
        let Aligned(repeated) = &mut Aligned([[0f32; WIDEST]; 3]);
        // SAFETY: the caller's of `pair`: at least one value, unless the length is 0.
        let streams = unsafe { streams(self.args, repeated, self.len) };
        let n_whole = self.len / V::N * V::N;
        // SAFETY: the caller's of `pair`; vectors stay inside, and each is read before its place is written.
        unsafe {
            let mut at = 0;
            let out = self.out;
            let mut requests = self.ahead.over(self.len / CHUNK);
            while at < n_whole {
                requests.step();
                let stop = n_whole.min(at + CHUNK);
                while at < stop {
                    then::<V, F, S>([streams[0].at(at), streams[1].at(at), streams[2].at(at)])
                        .store(out.add(at));
                    at += V::N;
                }
            }
            if at < self.len {
                let rest = self.len - at;
                let parts = [streams[0].rest(at, rest), streams[1].rest(at, rest), streams[2].rest(at, rest)];
                let mut last = [0f32; WIDEST];
                then::<V, F, S>(parts).store(last.as_mut_ptr());
                std::ptr::copy_nonoverlapping(last.as_ptr(), self.out.add(at), rest);
            }
        }
    }
}

/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn then<V: Lanes, F: Operation, S: Operation>([a, b, c]: [V; 3]) -> V {
    // SAFETY: the caller's.
    unsafe { S::apply(F::apply(a, b), c) }
}

/// The streams of all sources. A function of its own is compiled once for all loops.
///
/// # Safety
/// Each source must have a value, unless the length is 0.
unsafe fn streams(args: [Source; 3], repeated: &mut [[f32; WIDEST]; 3], len: usize) -> [Stream<'_>; 3] {
    let [a, b, c] = repeated;
    // SAFETY: the caller's.
    unsafe { [Stream::of(args[0], a, len), Stream::of(args[1], b, len), Stream::of(args[2], c, len)] }
}

impl Stream<'_> {
    unsafe fn of(source: Source, repeated: &mut [f32; WIDEST], len: usize) -> Stream<'_> {
        if !source.is_scalar {
            return Stream { start: source.start, step: 1, repeated };
        }
        if len > 0 {
            // SAFETY: the caller's: there is a value.
            repeated.fill(unsafe { *source.start });
        }
        Stream { start: repeated.as_ptr(), step: 0, repeated }
    }

    #[inline(always)]
    unsafe fn at<V: Lanes<Scalar = f32>>(&self, at: usize) -> V {
        // SAFETY: the caller's: the vector is inside; the widest vector has as many lanes as there are repeated values.
        unsafe { V::load(self.start.add(at * self.step)) }
    }

    #[inline(always)]
    unsafe fn rest<V: Lanes<Scalar = f32>>(&self, at: usize, rest: usize) -> V {
        let mut part = *self.repeated;
        // SAFETY: the caller's: `rest` values from there on are inside, fewer than a vector.
        unsafe {
            if self.step == 1 {
                std::ptr::copy_nonoverlapping(self.start.add(at), part.as_mut_ptr(), rest);
            }
            V::load(part.as_ptr())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, binary};
    use super::*;
    use engine_core::ir::Binary;
    use engine_core::op::simd::{Level, dispatch_on};

    fn one(op: Arithmetic, a: &[f32], b: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; a.len()];
        let mut run =
            |op, a, b| binary(op, Operand::Slice(a), Operand::Slice(b), &mut out, Prefetch::NOTHING);
        match op {
            Arithmetic::Add => run(Binary::Add, a, b),
            Arithmetic::Sub => run(Binary::Sub, a, b),
            Arithmetic::SubFrom => run(Binary::Sub, b, a),
            Arithmetic::Mul => run(Binary::Mul, a, b),
            Arithmetic::Div => run(Binary::Div, a, b),
            Arithmetic::DivInto => run(Binary::Div, b, a),
            Arithmetic::Max => run(Binary::Max, a, b),
            Arithmetic::Min => run(Binary::Min, a, b),
        }
        out
    }

    fn wave(len: usize, seed: usize) -> Vec<f32> {
        let special = [0.0, -0.0, f32::NAN, f32::INFINITY, -1e-40];
        (0..len)
            .map(|i| match (i * 31 + seed) % 23 {
                n if n < special.len() => special[n],
                n => n as f32 * 0.37 - 4.0 + seed as f32,
            })
            .collect()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
    }

    #[test]
    fn a_pair_has_the_bits_of_its_operations_on_every_instruction_set() {
        for len in [1, 15, 16, 37] {
            let [a, b, c] = [wave(len, 1), wave(len, 2), wave(len, 3)];
            for (first, second) in
                Arithmetic::ALL.iter().flat_map(|&f| Arithmetic::ALL.iter().map(move |&s| (f, s)))
            {
                let expected = one(second, &one(first, &a, &b), &c);
                for level in Level::available() {
                    let mut out = vec![0.0; len];
                    let args = [&a, &b, &c].map(|x| Source { start: x.as_ptr(), is_scalar: false });
                    dispatch_on(
                        level,
                        Pair { first, second, args, out: out.as_mut_ptr(), len, ahead: Prefetch::NOTHING },
                    );
                    assert_eq!(bits(&out), bits(&expected), "{first:?} {second:?} of {len} on {level:?}");
                }
            }
        }
    }

    #[test]
    fn a_scalar_is_repeated_and_the_result_may_overwrite_an_argument() {
        let (len, scalar) = (45, [2.5f32]);
        let (a, c) = (wave(len, 4), wave(len, 5));
        let expected = one(Arithmetic::SubFrom, &one(Arithmetic::Mul, &a, &vec![2.5; len]), &c);
        let mut in_place = c.clone();
        let start = in_place.as_mut_ptr();
        let args = [
            Source { start: a.as_ptr(), is_scalar: false },
            Source { start: scalar.as_ptr(), is_scalar: true },
            Source { start, is_scalar: false },
        ];
        // SAFETY: the third argument is the result itself.
        unsafe { pair([Arithmetic::Mul, Arithmetic::SubFrom], args, start, len, Prefetch::NOTHING) };
        assert_eq!(bits(&in_place), bits(&expected));
    }
}
