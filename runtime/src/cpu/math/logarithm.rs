//! Logarithms.

use super::super::simd::isa::Isa;
use super::exponential::{LN2_HIGH, LN2_LOW, pow2};
use super::polynomial::{fma, horner};

/// `(ln(1 + f) − f + ½f²)/f³`, by rising powers of f.
pub(super) const LOG_TAIL: [f32; 8] = [
    0.333_333_17,
    -0.250_008_1,
    0.200_022_74,
    -0.166_245_28,
    0.141_814_13,
    -0.131_290_97,
    0.128_805_41,
    -0.078_578_52,
];

/// ln x; error below 0.9 ULP. ln 0 = −inf, NaN below 0.
#[inline(always)]
pub fn log<I: Isa>(x: f32) -> f32 {
    let is_small = x < f32::MIN_POSITIVE;
    let (m, exponent) = split_exponent(if is_small { x * 8_388_608.0 } else { x });
    let exponent = if is_small { exponent.wrapping_sub(23) } else { exponent };
    log_ends(x, log_reduced::<I>(m - 1.0, exponent as f32))
}

/// ln(1 + x); error below 1.4 ULP. −inf at −1, NaN below.
#[inline(always)]
pub fn log1p<I: Isa>(x: f32) -> f32 {
    let sum = 1.0 + x;
    let part = sum - 1.0;
    // The exact rounding error of the sum (two-sum).
    let lost = (1.0 - (sum - part)) + (x - part);
    let (m, exponent) = split_exponent(sum);
    let down = pow2(0i32.wrapping_sub(if exponent > 126 { 126 } else { exponent }));
    let result = log_ends(sum, log_reduced::<I>(fma::<I>(lost, down, m - 1.0), exponent as f32));
    if x == 0.0 { x } else { result }
}

/// `x = m·2ᵉ` with √½ ≤ m < √2, for normal positive x.
#[inline(always)]
fn split_exponent(x: f32) -> (f32, i32) {
    let bits = x.to_bits();
    let exponent = (bits.wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits()) as i32) >> 23;
    (f32::from_bits(bits.wrapping_sub((exponent as u32) << 23)), exponent)
}

/// `ln(1 + f) + e·ln 2`.
#[inline(always)]
fn log_reduced<I: Isa>(f: f32, exponent: f32) -> f32 {
    let square = f * f;
    let cubic = fma::<I>(square * f, horner::<I, _>(f, LOG_TAIL), exponent * LN2_LOW);
    fma::<I>(exponent, LN2_HIGH, f + fma::<I>(-0.5, square, cubic))
}

/// The logarithm with the ends of its domain. One test of the bits finds positive finite arguments.
#[inline(always)]
fn log_ends(x: f32, inside: f32) -> f32 {
    let is_inside = x.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1;
    let below = if x < 0.0 { f32::NAN } else { x };
    let end = if x == 0.0 { f32::NEG_INFINITY } else { below };
    if is_inside { inside } else { end }
}
