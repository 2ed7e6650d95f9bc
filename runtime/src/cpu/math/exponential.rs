//! eˣ and the functions that follow from it.

use super::super::simd::isa::Isa;
use super::polynomial::{fma, horner};

/// Below the first, [`exp`] is 0; above the second, it is inf.
pub(super) const EXP_LIMITS: [f32; 2] = [-104.0, 89.0];
/// `(eʳ − 1 − r)/r²`, by rising powers of r.
pub(super) const EXP_TAIL: [f32; 5] =
    [0.499_999_94, 0.166_665_2, 0.041_668_35, 0.008_368_809, 0.001_381_737_6];
/// The upper part of ln 2, of few enough bits that its products with exponents are exact.
pub(super) const LN2_HIGH: f32 = 0.693_359_4;
/// The rest of ln 2.
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding 1.5·2²³ rounds to an integer and leaves it in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// eˣ; error below 1.1 ULP, subnormal results included.
#[inline(always)]
pub fn exp<I: Isa>(x: f32) -> f32 {
    // NaN passes both comparisons.
    let [low, high] = EXP_LIMITS;
    let x = if x > high { high } else { x };
    let x = if x < low { low } else { x };
    let (n, r) = split_ln2::<I>(x);
    let tail = horner::<I, _>(r, EXP_TAIL);
    let power = 1.0 + fma::<I>(r * r, tail, r);
    // Two factors, because 2ⁿ alone may be subnormal or infinite.
    let half = n >> 1;
    power * pow2(half) * pow2(n.wrapping_sub(half))
}

/// eˣ − 1; error below 1.6 ULP.
#[inline(always)]
pub fn expm1<I: Isa>(x: f32) -> f32 {
    let clamped = if x > 89.0 { 89.0 } else { x };
    let clamped = if clamped < -18.0 { -18.0 } else { clamped };
    let (n, r) = split_ln2::<I>(clamped);
    let tail =
        horner::<I, _>(r, [0.5, 0.166_666_67, 0.041_666_35, 0.008_333_273, 0.001_394_113_4, 1.991_393_2e-4]);
    let fraction = fma::<I>(r * r, tail, r);
    // 2ⁿ(fraction + 1) − 1 at half scale, because 2ⁿ overflows for the largest finite results.
    let half_scale = pow2(n.wrapping_sub(1));
    let result = 2.0 * fma::<I>(half_scale, fraction, half_scale - 0.5);
    if x == 0.0 { x } else { result }
}

/// tanh x; error below 2.4 ULP.
#[inline(always)]
pub fn tanh<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    // 1 − tanh 10 is far below half an ULP of 1.
    let a = if a > 10.0 { 10.0 } else { a };
    let e = expm1::<I>(2.0 * a);
    (e / (e + 2.0)).copysign(x)
}

/// `x = n·ln 2 + r` with |r| ≤ ½ ln 2.
#[inline(always)]
fn split_ln2<I: Isa>(x: f32) -> (i32, f32) {
    let shifted = fma::<I>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<I>(n, -LN2_LOW, fma::<I>(n, -LN2_HIGH, x));
    (shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32, r)
}

/// 2ⁿ for −126 ≤ n ≤ 127.
#[inline(always)]
pub(super) fn pow2(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}
