//! Branch-free f32 functions that the compiler vectorises when they are inlined into a loop.
//!
//! Reductions are the usual ones (powers of two for exp and log, multiples of π/2 for sine); the coefficients were
//! fitted for this file by reweighted least squares on Chebyshev nodes, towards the least relative error.
//! The stated errors are against the exact value, in units of the last place of the f32 result (ULP); the tests
//! hold them on every instruction set. Handling of ±0, ±inf and NaN is that of IEEE 754 and C99.

use super::isa::Isa;

/// Largest |x| for which [`sin`] and [`cos`] hold their stated error; beyond it, use the library's.
pub const TRIG_LIMIT: f32 = 1.0e6;

/// Beyond these [`exp`] is 0 or inf.
pub(super) const EXP_LIMITS: [f32; 2] = [-104.0, 89.0];
/// `(eʳ − 1 − r)/r²`, by rising powers of r.
pub(super) const EXP_TAIL: [f32; 5] =
    [0.499_999_94, 0.166_665_2, 0.041_668_35, 0.008_368_809, 0.001_381_737_6];
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
/// The upper part of ln 2, of few enough bits that its products with exponents are exact.
pub(super) const LN2_HIGH: f32 = 0.693_359_4;
/// The rest of ln 2.
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding 1.5·2²³ rounds to an integer and leaves it in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// `a·b + c`, in one rounding where the instruction set has it and in two elsewhere.
#[inline(always)]
pub fn fma<I: Isa>(a: f32, b: f32, c: f32) -> f32 {
    if I::FMA { a.mul_add(b, c) } else { a * b + c }
}

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
    // In two steps, as 2ⁿ alone may be subnormal or infinite.
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
    // 2ⁿ(fraction + 1) − 1 at half scale, as 2ⁿ overflows for the largest finite results.
    let half_scale = pow2(n.wrapping_sub(1));
    let result = 2.0 * fma::<I>(half_scale, fraction, half_scale - 0.5);
    if x == 0.0 { x } else { result }
}

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
    // What the rounding of the sum lost, exactly (two-sum).
    let lost = (1.0 - (sum - part)) + (x - part);
    let (m, exponent) = split_exponent(sum);
    let down = pow2(0i32.wrapping_sub(if exponent > 126 { 126 } else { exponent }));
    let result = log_ends(sum, log_reduced::<I>(fma::<I>(lost, down, m - 1.0), exponent as f32));
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

/// The error function; error below 6 ULP.
#[inline(always)]
pub fn erf<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    // 1 − erf 3.95 is below half an ULP of 1.
    let a = if a > 3.95 { 3.95 } else { a };
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
    let ratio = a * horner::<I, _>(s, above) / horner::<I, _>(s, below);
    let ratio = if ratio > 1.0 { 1.0 } else { ratio };
    ratio.copysign(x)
}

/// sin x for |x| ≤ [`TRIG_LIMIT`]; error below 1.5 ULP.
#[inline(always)]
pub fn sin<I: Isa>(x: f32) -> f32 {
    let (quadrant, r) = split_quarter_turns(x);
    let result = quarter_wave::<I>(quadrant, r);
    // The reduction's additions would lose the sign of −0.
    if x == 0.0 { x } else { result }
}

/// cos x for |x| ≤ [`TRIG_LIMIT`]; error below 1.5 ULP.
#[inline(always)]
pub fn cos<I: Isa>(x: f32) -> f32 {
    let (quadrant, r) = split_quarter_turns(x);
    quarter_wave::<I>(quadrant.wrapping_add(1), r)
}

/// xʸ through f64; error below 0.51 ULP. `0⁰ = 1`, NaN for a finite negative base with a fractional exponent.
#[inline(always)]
pub fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    let base = x.abs();
    // Computed for every base, without branches: 0 and inf take the ends that stand for their logarithms.
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

/// Whether [`quotient`] is exact for divisors such as `v`: its reciprocal is far from the ends of the type, and its
/// mantissa is not all ones.
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
/// functions on the IBM RISC System/6000 processor", 1990): the remainder of the first guess is exact, and one step
/// with it ends on the right float.
#[inline(always)]
pub fn quotient<I: Isa>(u: f32, v: f32, reciprocal: f32) -> f32 {
    let guess = u * reciprocal;
    let remainder = fma::<I>(-guess, v, u);
    fma::<I>(remainder, reciprocal, guess)
}

