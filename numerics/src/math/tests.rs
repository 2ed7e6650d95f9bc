//! The functions against f64, within the errors that they state.

use super::arithmetic::rsqrt;
use super::chunks;
use super::exponential::{self, EXP_LIMITS, expm1, tanh};
use super::logarithm::{self, log1p};
use super::power::pow;
use super::special::{TRIG_LIMIT, cos, erf, sin};
use crate::simd::prefetch::CHUNK;
use engine_core::op::simd::{Baseline, Isa, Kernel, Level, dispatch_on};

/// A test for each function: its name, its f64 reference and its stated error.
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

/// exp or log of whole chunks; on AVX-512, of vectors.
struct Chunks<'a>(&'a mut [f32], bool);
impl Kernel for Chunks<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for chunk in self.0.as_chunks_mut().0 {
            if self.1 { chunks::exp::<I>(chunk) } else { chunks::log::<I>(chunk) }
        }
    }
}

/// [`Chunks`] of some inputs.
fn in_chunks(level: Level, inputs: &[f32], is_exp: bool) -> Vec<f32> {
    let mut outputs = inputs.to_vec();
    outputs.resize(inputs.len().next_multiple_of(CHUNK), 1.0);
    dispatch_on(level, Chunks(&mut outputs, is_exp));
    outputs.truncate(inputs.len());
    outputs
}

#[test]
fn whole_chunks_of_exp_and_log_are_within_their_error() {
    let inputs = dense_sample();
    for level in Level::available() {
        let of = |is_exp| in_chunks(level, &inputs, is_exp);
        check(&inputs, &of(true), f64::exp, 1.1, &format!("chunks of exp on {level:?}"));
        check(&inputs, &of(false), f64::ln, 0.9, &format!("chunks of log on {level:?}"));
    }
}

#[test]
fn whole_chunks_have_the_bits_of_single_floats() {
    struct Single<'a>(&'a mut [f32], bool);
    impl Kernel for Single<'_> {
        type Output = ();
        #[inline(always)]
        fn run<I: Isa>(self) {
            for value in self.0 {
                *value = if self.1 { exp::<I>(*value) } else { log::<I>(*value) };
            }
        }
    }
    let inputs = ends_of_mantissas();
    for (level, is_exp) in Level::available().flat_map(|level| [(level, true), (level, false)]) {
        let mut expected = inputs.clone();
        dispatch_on(level, Single(&mut expected, is_exp));
        for ((x, found), expected) in inputs.iter().zip(in_chunks(level, &inputs, is_exp)).zip(expected) {
            let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            let name = if is_exp { "exp" } else { "log" };
            assert!(is_same, "{name} {x:e} ({:#x}): {found:e}, not {expected:e}", x.to_bits());
        }
    }
}

#[inline(always)]
fn exp<I: Isa>(x: f32) -> f32 {
    exponential::exp::<I, f32>(x)
}

#[inline(always)]
fn log<I: Isa>(x: f32) -> f32 {
    logarithm::log::<I, f32>(x)
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

/// Every 1013th bit pattern (all magnitudes, subnormals and NaNs of both signs), a linear grid around 0, and the ends
/// of the type.
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

/// Every 257th float (32,000 for each exponent and sign), the ends of the mantissas of each exponent, and the
/// neighbours of the limits.
fn ends_of_mantissas() -> Vec<f32> {
    let patterns = (0..=u32::MAX).step_by(257);
    let ends = (0..512u32).flat_map(|head| {
        let nearby = (0..64).chain((1 << 22) - 64..(1 << 22) + 64).chain((1 << 23) - 64..1 << 23);
        nearby.map(move |tail| head << 23 | tail)
    });
    let limits = [
        EXP_LIMITS[0],
        EXP_LIMITS[1],
        std::f32::consts::FRAC_1_SQRT_2,
        2.0 * std::f32::consts::FRAC_1_SQRT_2,
        88.722_84,
        -87.336_55,
    ];
    let around = limits.into_iter().flat_map(|limit| {
        let bits: u32 = limit.to_bits();
        bits - 1000..bits + 1000
    });
    patterns.chain(ends).chain(around).map(f32::from_bits).collect()
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

/// The error in ULP; infinite if only one of both is NaN, or infinite beyond rounding.
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

/// Asserts that functions keep their results to the bit, by a hash of the results at all sampled arguments: with fused
/// multiply-add, and without.
macro_rules! recorded {
    ($($name:ident: |$x:ident| $value:expr, fused $fused:literal, unfused $unfused:literal;)*) => {
        #[test]
        fn results_have_their_recorded_bits() {
            let inputs = dense_sample();
            $({
                struct Values<'a>(&'a [f32]);
                impl Kernel for Values<'_> {
                    type Output = (u64, bool);
                    #[inline(always)]
                    fn run<I: Isa>(self) -> (u64, bool) {
                        let mut outputs = vec![0.0; self.0.len()];
                        for (out, &$x) in outputs.iter_mut().zip(self.0) {
                            *out = $value;
                        }
                        (hash(&outputs), I::FMA)
                    }
                }
                for level in Level::available() {
                    let (found, is_fused) = dispatch_on(level, Values(&inputs));
                    let expected: u64 = if is_fused { $fused } else { $unfused };
                    assert_eq!(found, expected, "{} on {level:?}: {found:#x}", stringify!($name));
                }
            })*
        }
    };
}

recorded! {
    exp: |x| exp::<I>(x), fused 0xe5bb_84dd_6efa_24d4,
        unfused 0xf314_8b09_695d_51d8;
    expm1: |x| expm1::<I>(x), fused 0x727c_537b_18d6_6174,
        unfused 0x5374_37cf_be6a_5cdc;
    tanh: |x| tanh::<I>(x), fused 0x9e9d_9496_43f3_3ab0,
        unfused 0x6e15_de53_631b_c60e;
    log: |x| log::<I>(x), fused 0xb7ed_c3fd_e03a_87c3,
        unfused 0x5c87_3af8_f8ec_5012;
    log1p: |x| log1p::<I>(x), fused 0x3632_f010_2e2e_f149,
        unfused 0x3339_0aaa_a0e5_da7e;
    erf: |x| erf::<I>(x), fused 0xe572_9371_cc44_5ec0,
        unfused 0xeca2_2208_c286_c131;
    sin: |x| if x.abs() > TRIG_LIMIT { 0.0 } else { sin::<I>(x) }, fused 0x51d0_f2bc_a2fd_386f,
        unfused 0x1d37_3992_426a_4be6;
    cos: |x| if x.abs() > TRIG_LIMIT { 0.0 } else { cos::<I>(x) }, fused 0x89a7_9a6c_2a77_7b78,
        unfused 0x6621_ae64_6c2c_d979;
    pow: |x| pow::<I>(x, 0.37) + pow::<I>(-2.5, x), fused 0x2172_3cb3_9c45_6ff0,
        unfused 0x2172_3cb3_9c45_6ff0;
}

/// FNV-1a over the bits of values; the same for every NaN.
fn hash(values: &[f32]) -> u64 {
    let bits = values.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() });
    bits.fold(0xcbf2_9ce4_8422_2325, |hash, bits| (hash ^ bits as u64).wrapping_mul(0x100_0000_01b3))
}
