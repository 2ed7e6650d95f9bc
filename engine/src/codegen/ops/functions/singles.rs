//! Functions of `f32` from sums and products, for languages whose own are inexact. WGSL promises an error of 3 +
//! 2|x| ULP for exp, and 2⁻¹¹ for sine. [`super::doubles`] has the functions of `f64`.
//!
//! Argument reductions are the usual ones: powers of two for exp and log, multiples of π/2 for sine. The
//! coefficients were fitted by reweighted least squares on Chebyshev nodes for the least relative error. The
//! stated errors hold where a device fuses products and sums; elsewhere they are up to one ULP larger.

use crate::codegen::ir::builder::{Code, F32, I32, U32};
use crate::codegen::ops::functions::large_angles;
use crate::codegen::ops::functions::parts::{log_ends, quarter_wave};
use crate::ir::Unary;
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, Variable};

/// A function of `f32`.
pub fn unary(code: &mut Code, op: Unary, x: Variable) -> Variable {
    match op {
        Unary::Exp => exp(code, x),
        Unary::Expm1 => expm1(code, x),
        Unary::Log => log(code, x),
        Unary::Log1p => log1p(code, x),
        Unary::Sin => sine(code, x, 0),
        Unary::Cos => sine(code, x, 1),
        Unary::Tanh => tanh(code, x),
        Unary::Erf => erf(code, x),
        _ => crate::bug!("`{}` is no function of this module", op.name()),
    }
}

/// ln 2 as a sum of two parts; products of the first with exponents are exact.
const LN2: [f64; 2] = [0.693_359_375, -2.121_944_400_546_905_8e-4];

/// `x = n·ln 2 + r` with |r| ≤ ½ ln 2; n as an integer.
fn split_ln2(code: &mut Code, x: Variable) -> (Variable, Variable) {
    let scale = code.f(std::f64::consts::LOG2_E);
    let n = code.times(x, scale);
    let n = code.un(Arithmetic::Round, n);
    let [high, low] = LN2.map(|part| code.f(-part));
    let whole = code.cast(I32, n);
    // A compiler that saw that this equals n would merge both products into a single, less exact one.
    let again = code.cast(F32, whole);
    let r = code.fma(n, high, x);
    (whole, code.fma(again, low, r))
}

/// eˣ; error below 1.1 ULP.
fn exp(code: &mut Code, x: Variable) -> Variable {
    let is_nan = code.is_nan(x);
    let zero = code.f(0.0);
    let inside = code.select(is_nan, zero, x);
    let inside = code.at_most(inside, 89.0);
    let inside = code.at_least(inside, -104.0);
    let (n, r) = split_ln2(code, inside);
    let tail = code.horner(r, [0.499_999_94, 0.166_665_2, 0.041_668_35, 0.008_368_809, 0.001_381_737_6]);
    let square = code.times(r, r);
    let fraction = code.fma(square, tail, r);
    let one = code.f(1.0);
    let power = code.plus(one, fraction);
    // 2ⁿ alone may be subnormal or infinite, so the product takes two factors.
    let shift = code.int(U32, 1);
    let half = code.bit(Bitwise::ShiftRight, n, shift);
    let rest = code.bin(Arithmetic::Sub, n, half);
    let [first, second] = [half, rest].map(|n| code.power_of_two(n));
    let value = code.times(power, first);
    let value = code.times(value, second);
    code.select(is_nan, x, value)
}

/// eˣ − 1; error below 1.6 ULP.
fn expm1(code: &mut Code, x: Variable) -> Variable {
    let is_nan = code.is_nan(x);
    let zero = code.f(0.0);
    let inside = code.select(is_nan, zero, x);
    let inside = code.at_most(inside, 89.0);
    let inside = code.at_least(inside, -18.0);
    let (n, r) = split_ln2(code, inside);
    let tail =
        code.horner(r, [0.5, 0.166_666_67, 0.041_666_35, 0.008_333_273, 0.001_394_113_4, 1.991_393_2e-4]);
    let square = code.times(r, r);
    let fraction = code.fma(square, tail, r);
    // 2ⁿ(fraction + 1) − 1 at half scale, as 2ⁿ overflows for the largest finite results.
    let one = code.int(I32, 1);
    let n = code.bin(Arithmetic::Sub, n, one);
    let scale = code.power_of_two(n);
    let [half, two] = [0.5, 2.0].map(|value| code.f(value));
    let rest = code.minus(scale, half);
    let value = code.fma(scale, fraction, rest);
    let value = code.times(two, value);
    let is_zero = code.is_equal(x, 0.0);
    let is_itself = code.or(is_zero, is_nan);
    code.select(is_itself, x, value)
}