/// The larger one; NaN if either is.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller one; NaN if either is.
#[inline(always)]
pub fn min(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// The float of the uniform distribution on (0, 1) that stands for 32 random bits: `(k + ½)·2⁻²³`, k the top 23.
#[inline(always)]
pub fn uniform(bits: u32) -> f32 {
    ((bits >> 9) as i32 as f32 + 0.5) * (1.0 / 8_388_608.0)
}

/// `c₀ + c₁x + c₂x² + …`
#[inline(always)]
fn horner<I: Isa, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = fma::<I>(sum, x, coefficients[i]);
    }
    sum
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
fn pow2(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
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

/// The logarithm at the ends of its domain. One test of the bits tells what is positive and finite.
#[inline(always)]
fn log_ends(x: f32, inside: f32) -> f32 {
    let is_inside = x.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1;
    let below = if x < 0.0 { f32::NAN } else { x };
    let end = if x == 0.0 { f32::NEG_INFINITY } else { below };
    if is_inside { inside } else { end }
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
    let sine = fma::<I>(s * r, horner::<I, _>(s, [-0.166_666_55, 0.008_332_183, -1.951_779e-4]), r);
    let cosine_tail =
        fma::<I>(s * s, horner::<I, _>(s, [0.041_666_646, -0.001_388_731_6, 2.443_323_2e-5]), -0.5 * s);
    let wave = if quadrant & 1 == 0 { sine } else { 1.0 + cosine_tail };
    f32::from_bits(wave.to_bits() ^ ((quadrant & 2) << 30))
}

#[inline(always)]
fn fma_f64<I: Isa>(a: f64, b: f64, c: f64) -> f64 {
    if I::FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn horner_f64<I: Isa, const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = fma_f64::<I>(sum, x, coefficients[i]);
    }
    sum
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
    fma_f64::<I>(exponent as f64, std::f64::consts::LN_2, s * horner_f64::<I, _>(s * s, series))
}

