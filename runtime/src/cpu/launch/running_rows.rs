//! Running values of rows: the largest score so far, and the sum of exponentials relative to it.

use engine_core::codegen::Reference;
use engine_core::ir::Unary;
use engine_numerics::gemm::GemmFloat;
use engine_numerics::loops::reduce::{Fold, combine};
use engine_numerics::loops::{Number, Prefetch, affine, fold};

/// A float whose exponentials are added up.
pub trait Exponential: GemmFloat + Number {
    /// `out[i] = exp(x[i] - shift)`
    fn exp_shifted(x: &[Self], shift: Self, out: &mut [Self]);
    /// The exponential of one number.
    fn exp(self) -> Self;
    /// `self - other`
    fn minus(self, other: Self) -> Self;
    /// Rounded from double precision.
    fn of(value: f64) -> Self;
    /// In double precision.
    fn wide(self) -> f64;
}

macro_rules! exponentials {
    ($($type:ident: |$x:ident, $shift:ident, $out:ident| $loop:expr;)*) => { $(
        impl Exponential for $type {
            fn exp_shifted($x: &[$type], $shift: $type, $out: &mut [$type]) {
                $loop
            }
            fn exp(self) -> $type {
                $type::exp(self)
            }
            fn minus(self, other: $type) -> $type {
                self - other
            }
            fn of(value: f64) -> $type {
                value as $type
            }
            fn wide(self) -> f64 {
                self as f64
            }
        }
    )* };
}
exponentials! {
    f32: |x, shift, out| affine(Unary::Exp, x, [1.0, -shift], out, Prefetch::NOTHING);
    f64: |x, shift, out| out.iter_mut().zip(x).for_each(|(out, x)| *out = (x - shift).exp());
}

/// The running values of the rows of a block.
pub struct RunningRows<'a, T> {
    reference: Reference,
    /// The largest score of each row.
    pub largest: &'a mut [T],
    /// The sum of exponentials of each row.
    pub sums: &'a mut [T],
}

impl<'a, T: Exponential> RunningRows<'a, T> {
    /// The values of rows without keys, in this memory.
    pub fn new(reference: Reference, [largest, sums]: [&'a mut [T]; 2]) -> RunningRows<'a, T> {
        largest.fill(T::neutral(Fold::Max));
        sums.fill(T::neutral(Fold::Sum));
        RunningRows { reference, largest, sums }
    }

    /// Makes the sum of each row NaN whose exponentials are.
    pub fn mark_undefined(&mut self) {
        for row in 0..self.sums.len() {
            if self.is_undefined(row) {
                self.sums[row] = T::of(f64::NAN);
            }
        }
    }

    /// Takes more scores of a row, and writes their exponentials. Earlier exponentials of the row, and sums of them, must be
    /// multiplied by the result, if there is one.
    pub fn take(&mut self, row: usize, scores: &[T], exponentials: &mut [T]) -> Option<T> {
        let before = self.largest[row];
        let largest = match self.reference {
            Reference::Zero => before,
            _ => combine(Fold::Max, before, fold(Fold::Max, scores)),
        };
        let shift = self.shift(largest);
        T::exp_shifted(scores, shift, exponentials);
        let sum = fold(Fold::Sum, exponentials);
        self.largest[row] = largest;
        // A row whose scores were all -inf has the sum 0.
        let has_sum = before.wide() != f64::NEG_INFINITY;
        let factor = (has_sum && before.wide() != largest.wide())
            .then(|| Exponential::exp(self.shift(before).minus(shift)));
        let earlier = factor.map_or(self.sums[row], |factor| self.sums[row] * factor);
        self.sums[row] = earlier + sum;
        factor
    }

    /// The reference of a row with this largest score. No score so far is the same as none visible.
    fn shift(&self, largest: T) -> T {
        match largest.wide() == f64::NEG_INFINITY {
            true => T::of(0.0),
            false => T::of(self.reference.at(largest.wide())),
        }
    }

    /// Whether the exponentials of a row are NaN, because all its scores are -inf and so is the reference.
    pub fn is_undefined(&self, row: usize) -> bool {
        self.reference == Reference::Largest && self.largest[row].wide() == f64::NEG_INFINITY
    }
}
