//! Logarithms.

use super::exponential::{LN2_HIGH, LN2_LOW};
use super::number::{Single, pow2, split_normal};
use super::polynomial::{fma, horner};
use engine_core::op::simd::Isa;

/// `(ln(1 + f) − f + ½f²)/f³`, by rising powers of f.
const LOG_TAIL: [f32; 8] = [
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
pub fn log<I: Isa, V: Single>(x: V) -> V {
    let (m, exponent) = x.split_exponent();
    x.log_ends(log_reduced::<I, V>(m - V::of(1.0), exponent))
}

/// ln(1 + x); error below 1.4 ULP. −inf at −1, NaN below.
#[inline(always)]
pub fn log1p<I: Isa>(x: f32) -> f32 {
    let sum = 1.0 + x;
    let part = sum - 1.0;
    // The exact rounding error of the sum (two-sum).
    let lost = (1.0 - (sum - part)) + (x - part);
    let (m, exponent) = split_normal(sum);
    let down = pow2(0i32.wrapping_sub(if exponent > 126 { 126 } else { exponent }));
    let f = fma::<I, _>(lost, down, m - 1.0);
    let result = sum.log_ends(log_reduced::<I, f32>(f, exponent as f32));
    if x == 0.0 { x } else { result }
}

/// `ln(1 + f) + e·ln 2`.
#[inline(always)]
fn log_reduced<I: Isa, V: Single>(f: V, exponent: V) -> V {
    let square = f * f;
    let low = exponent * V::of(LN2_LOW);
    let cubic = fma::<I, V>(square * f, horner::<I, _, _>(f, LOG_TAIL), low);
    fma::<I, V>(exponent, V::of(LN2_HIGH), f + fma::<I, V>(V::of(-0.5), square, cubic))
}