/// eˣ to about 1e-12 where f32 can hold the result, and too large or too small for it beyond.
#[inline(always)]
fn exp_f64<I: Isa>(x: f64) -> f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let x = if x > 90.0 { 90.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = fma_f64::<I>(n, -std::f64::consts::LN_2, x);
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
    horner_f64::<I, _>(r, series) * f64::from_bits((exponent as i64 as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::super::isa::{Baseline, Kernel, Level, dispatch_on};
    use super::super::prefetch::CHUNK;
    use super::*;

    /// Every function next to its f64 reference, the error it states, and the ends of its arguments.
    macro_rules! bounds {
        ($($test:ident: $function:ident, $reference:expr, below $limit:literal;)*) => { $(
            #[test]
            fn $test() {
                struct Values<'a>(&'a [f32], &'a mut [f32]);
                impl Kernel for Values<'_> {
                    type Output = ();
                    #[inline(always)]
                    fn run<I: Isa>(self) {
                        for (out, &x) in self.1.iter_mut().zip(self.0) {
                            *out = $function::<I>(x);
                        }
                    }
                }
                let inputs = dense_sample();
                let mut outputs = vec![0.0; inputs.len()];
                for level in Level::available() {
                    dispatch_on(level, Values(&inputs, &mut outputs));
                    check(&inputs, &outputs, $reference, $limit, &format!("{} on {level:?}", stringify!($function)));
                }
            }
        )* };
    }

    bounds! {
        exp_is_within_its_error: exp, f64::exp, below 1.1;
        expm1_is_within_its_error: expm1, f64::exp_m1, below 1.6;
        log_is_within_its_error: log, f64::ln, below 0.9;
        log1p_is_within_its_error: log1p, f64::ln_1p, below 1.4;
        tanh_is_within_its_error: tanh, f64::tanh, below 2.4;
        erf_is_within_its_error: erf, libm::erf, below 6.0;
        sin_is_within_its_error: sin_within_limit, f64::sin, below 1.5;
        cos_is_within_its_error: cos_within_limit, f64::cos, below 1.5;
        rsqrt_is_within_its_error: rsqrt_anywhere, |x: f64| 1.0 / x.sqrt(), below 1.5;
    }

    /// On AVX-512 these two go through [`super::super::avx512_math`].
    #[test]
    fn whole_chunks_of_exp_and_log_are_within_their_error() {
        struct Chunks<'a>(&'a mut [f32], bool);
        impl Kernel for Chunks<'_> {
            type Output = ();
            #[inline(always)]
            fn run<I: Isa>(self) {
                for chunk in self.0.as_chunks_mut().0 {
                    if self.1 { I::exp(chunk) } else { I::log(chunk) }
                }
            }
        }
        let mut inputs = dense_sample();
        inputs.resize(inputs.len().next_multiple_of(CHUNK), 1.0);
        for level in Level::available() {
            let of = |is_exp| {
                let mut outputs = inputs.clone();
                dispatch_on(level, Chunks(&mut outputs, is_exp));
                outputs
            };
            check(&inputs, &of(true), f64::exp, 1.1, &format!("chunks of exp on {level:?}"));
            check(&inputs, &of(false), f64::ln, 0.9, &format!("chunks of log on {level:?}"));
        }
    }

    #[inline(always)]
    fn sin_within_limit<I: Isa>(x: f32) -> f32 {
        if x.abs() > TRIG_LIMIT { x.sin() } else { sin::<I>(x) }
    }

    #[inline(always)]
    fn cos_within_limit<I: Isa>(x: f32) -> f32 {
        if x.abs() > TRIG_LIMIT { x.cos() } else { cos::<I>(x) }
    }

    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // One shape for every function in the table.
    fn rsqrt_anywhere<I: Isa>(x: f32) -> f32 {
        rsqrt(x)
    }

    /// Every 1013th bit pattern (all magnitudes, subnormals and NaNs of both signs), a linear grid where functions
    /// bend, and the ends.
    fn dense_sample() -> Vec<f32> {
        let patterns = (0..=u32::MAX).step_by(1013).map(f32::from_bits);
        let grid = (-400_000..=400_000).map(|i| i as f32 * 2.6e-4);
        let powers = (-149..=127).flat_map(|e| [2f64.powi(e) as f32, -(2f64.powi(e) as f32)]);
        let ends = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN];
        let around =
            [88.722_84, 88.722_85, -87.336_55, -103.972_08, -103.278_93, 1.0, -1.0, 1.0e6, 1.000_000_1e6];
        let quarters = (1..200_000).map(|n| (n as f64 * std::f64::consts::FRAC_PI_2) as f32);
        patterns.chain(grid).chain(powers).chain(ends).chain(around).chain(quarters).collect()
    }

    fn check(inputs: &[f32], outputs: &[f32], reference: impl Fn(f64) -> f64, limit: f64, what: &str) {
        let mut worst = (0.0, 0.0);
        for (&x, &got) in inputs.iter().zip(outputs) {
            let exact = reference(x as f64);
            let error = error_ulp(got, exact);
            assert!(error.is_finite(), "{what}: {x:e} gives {got:e} for {exact:e}");
            assert!(
                got != 0.0 || exact.abs() > 0.0 || got.is_sign_negative() == exact.is_sign_negative(),
                "{what}: sign of {x}"
            );
            if error > worst.0 {
                worst = (error, x);
            }
        }
        println!("{what}: {:.3} ULP at {:e}", worst.0, worst.1);
        assert!(worst.0 < limit, "{what}: {:.3} ULP at {:e}", worst.0, worst.1);
    }

    /// Infinite where one side alone is NaN or infinite beyond rounding.
    fn error_ulp(got: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if rounded.is_nan() || got.is_nan() {
            return if rounded.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
        }
        if rounded.is_infinite() || got.is_infinite() {
            let near_end = exact.abs() > f32::MAX as f64 * (1.0 - 1e-7) && got.abs() >= f32::MAX;
            return if got == rounded {
                0.0
            } else if near_end {
                1.0
            } else {
                f64::INFINITY
            };
        }
        let exponent = (rounded.abs().to_bits() >> 23).max(1) as i32 - 150;
        (got as f64 - exact).abs() / 2f64.powi(exponent)
    }

    #[test]
    fn pow_is_nearly_correctly_rounded_and_keeps_the_conventions_of_c99() {
        let bases: Vec<f32> = dense_sample().into_iter().step_by(3001).chain(special_values()).collect();
        let exponents: Vec<f32> = (-40..40).map(|i| i as f32 * 0.37).chain(special_values()).collect();
        for &x in &bases {
            for &y in &exponents {
                let (got, exact) = (pow::<Baseline>(x, y), (x as f64).powf(y as f64));
                assert!(error_ulp(got, exact) < 0.51, "{x:e} to the {y:e}: {got:e} for {exact:e}");
                assert!(
                    got.is_nan() || got.is_sign_negative() == exact.is_sign_negative(),
                    "sign of {x:e} to the {y:e}"
                );
            }
        }
    }

    fn special_values() -> Vec<f32> {
        let positive =
            [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 1e-40, 7.0e-46, 16_777_215.0, 16_777_216.0, 3e38, f32::INFINITY];
        positive.iter().flat_map(|&v| [v, -v]).chain([f32::NAN]).collect()
    }

    #[test]
    fn uniform_numbers_stay_strictly_between_zero_and_one() {
        assert_eq!(uniform(0), 0.5f32.powi(24));
        assert_eq!(uniform(u32::MAX), 1.0 - 0.5f32.powi(24));
        assert_eq!(uniform(1 << 31), 0.5 + 0.5f32.powi(24));
    }
}
