//! Maximum, minimum, argmax and argmin of a row as a fold, so that a matmul fold can compute them.

use super::kernel::{Element, Elements, Share};
use super::rows::RowFold;
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
trait Float: Element + PartialOrd {
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

impl<T: Float> Extreme<T> {
    /// Whether `x` replaces an earlier `best`. NaN replaces every number, and no element replaces NaN.
    fn beats(&self, x: T, best: T) -> bool {
        let is_nan = |x: T| x.partial_cmp(&x).is_none();
        !is_nan(best) && (is_nan(x) || if self.largest { x > best } else { x < best })
    }

    /// The best element of a piece, found without branches. The second result is true if the piece has a NaN.
    fn best_of(&self, piece: &[T]) -> (T, bool) {
        let has_nan = |any: bool, x: &T| any | x.partial_cmp(x).is_none();
        let best = match self.largest {
            true => piece.iter().fold(T::NEG_INFINITY, |best, &x| if x > best { x } else { best }),
            false => piece.iter().fold(T::INFINITY, |best, &x| if x < best { x } else { best }),
        };
        (best, piece.iter().fold(false, has_nan))
    }

    fn offer(&self, state: &mut [u64], x: T, index: usize) {
        if state[1] == 0 || self.beats(x, T::of_bits(state[0])) {
            (state[0], state[1]) = (x.bits(), index as u64 + 1);
        }
    }
}

/// Elements per block. A block is scanned element by element only if one of its elements changes the state.
const BLOCK: usize = 128;

impl<T: Float> RowFold for Extreme<T> {
    fn state_words(&self) -> usize {
        2
    }

    fn init(&self, state: &mut [u64]) {
        state.fill(0);
    }

    fn step(&self, state: &mut [u64], first: usize, piece: Elements) {
        for (number, block) in piece.get::<T>().chunks(BLOCK).enumerate() {
            let (best, has_nan) = self.best_of(block);
            if state[1] == 0 || has_nan || self.beats(best, T::of_bits(state[0])) {
                for (i, &x) in block.iter().enumerate() {
                    self.offer(state, x, first + number * BLOCK + i);
                }
            }
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
}
