//! Sign, extremes, reciprocals and exact quotients.

use super::polynomial::fma;
use engine_core::op::simd::Isa;

/// `1/√x` in two roundings; error below 1.5 ULP.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// −1, 1, or x itself where it is ±0 or NaN.
#[inline(always)]
pub fn sign(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

/// Whether [`quotient`] is exact for the divisor `v`: its reciprocal is far from the ends of the type, and its mantissa
/// is not all ones.
#[inline(always)]
pub fn has_plain_reciprocal(v: f32) -> bool {
    let size = v.abs();
    (5.960_464_5e-8..=16_777_216.0).contains(&size) && v.to_bits() & 0x7F_FFFF != 0x7F_FFFF
}

/// Whether [`quotient`] is exact for `u`: positive zero, or of a size between 2⁻¹⁰⁰ and 2¹⁰⁰.
#[inline(always)]
pub fn is_plain_dividend(u: f32) -> bool {
    const LOW: u32 = (127 - 100) << 23;
    const HIGH: u32 = (127 + 100) << 23;
    let bits = u.to_bits();
    ((bits & 0x7FFF_FFFF).wrapping_sub(LOW) < HIGH - LOW) | (bits == 0)
}

/// `u / v`, correctly rounded, from the correctly rounded `reciprocal` of v (Markstein, "Computation of elementary
/// functions on the IBM RISC System/6000 processor", 1990). The remainder of the first guess is exact, so one step of
/// refinement yields the right float.
#[inline(always)]
pub fn quotient<I: Isa>(u: f32, v: f32, reciprocal: f32) -> f32 {
    let guess = u * reciprocal;
    let remainder = fma::<I, _>(-guess, v, u);
    fma::<I, _>(remainder, reciprocal, guess)
}

/// The larger; NaN if either is NaN.
#[inline(always)]
pub fn larger<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if a > b || is_nan(a) { a } else { b }
}

/// The smaller; NaN if either is NaN.
#[inline(always)]
pub fn smaller<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if a < b || is_nan(a) { a } else { b }
}

/// Whether a value differs from itself; false for every integer.
#[inline(always)]
#[allow(clippy::eq_op)]
pub fn is_nan<T: PartialOrd + Copy>(value: T) -> bool {
    value != value
}