/// `x = m·2ᵉ` with √½ ≤ m < √2, for normal positive x.
fn split_exponent(code: &mut Code, x: Variable) -> (Variable, Variable) {
    let bits = code.reinterpret(I32, x);
    let root = code.int(I32, i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()));
    let above = code.bin(Arithmetic::Sub, bits, root);
    let shift = code.int(U32, 23);
    let exponent = code.bit(Bitwise::ShiftRight, above, shift);
    let scaled = code.bit(Bitwise::ShiftLeft, exponent, shift);
    let mantissa = code.bin(Arithmetic::Sub, bits, scaled);
    (code.reinterpret(F32, mantissa), exponent)
}

/// `ln(1 + f) + e·ln 2`.
fn log_reduced(code: &mut Code, f: Variable, exponent: Variable) -> Variable {
    let exponent = code.cast(F32, exponent);
    let tail = code.horner(
        f,
        [
            0.333_333_17,
            -0.250_008_1,
            0.200_022_74,
            -0.166_245_28,
            0.141_814_13,
            -0.131_290_97,
            0.128_805_41,
            -0.078_578_52,
        ],
    );
    let square = code.times(f, f);
    let cube = code.times(square, f);
    let [high, low] = LN2.map(|part| code.f(part));
    let small = code.times(exponent, low);
    let cubic = code.fma(cube, tail, small);
    let minus_half = code.f(-0.5);
    let rest = code.fma(minus_half, square, cubic);
    let sum = code.plus(f, rest);
    code.fma(exponent, high, sum)
}

/// ln x; error below 0.9 ULP. ln 0 = −∞, NaN below 0.
fn log(code: &mut Code, x: Variable) -> Variable {
    let [least, scale] = [f64::from(f32::MIN_POSITIVE), 8_388_608.0].map(|value| code.f(value));
    let is_small = code.less(x, least);
    let scaled = code.times(x, scale);
    let normal = code.select(is_small, scaled, x);
    let (m, exponent) = split_exponent(code, normal);
    let [none, down] = [0, 23].map(|n| code.int(I32, n));
    let down = code.select(is_small, down, none);
    let exponent = code.bin(Arithmetic::Sub, exponent, down);
    let one = code.f(1.0);
    let f = code.minus(m, one);
    let value = log_reduced(code, f, exponent);
    log_ends(code, x, value)
}

/// ln(1 + x) with an error below 1.4 ULP: `ln u·x/(u − 1)`, where `u` is `1 + x` rounded. (W. Kahan; D. Goldberg,
/// "What every computer scientist should know about floating-point arithmetic", 1991, theorem 4)
fn log1p(code: &mut Code, x: Variable) -> Variable {
    let one = code.f(1.0);
    let sum = code.plus(one, x);
    let (m, exponent) = split_exponent(code, sum);
    let f = code.minus(m, one);
    let log = log_reduced(code, f, exponent);
    // u − 1 from the parts of u, as a device may replace (1 + x) − 1 by x.
    let scale = code.power_of_two(exponent);
    let rest = code.minus(scale, one);
    let part = code.fma(f, scale, rest);
    let bits = code.reinterpret(U32, sum);
    let bits_of_one = code.int(U32, i64::from(1f32.to_bits()));
    let is_nothing = code.cmp(Comparison::Equal, bits, bits_of_one);
    let divisor = code.select(is_nothing, one, part);
    // If x exceeds its precision, the ratio is 1. The parts of u may be infinite there, and WGSL promises no
    // quotient by numbers beyond 2¹²⁶.
    let digits = code.int(I32, 32);
    let is_large = code.less(digits, exponent);
    let ratio = code.over(x, divisor);
    let ratio = code.select(is_large, one, ratio);
    let value = code.times(log, ratio);
    let value = log_ends(code, sum, value);
    code.select(is_nothing, x, value)
}

/// tanh x; error below 2.4 ULP.
fn tanh(code: &mut Code, x: Variable) -> Variable {
    let size = code.un(Arithmetic::Abs, x);
    // 1 − tanh 10 is far below half an ULP of 1.
    let size = code.at_most(size, 10.0);
    let two = code.f(2.0);
    let doubled = code.times(two, size);
    let e = expm1(code, doubled);
    let sum = code.plus(e, two);
    let value = code.over(e, sum);
    let value = code.with_sign_of(value, x);
    let is_nan = code.is_nan(x);
    code.select(is_nan, x, value)
}

