//! Maximum, minimum, argmax and argmin of a row as a fold, so that a matmul fold can compute them.

use super::kernel::{Element, Elements, Share};
use super::rows::RowFold;
use super::simd::{self, Isa, Kernel, Lanes};
use crate::ir::{DType, Monoid};
use std::marker::PhantomData;

/// The fold of a reduction of rows of `dtype`, if there is one: largest and smallest element, and their indices. The
/// order of elements only decides ties, so every cut of a row gives bit-identical results.
pub fn extreme_fold(monoid: Monoid, dtype: DType) -> Option<Box<dyn RowFold>> {
    let (is_index, largest) = match monoid {
        Monoid::Max => (false, true),
        Monoid::Min => (false, false),
        Monoid::ArgMax => (true, true),
        Monoid::ArgMin => (true, false),
        _ => return None,
    };
    match dtype {
        DType::F32 => Some(Box::new(Extreme::<f32>::new(is_index, largest))),
        DType::F64 => Some(Box::new(Extreme::<f64>::new(is_index, largest))),
        _ => None,
    }
}

/// State: the bits of the best element, and its index + 1, or 0 before the first element.
struct Extreme<T> {
    is_index: bool,
    largest: bool,
    element: PhantomData<T>,
}

impl<T> Extreme<T> {
    fn new(is_index: bool, largest: bool) -> Extreme<T> {
        Extreme { is_index, largest, element: PhantomData }
    }
}

/// Floats as words of a state.
trait Float: Element + PartialOrd + simd::Float {
    const NEG_INFINITY: Self;
    const INFINITY: Self;
    fn bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;
}

impl Float for f32 {
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;
    const INFINITY: f32 = f32::INFINITY;

    fn bits(self) -> u64 {
        self.to_bits().into()
    }

    fn of_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
}

impl Float for f64 {
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;
    const INFINITY: f64 = f64::INFINITY;

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn of_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

#[inline(always)]
fn is_nan<T: PartialOrd>(x: T) -> bool {
    x.partial_cmp(&x).is_none()
}

impl<T: Float> Extreme<T> {
    /// Whether `x` replaces an earlier `best`. NaN replaces every number, and no element replaces NaN.
    #[inline(always)]
    fn beats(&self, x: T, best: T) -> bool {
        !is_nan(best) && (is_nan(x) || if self.largest { x > best } else { x < best })
    }

    fn offer(&self, state: &mut [u64], x: T, index: usize) {
        if state[1] == 0 || self.beats(x, T::of_bits(state[0])) {
            (state[0], state[1]) = (x.bits(), index as u64 + 1);
        }
    }
}

/// The search of a piece for its best element, if that beats `best`, and for the number of its block. Bits of zeros and of NaN
/// may be those of another element.
struct BestBlock<'a, T> {
    fold: &'a Extreme<T>,
    piece: &'a [T],
    best: Option<T>,
}

/// Elements of a block. The best element is looked up in its block alone, and the lanes of a register are compared once a block.
const BLOCK: usize = 512;
/// The widest register, in elements.
const WIDEST: usize = 16;

impl<T: Float> Kernel for BestBlock<'_, T> {
    type Output = Option<(usize, T)>;

    #[inline(always)]
    fn run<I: Isa>(self) -> Option<(usize, T)> {
        let (mut best, mut found) = (self.best, None);
        for (number, block) in self.piece.chunks(BLOCK).enumerate() {
            // SAFETY: `dispatch` has found the instruction set.
            let x = unsafe {
                if self.fold.largest {
                    best_of::<T, T::Vector<I>, true>(block)
                } else {
                    best_of::<T, T::Vector<I>, false>(block)
                }
            };
            if best.is_none_or(|best| self.fold.beats(x, best)) {
                best = Some(x);
                found = Some((number, x));
            }
        }
        found
    }
}

/// The largest or the smallest element, or NaN if there is one.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn best_of<T: Float, V: Lanes<Scalar = T>, const LARGEST: bool>(block: &[T]) -> T {
    let neutral = if LARGEST { T::NEG_INFINITY } else { T::INFINITY };
    let whole = block.len() / V::N * V::N;
    // SAFETY: the caller's; all vectors are inside the block.
    unsafe {
        let mut best = V::splat(neutral);
        for at in (0..whole).step_by(V::N) {
            let x = V::load(block.as_ptr().add(at));
            best = if LARGEST { x.larger(best) } else { x.smaller(best) };
        }
        let mut lanes = [neutral; WIDEST];
        best.store(lanes.as_mut_ptr());
        let better = |best: T, x: T| (if LARGEST { x > best } else { x < best }) || is_nan(x);
        // Halves, which are vector instructions.
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] = if better(lanes[i], lanes[i + half]) { lanes[i + half] } else { lanes[i] };
            }
        }
        block[whole..].iter().fold(lanes[0], |best, &x| if better(best, x) { x } else { best })
    }
}

