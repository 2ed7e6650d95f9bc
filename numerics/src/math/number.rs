//! The numbers that functions compute with: a float, or a vector of floats.

use engine_core::op::simd::Isa;
use std::ops::{Add, Mul, Sub};

/// A float or a vector of floats.
pub trait Number: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// The type of a lane.
    type Scalar: Copy;
    /// The same value in all lanes.
    fn of(value: Self::Scalar) -> Self;
    /// `self·b + c`, in one rounding where the instruction set has it and in two elsewhere.
    fn fma<I: Isa>(self, b: Self, c: Self) -> Self;
}

/// An f32 or a vector of them, with the steps of exp and log that have vector instructions of their own.
pub trait Single: Number<Scalar = f32> {
    /// The smaller of a number and a limit; NaN stays.
    fn at_most(self, limit: f32) -> Self;
    /// The larger of a number and a limit; NaN stays.
    fn at_least(self, limit: f32) -> Self;
    /// `self·2ⁿ` for `shifted = n +` [`ROUND`], subnormal and infinite results included.
    fn scaled(self, shifted: Self) -> Self;
    /// `self = m·2ᵉ` with √½ ≤ m < √2: m and e, for positive numbers.
    fn split_exponent(self) -> (Self, Self);
    /// The logarithm of a number at the ends of the domain of log, and `inside` at positive finite numbers.
    fn log_ends(self, inside: Self) -> Self;
}

/// Adding 1.5·2²³ rounds to an integer and leaves it in the low bits.
pub const ROUND: f32 = 12_582_912.0;

macro_rules! scalar_numbers {
    ($($type:ident)*) => { $(
        impl Number for $type {
            type Scalar = $type;
            #[inline(always)]
            fn of(value: $type) -> $type {
                value
            }
            #[inline(always)]
            fn fma<I: Isa>(self, b: $type, c: $type) -> $type {
                if I::FMA { self.mul_add(b, c) } else { self * b + c }
            }
        }
    )* };
}
scalar_numbers! { f32 f64 }

impl Single for f32 {
    #[inline(always)]
    fn at_most(self, limit: f32) -> f32 {
        if self > limit { limit } else { self }
    }

    #[inline(always)]
    fn at_least(self, limit: f32) -> f32 {
        if self < limit { limit } else { self }
    }

    #[inline(always)]
    fn scaled(self, shifted: f32) -> f32 {
        // Two factors, because 2ⁿ alone may be subnormal or infinite.
        let n = rounded(shifted);
        let half = n >> 1;
        self * pow2(half) * pow2(n.wrapping_sub(half))
    }

    #[inline(always)]
    fn split_exponent(self) -> (f32, f32) {
        let is_small = self < f32::MIN_POSITIVE;
        let (m, exponent) = split_normal(if is_small { self * 8_388_608.0 } else { self });
        (m, if is_small { exponent.wrapping_sub(23) } else { exponent } as f32)
    }

    /// One test of the bits finds positive finite numbers.
    #[inline(always)]
    fn log_ends(self, inside: f32) -> f32 {
        let is_inside = self.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1;
        let below = if self < 0.0 { f32::NAN } else { self };
        let end = if self == 0.0 { f32::NEG_INFINITY } else { below };
        if is_inside { inside } else { end }
    }
}

/// The n of `n +` [`ROUND`].
#[inline(always)]
pub fn rounded(shifted: f32) -> i32 {
    shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32
}

/// 2ⁿ for −126 ≤ n ≤ 127.
#[inline(always)]
pub fn pow2(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `x = m·2ᵉ` with √½ ≤ m < √2, for normal positive x.
#[inline(always)]
pub fn split_normal(x: f32) -> (f32, i32) {
    let bits = x.to_bits();
    let exponent = (bits.wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits()) as i32) >> 23;
    (f32::from_bits(bits.wrapping_sub((exponent as u32) << 23)), exponent)
}