/// The error function; error below 6 ULP.
fn erf(code: &mut Code, x: Variable) -> Variable {
    let size = code.un(Arithmetic::Abs, x);
    // 1 − erf 3.95 is below half an ULP of 1.
    let size = code.at_most(size, 3.95);
    let square = code.times(size, size);
    let above = [
        std::f64::consts::FRAC_2_SQRT_PI,
        0.185_168_61,
        0.054_274_866,
        0.003_843_372,
        3.779_432_7e-4,
        4.640_619e-6,
        -1.296_798_7e-8,
    ];
    let below = [1.0, 0.497_434_82, 0.113_910_96, 0.015_443_745, 0.001_304_071_4, 6.269_424e-5];
    let above = code.horner(square, above);
    let above = code.times(size, above);
    let below = code.horner(square, below);
    let ratio = code.over(above, below);
    let ratio = code.at_most(ratio, 1.0);
    let last = code.f(3.95);
    let is_last = code.cmp(Comparison::GreaterEqual, size, last);
    let one = code.f(1.0);
    let ratio = code.select(is_last, one, ratio);
    let value = code.with_sign_of(ratio, x);
    let is_nan = code.is_nan(x);
    code.select(is_nan, x, value)
}

/// sin(x + quarters·π/2); error below 1.5 ULP of the larger of the result and 2⁻²⁴; infinity gives NaN.
fn sine(code: &mut Code, x: Variable, quarters: i64) -> Variable {
    // Beyond this angle, n has more bits than its two parts hold.
    const NEAR: f64 = 1_048_576.0;
    // π/2 in four parts: products of the first three with n are exact for n of 13 bits (W. Cody, W. Waite: "Software
    // manual for the elementary functions", 1980).
    const HALF_PI: [f64; 4] =
        [1.570_312_5, 4.835_128_784_179_687_5e-4, 3.138_557_076_454_162_6e-7, 6.077_094_383_272_196e-11];
    let scale = code.f(std::f64::consts::FRAC_2_PI);
    let n = code.times(x, scale);
    let n = code.un(Arithmetic::Round, n);
    // n as a sum of two parts of at most 13 bits each.
    let [step, inverse] = [4096.0, 1.0 / 4096.0].map(|value| code.f(value));
    let steps = code.times(n, inverse);
    let steps = code.un(Arithmetic::Trunc, steps);
    let far = code.times(steps, step);
    let near = code.minus(n, far);
    let r = HALF_PI.into_iter().fold(x, |r, part| {
        let part = code.f(-part);
        let r = code.fma(far, part, r);
        code.fma(near, part, r)
    });
    let size = code.un(Arithmetic::Abs, x);
    let bound = code.f(NEAR);
    let is_near = code.less(size, bound);
    let zero = code.f(0.0);
    let n = code.select(is_near, n, zero);
    let quadrant = code.cast(I32, n);
    let quadrant = code.cast(U32, quadrant);
    let [r, quadrant] = [r, quadrant].map(|initial| code.mutable(initial));
    let is_far = code.not(is_near);
    code.when(is_far, |code| {
        let (far_quadrant, far_r) = large_angles::reduced(code, x);
        code.assign(quadrant, far_quadrant);
        code.assign(r, far_r);
    });
    let [r, quadrant] = [r, quadrant].map(|local| code.snapshot(local));
    let shift = code.int(U32, quarters);
    let quadrant = code.bin(Arithmetic::Add, quadrant, shift);
    let infinity = code.f(f64::INFINITY);
    let is_finite = code.less(size, infinity);
    let wave = quarter_wave(code, quadrant, r, [&SINE, &COSINE]);
    let nan = code.f(f64::NAN);
    let value = code.select(is_finite, wave, nan);
    // The sums of the argument reduction would lose the sign of −0.
    if quarters == 0 {
        let is_zero = code.is_equal(x, 0.0);
        return code.select(is_zero, x, value);
    }
    value
}

const SINE: [f64; 3] = [-0.166_666_55, 0.008_332_183, -1.951_779e-4];
const COSINE: [f64; 3] = [0.041_666_646, -0.001_388_731_6, 2.443_323_2e-5];
