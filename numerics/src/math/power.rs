//! Powers, computed in f64.

use super::polynomial::{fma, horner};
use engine_core::op::simd::Isa;

/// xʸ through f64; error below 0.51 ULP. `0⁰ = 1`, NaN for a finite negative base with a fractional exponent.
#[inline(always)]
pub fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    let base = x.abs();
    // Branch-free: the logarithms of 0 and inf are replaced by finite numbers beyond every exponent.
    let inside = log_f64::<I>(base as f64);
    let log = if base == 0.0 { -1.0e300 } else { inside };
    let log = if base == f32::INFINITY { 1.0e300 } else { log };
    let z = if base == 1.0 { 0.0 } else { y as f64 * log };
    let magnitude = exp_f64::<I>(z) as f32;
    let is_integer = y.trunc() == y;
    let is_odd = is_integer & ((y * 0.5).trunc() != y * 0.5);
    let signed = if is_odd { magnitude.copysign(x) } else { magnitude };
    let is_undefined = ((x < 0.0) & (base != f32::INFINITY) & !is_integer) | x.is_nan() | y.is_nan();
    let defined = if is_undefined { f32::NAN } else { signed };
    if (x == 1.0) | (y == 0.0) { 1.0 } else { defined }
}

/// ln x to about 1e-14, for normal positive x.
#[inline(always)]
fn log_f64<I: Isa>(x: f64) -> f64 {
    let bits = x.to_bits();
    let high = (bits >> 32) as u32;
    let exponent = (high.wrapping_sub(0x3fe6_a09e) as i32) >> 20;
    let m = f64::from_bits(bits.wrapping_sub((exponent as i64 as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let series = [
        2.0,
        0.666_666_666_665_513_8,
        0.400_000_000_624_939_4,
        0.285_714_158_985_019_5,
        0.222_234_433_035_452_34,
        0.181_216_506_022_270_7,
        0.168_410_784_371_601_86,
    ];
    fma::<I, _>(exponent as f64, std::f64::consts::LN_2, s * horner::<I, _, _>(s * s, series))
}

/// eˣ to about 1e-12 where f32 can hold the result, and too large or too small for it beyond.
#[inline(always)]
fn exp_f64<I: Isa>(x: f64) -> f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let x = if x > 90.0 { 90.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = fma::<I, _>(n, -std::f64::consts::LN_2, x);
    let series = [
        1.000_000_000_000_026_6,
        0.999_999_999_979_463_9,
        0.499_999_999_990_886_6,
        0.166_666_668_937_232_97,
        0.041_666_667_186_367_29,
        0.008_333_265_562_973_133,
        0.001_388_878_230_479_302_8,
        1.991_616_367_948_264_7e-4,
        2.489_256_321_541_367_4e-5,
    ];
    let exponent = (shifted.to_bits() as u32 as i32).wrapping_add(1023);
    horner::<I, _, _>(r, series) * f64::from_bits((exponent as i64 as u64) << 52)
}
