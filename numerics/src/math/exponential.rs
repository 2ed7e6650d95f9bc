//! eˣ and the functions that follow from it.

use super::number::{ROUND, Single, pow2, rounded};
use super::polynomial::{fma, horner};
use engine_core::op::simd::Isa;

/// Below the first, [`exp`] is 0; above the second, it is inf.
pub(super) const EXP_LIMITS: [f32; 2] = [-104.0, 89.0];
/// `(eʳ − 1 − r)/r²`, by rising powers of r.
const EXP_TAIL: [f32; 5] = [0.499_999_94, 0.166_665_2, 0.041_668_35, 0.008_368_809, 0.001_381_737_6];
/// The upper part of ln 2, of few enough bits that its products with exponents are exact.
pub(super) const LN2_HIGH: f32 = 0.693_359_4;
/// The rest of ln 2.
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;

/// eˣ; error below 1.1 ULP, subnormal results included.
#[inline(always)]
pub fn exp<I: Isa, V: Single>(x: V) -> V {
    let (shifted, r) = split_ln2::<I, V>(x.at_most(EXP_LIMITS[1]).at_least(EXP_LIMITS[0]));
    let tail = horner::<I, _, _>(r, EXP_TAIL);
    (V::of(1.0) + fma::<I, _>(r * r, tail, r)).scaled(shifted)
}

/// eˣ − 1; error below 1.6 ULP.
#[inline(always)]
pub fn expm1<I: Isa>(x: f32) -> f32 {
    let (shifted, r) = split_ln2::<I, f32>(x.at_most(89.0).at_least(-18.0));
    let series = [0.5, 0.166_666_67, 0.041_666_35, 0.008_333_273, 0.001_394_113_4, 1.991_393_2e-4];
    let fraction = fma::<I, _>(r * r, horner::<I, _, _>(r, series), r);
    // 2ⁿ(fraction + 1) − 1 at half scale, because 2ⁿ overflows for the largest finite results.
    let half_scale = pow2(rounded(shifted).wrapping_sub(1));
    let result = 2.0 * fma::<I, _>(half_scale, fraction, half_scale - 0.5);
    if x == 0.0 { x } else { result }
}

/// tanh x; error below 2.4 ULP.
#[inline(always)]
pub fn tanh<I: Isa>(x: f32) -> f32 {
    // 1 − tanh 10 is far below half an ULP of 1.
    let e = expm1::<I>(2.0 * x.abs().at_most(10.0));
    (e / (e + 2.0)).copysign(x)
}

/// `x = n·ln 2 + r` with |r| ≤ ½ ln 2: `n +` [`ROUND`], and r.
#[inline(always)]
fn split_ln2<I: Isa, V: Single>(x: V) -> (V, V) {
    let shifted = fma::<I, V>(x, V::of(std::f32::consts::LOG2_E), V::of(ROUND));
    let n = shifted - V::of(ROUND);
    let r = fma::<I, V>(n, V::of(-LN2_LOW), fma::<I, V>(n, V::of(-LN2_HIGH), x));
    (shifted, r)
}
