//! The error function, sine and cosine.

use super::number::Single;
use super::polynomial::{fma, horner};
use engine_core::op::simd::Isa;

/// The largest |x| for which [`sin`] and [`cos`] hold their stated error; beyond it, use the library.
pub const TRIG_LIMIT: f32 = 1.0e6;

/// The error function; error below 6 ULP.
#[inline(always)]
pub fn erf<I: Isa>(x: f32) -> f32 {
    // 1 − erf 3.95 is below half an ULP of 1.
    let a = x.abs().at_most(3.95);
    let s = a * a;
    let above = [
        std::f32::consts::FRAC_2_SQRT_PI,
        0.185_168_61,
        0.054_274_866,
        0.003_843_372,
        3.779_432_7e-4,
        4.640_619e-6,
        -1.296_798_7e-8,
    ];
    let below = [1.0, 0.497_434_82, 0.113_910_96, 0.015_443_745, 0.001_304_071_4, 6.269_424e-5];
    let ratio = a * horner::<I, _, _>(s, above) / horner::<I, _, _>(s, below);
    ratio.at_most(1.0).copysign(x)
}

/// sin x for |x| ≤ [`TRIG_LIMIT`]; error below 1.5 ULP.
#[inline(always)]
pub fn sin<I: Isa>(x: f32) -> f32 {
    let (quadrant, r) = split_quarter_turns(x);
    let result = quarter_wave::<I>(quadrant, r);
    // The additions of the range reduction lose the sign of −0.
    if x == 0.0 { x } else { result }
}

/// cos x for |x| ≤ [`TRIG_LIMIT`]; error below 1.5 ULP.
#[inline(always)]
pub fn cos<I: Isa>(x: f32) -> f32 {
    let (quadrant, r) = split_quarter_turns(x);
    quarter_wave::<I>(quadrant.wrapping_add(1), r)
}

/// `x = n·π/2 + r`: the low bits of n, and r; reduced in f64, so that even the closest f32 to a multiple is exact.
#[inline(always)]
fn split_quarter_turns(x: f32) -> (u32, f32) {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // 33 bits of π/2: times an n of 20 bits it is exact.
    const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
    const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;
    let x = x as f64;
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    ((shifted.to_bits() as u32), ((x - n * HALF_PI_HIGH) - n * HALF_PI_LOW) as f32)
}

/// sin(r + quadrant·π/2) for |r| ≤ π/4.
#[inline(always)]
fn quarter_wave<I: Isa>(quadrant: u32, r: f32) -> f32 {
    let s = r * r;
    let sine_tail = horner::<I, _, _>(s, [-0.166_666_55, 0.008_332_183, -1.951_779e-4]);
    let sine = fma::<I, _>(s * r, sine_tail, r);
    let cosine_tail = horner::<I, _, _>(s, [0.041_666_646, -0.001_388_731_6, 2.443_323_2e-5]);
    let cosine_tail = fma::<I, _>(s * s, cosine_tail, -0.5 * s);
    let wave = if quadrant & 1 == 0 { sine } else { 1.0 + cosine_tail };
    f32::from_bits(wave.to_bits() ^ ((quadrant & 2) << 30))
}