impl<T: Float> RowFold for Extreme<T> {
    fn state_words(&self) -> usize {
        2
    }

    fn init(&self, state: &mut [u64]) {
        state.fill(0);
    }

    fn step(&self, state: &mut [u64], first: usize, piece: Elements) {
        let piece = piece.get::<T>();
        let best = (state[1] > 0).then(|| T::of_bits(state[0]));
        let Some((number, best)) = simd::dispatch(BestBlock { fold: self, piece, best }) else { return };
        let block = piece[number * BLOCK..].iter().take(BLOCK);
        let is_best = |x: &T| if is_nan(best) { is_nan(*x) } else { *x == best };
        if let Some((i, x)) = block.enumerate().find(|(_, x)| is_best(x)) {
            (state[0], state[1]) = (x.bits(), (first + number * BLOCK + i) as u64 + 1);
        }
    }

    fn merge(&self, state: &mut [u64], later: &[u64]) {
        if later[1] > 0 {
            self.offer(state, T::of_bits(later[0]), later[1] as usize - 1);
        }
    }

    fn finish(&self, state: &mut [u64], results: &mut Share) {
        match self.is_index {
            true => results.take::<i32>(0)[0] = state[1].saturating_sub(1) as i32,
            false => results.take::<T>(0)[0] = T::of_bits(state[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn folded(monoid: Monoid, pieces: &[&[f32]]) -> (f32, usize) {
        let fold = extreme_fold(monoid, DType::F32).unwrap();
        let mut state = [7; 2];
        fold.init(&mut state);
        let mut first = 0;
        for piece in pieces {
            let mut later = [7; 2];
            fold.init(&mut later);
            fold.step(&mut later, first, Elements::of(piece, DType::F32));
            fold.merge(&mut state, &later);
            first += piece.len();
        }
        (f32::from_bits(state[0] as u32), state[1] as usize - 1)
    }

    #[test]
    fn the_first_of_equals_wins_and_nan_beats_all() {
        let nan = f32::NAN;
        assert_eq!(folded(Monoid::ArgMax, &[&[1.0, 5.0], &[], &[5.0, 2.0]]), (5.0, 1));
        assert_eq!(folded(Monoid::ArgMin, &[&[4.0, 5.0], &[2.0, 2.0]]), (2.0, 2));
        assert_eq!(folded(Monoid::ArgMin, &[&[-1.0, nan], &[-5.0, nan]]).1, 1);
        assert_eq!(folded(Monoid::ArgMax, &[&[f32::NEG_INFINITY; 300]]).1, 0);
        let long: Vec<f32> = (0..1000).map(|i| ((i * 37) % 501) as f32).collect();
        let best = folded(Monoid::Max, &[&long[..130], &long[130..]]);
        assert_eq!(best, folded(Monoid::Max, &[&long]));
        assert_eq!(best.0, 500.0);
    }

    #[test]
    fn every_length_and_place_is_that_of_a_scan() {
        for n in [1usize, 7, 16, 17, 300, 512, 513, 1100] {
            for at in 0..n {
                let mut x: Vec<f32> = (0..n).map(|i| ((i * 37) % 11) as f32).collect();
                x[at] = [f32::NAN, 99.0, -99.0, f32::INFINITY][at % 4];
                for (monoid, largest) in [(Monoid::ArgMax, true), (Monoid::ArgMin, false)] {
                    let beats = |x: f32, best: f32| {
                        !best.is_nan() && (x.is_nan() || if largest { x > best } else { x < best })
                    };
                    let first = (1..n).fold(0, |best, i| if beats(x[i], x[best]) { i } else { best });
                    let (value, index) = folded(monoid, &[&x[..n / 3], &x[n / 3..]]);
                    assert_eq!((index, value.to_bits()), (first, x[first].to_bits()), "{at} of {n}");
                }
            }
        }
    }
}
