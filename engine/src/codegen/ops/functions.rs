//! Functions of `f32` out of sums and products, for languages whose own are not exact enough: WGSL promises an error of
//! 3 + 2|x| units for exp, and 2⁻¹¹ for sine. What differs for `f64` is in [`crate::codegen::ops::doubles`].
//!
//! Reductions are the usual ones (powers of two for exp and log, multiples of π/2 for sine); the coefficients were
//! fitted by reweighted least squares on Chebyshev nodes, towards the least relative error. Where a device rounds
//! products and sums together, errors are those stated; where it does not, up to a unit more.

use crate::codegen::ir::builder::{Code, F32, F64, I32, U32, U64};
use crate::codegen::ops::doubles;
use crate::codegen::ops::large_angles;
use crate::ir::Unary;
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, ConstantValue, ElemType, Variable};

/// Whether it is one of the functions here.
pub fn has(op: Unary) -> bool {
    use Unary::{Cos, Erf, Exp, Expm1, Log, Log1p, Rsqrt, Sin, Tanh};
    matches!(op, Cos | Erf | Exp | Expm1 | Log | Log1p | Rsqrt | Sin | Tanh)
}

/// A function of [`has`], of `f32` or `f64`.
pub fn unary(code: &mut Code, op: Unary, x: Variable) -> Variable {
    match op {
        Unary::Rsqrt => {
            let root = code.un(Arithmetic::Sqrt, x);
            let one = code.float(x.elem_type(), 1.0);
            code.over(one, root)
        }
        _ if x.elem_type() == F64 => doubles::unary(code, op, x),
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

impl Code<'_> {
    fn f(&mut self, value: f64) -> Variable {
        self.float(F32, value)
    }

    pub fn plus(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Add, a, b)
    }

    pub fn minus(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Sub, a, b)
    }

    pub fn times(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Mul, a, b)
    }

    pub fn over(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Div, a, b)
    }

    pub fn at_most(&mut self, x: Variable, limit: f64) -> Variable {
        let limit = self.float(x.elem_type(), limit);
        let is_above = self.cmp(Comparison::Greater, x, limit);
        self.select(is_above, limit, x)
    }

    pub fn at_least(&mut self, x: Variable, limit: f64) -> Variable {
        let limit = self.float(x.elem_type(), limit);
        let is_below = self.less(x, limit);
        self.select(is_below, limit, x)
    }

    pub fn is_equal(&mut self, x: Variable, value: f64) -> Variable {
        let value = self.float(x.elem_type(), value);
        self.cmp(Comparison::Equal, x, value)
    }

    /// `c₀ + c₁x + c₂x² + …`
    pub fn horner(&mut self, x: Variable, coefficients: impl AsRef<[f64]>) -> Variable {
        let coefficients = coefficients.as_ref();
        let elem = x.elem_type();
        let last = self.float(elem, coefficients.last().copied().unwrap_or_default());
        coefficients.iter().rev().skip(1).fold(last, |sum, &coefficient| {
            let coefficient = self.float(elem, coefficient);
            self.fma(sum, x, coefficient)
        })
    }

    /// 2ⁿ for −126 ≤ n ≤ 127.
    fn power_of_two(&mut self, n: Variable) -> Variable {
        let bias = self.int(I32, 127);
        let exponent = self.bin(Arithmetic::Add, n, bias);
        let exponent = self.cast(U32, exponent);
        let shift = self.int(U32, 23);
        let bits = self.bit(Bitwise::ShiftLeft, exponent, shift);
        self.reinterpret(F32, bits)
    }

    pub fn with_sign_of(&mut self, size: Variable, x: Variable) -> Variable {
        let (elem, word) = (size.elem_type(), word_of(size));
        let [size, x] = [size, x].map(|x| self.reinterpret(word, x));
        let masks = if word == U64 { [i64::MAX, i64::MIN] } else { [0x7FFF_FFFF, 0x8000_0000] };
        let [rest, sign] = masks.map(|mask| self.int(word, mask));
        let size = self.bit(Bitwise::BitwiseAnd, size, rest);
        let sign = self.bit(Bitwise::BitwiseAnd, x, sign);
        let bits = self.bit(Bitwise::BitwiseOr, size, sign);
        self.reinterpret(elem, bits)
    }
}

/// The type of the bits of a float.
fn word_of(x: Variable) -> ElemType {
    if x.elem_type() == F64 { U64 } else { U32 }
}

/// ln 2 in two parts; products of the first with exponents are exact.
const LN2: [f64; 2] = [0.693_359_375, -2.121_944_400_546_905_8e-4];

/// `x = n·ln 2 + r` with |r| ≤ ½ ln 2; n as an integer.
fn split_ln2(code: &mut Code, x: Variable) -> (Variable, Variable) {
    let scale = code.f(std::f64::consts::LOG2_E);
    let n = code.times(x, scale);
    let n = code.un(Arithmetic::Round, n);
    let [high, low] = LN2.map(|part| code.f(-part));
    let whole = code.cast(I32, n);
    // Another value than n to a compiler that would join both products into a single, less exact one.
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
    // In two steps, as 2ⁿ alone may be subnormal or infinite.
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

/// The logarithm at the ends of its domain.
pub fn log_ends(code: &mut Code, x: Variable, inside: Variable) -> Variable {
    let elem = x.elem_type();
    let [zero, nan, infinity, minus_infinity] =
        [0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|value| code.float(elem, value));
    let is_zero = code.is_equal(x, 0.0);
    let value = code.select(is_zero, minus_infinity, inside);
    let is_below = code.less(x, zero);
    let value = code.select(is_below, nan, value);
    let is_infinite = code.cmp(Comparison::Equal, x, infinity);
    let is_nan = code.is_nan(x);
    let is_itself = code.or(is_infinite, is_nan);
    code.select(is_itself, x, value)
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

/// ln(1 + x); error below 1.4 ULP: for the float `u` next to `1 + x`, `ln u·x/(u − 1)` (W. Kahan; D. Goldberg, "What every
/// computer scientist should know about floating-point arithmetic", 1991, theorem 4).
fn log1p(code: &mut Code, x: Variable) -> Variable {
    let one = code.f(1.0);
    let sum = code.plus(one, x);
    let (m, exponent) = split_exponent(code, sum);
    let f = code.minus(m, one);
    let log = log_reduced(code, f, exponent);
    // u − 1 out of the parts of u, as a device may take (1 + x) − 1 for x.
    let scale = code.power_of_two(exponent);
    let rest = code.minus(scale, one);
    let part = code.fma(f, scale, rest);
    let bits = code.reinterpret(U32, sum);
    let bits_of_one = code.int(U32, i64::from(1f32.to_bits()));
    let is_nothing = code.cmp(Comparison::Equal, bits, bits_of_one);
    let divisor = code.select(is_nothing, one, part);
    // Beyond the digits of x the ratio is 1, but the parts of u may be infinite, and WGSL promises no quotient by numbers
    // beyond 2¹²⁶.
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
    // Beyond it, n has more bits than the two parts hold.
    const NEAR: f64 = 1_048_576.0;
    // π/2 in four parts: products of the first three with n are exact for n of 13 bits (W. Cody, W. Waite: "Software
    // manual for the elementary functions", 1980).
    const HALF_PI: [f64; 4] =
        [1.570_312_5, 4.835_128_784_179_687_5e-4, 3.138_557_076_454_162_6e-7, 6.077_094_383_272_196e-11];
    let scale = code.f(std::f64::consts::FRAC_2_PI);
    let n = code.times(x, scale);
    let n = code.un(Arithmetic::Round, n);
    // In two parts of at most 13 bits each.
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
    let is_told = code.less(size, infinity);
    let wave = quarter_wave(code, quadrant, r, [&SINE, &COSINE]);
    let nan = code.f(f64::NAN);
    let value = code.select(is_told, wave, nan);
    // The reduction's additions would lose the sign of −0.
    if quarters == 0 {
        let is_zero = code.is_equal(x, 0.0);
        return code.select(is_zero, x, value);
    }
    value
}

const SINE: [f64; 3] = [-0.166_666_55, 0.008_332_183, -1.951_779e-4];
const COSINE: [f64; 3] = [0.041_666_646, -0.001_388_731_6, 2.443_323_2e-5];

/// sin(r + quadrant·π/2) for |r| ≤ π/4, with the tails of both series; the quadrant is an integer of the size of r.
pub fn quarter_wave(
    code: &mut Code,
    quadrant: Variable,
    r: Variable,
    [sine, cosine]: [&[f64]; 2],
) -> Variable {
    let (elem, word) = (r.elem_type(), quadrant.elem_type());
    let square = code.times(r, r);
    let tail = code.horner(square, sine);
    let cube = code.times(square, r);
    let sine = code.fma(cube, tail, r);
    let tail = code.horner(square, cosine);
    let [one, minus_half] = [1.0, -0.5].map(|value| code.float(elem, value));
    let quartic = code.times(square, square);
    let small = code.times(minus_half, square);
    let rest = code.fma(quartic, tail, small);
    let cosine = code.plus(one, rest);
    // The second lowest bit of the quadrant becomes the sign.
    let to_sign = 8 * word.size() as i64 - 2;
    let [odd, below, up] = [1, 2, to_sign].map(|value| code.int(word, value));
    let is_odd = code.bit(Bitwise::BitwiseAnd, quadrant, odd);
    let is_odd = code.cmp(Comparison::Equal, is_odd, odd);
    let wave = code.select(is_odd, cosine, sine);
    let flip = code.bit(Bitwise::BitwiseAnd, quadrant, below);
    let flip = code.bit(Bitwise::ShiftLeft, flip, up);
    let bits = code.reinterpret(word, wave);
    let bits = code.bit(Bitwise::BitwiseXor, bits, flip);
    code.reinterpret(elem, bits)
}

/// `x·0` for a constant zero of either sign, which a language may take for 0 whatever x is: NaN for infinities and NaN.
pub fn times_zero(code: &mut Code, x: Variable, zero: Variable) -> Variable {
    let zero = code.mutable(zero);
    let sign = sign_of_product(code, x, zero);
    let signed = code.with_sign_of(zero, sign);
    // A comparison with infinity may be taken for false.
    let word = word_of(x);
    let infinity = code.int(word, if word == U64 { 0x7FF0 << 48 } else { 0x7F80_0000 });
    let bits = code.reinterpret(word, x);
    let exponent = code.bit(Bitwise::BitwiseAnd, bits, infinity);
    let is_undefined = code.cmp(Comparison::Equal, exponent, infinity);
    let nan = code.float(x.elem_type(), f64::NAN);
    code.select(is_undefined, nan, signed)
}

/// `a/b` of `f32`. WGSL promises a quotient only for divisors up to 2¹²⁶: beyond, the inverse of a divisor is subnormal, and
/// a GPU that multiplies by it may say 0. Both are scaled by a quarter there.
pub fn quotient(code: &mut Code, a: Variable, b: Variable) -> Variable {
    if is_below(b, LARGEST_DIVISOR) {
        return code.bin(Arithmetic::Div, a, b);
    }
    let [largest, quarter, one] = [LARGEST_DIVISOR, 0.25, 1.0].map(|value| code.float(F32, value));
    let size = code.un(Arithmetic::Abs, b);
    let is_large = code.cmp(Comparison::Greater, size, largest);
    let scale = code.select(is_large, quarter, one);
    let [a, b] = [a, b].map(|x| code.bin(Arithmetic::Mul, x, scale));
    code.bin(Arithmetic::Div, a, b)
}

/// 2¹²⁶
const LARGEST_DIVISOR: f64 = 8.507_059_173_023_462e37;

/// Whether it is a constant of at most that size.
fn is_below(x: Variable, size: f64) -> bool {
    matches!(x.as_const(), Some(ConstantValue::Float(value)) if value.abs() <= size)
}

/// `x/0` for a constant zero of either sign, which a language may take for anything: infinite, NaN for 0 and NaN.
pub fn over_zero(code: &mut Code, x: Variable, zero: Variable) -> Variable {
    let zero = code.mutable(zero);
    let sign = sign_of_product(code, x, zero);
    let [infinity, nan] = [f64::INFINITY, f64::NAN].map(|value| code.float(x.elem_type(), value));
    let infinite = code.with_sign_of(infinity, sign);
    let is_zero = code.is_equal(x, 0.0);
    let is_nan = code.is_nan(x);
    let is_undefined = code.or(is_zero, is_nan);
    code.select(is_undefined, nan, infinite)
}

/// A number with the sign of `a·b`, and of `a/b`.
fn sign_of_product(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let word = word_of(a);
    let [a_bits, b_bits] = [a, b].map(|x| code.reinterpret(word, x));
    let sign = code.bit(Bitwise::BitwiseXor, a_bits, b_bits);
    code.reinterpret(a.elem_type(), sign)
}

/// The remainder of a/b with the sign of a, exactly, whatever the quotient: the significand of `a` is divided like a
/// number with as many digits as the exponents differ. NaN for b = 0 and infinite a.
pub fn remainder(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let (elem, word) = (a.elem_type(), word_of(a));
    let (mantissa_bits, width) = if word == U64 { (52, 64) } else { (23, 32) };
    let spare = width - mantissa_bits - 1;
    let sign_mask = if word == U64 { i64::MAX } else { i64::from(i32::MAX) };
    let infinity = ((1i64 << (spare)) - 1) << mantissa_bits;
    let [sign_mask, infinity, hidden, up] =
        [sign_mask, infinity, 1 << mantissa_bits, mantissa_bits].map(|n| code.int(word, n));
    let [zero, one] = [0, 1].map(|n| code.int(word, n));
    let sizes = [a, b].map(|x| {
        let bits = code.reinterpret(word, x);
        code.bit(Bitwise::BitwiseAnd, bits, sign_mask)
    });
    // What subnormal numbers are multiples of is what the smallest normal ones are multiples of.
    let parts = sizes.map(|size| {
        let exponent = code.bit(Bitwise::ShiftRight, size, up);
        let above = code.bit(Bitwise::ShiftLeft, exponent, up);
        let mantissa = code.minus(size, above);
        let full = code.plus(mantissa, hidden);
        let is_subnormal = code.cmp(Comparison::Equal, exponent, zero);
        let exponent = code.select(is_subnormal, one, exponent);
        (code.select(is_subnormal, mantissa, full), exponent)
    });
    let [(dividend, high), (divisor, low)] = parts;
    let no_divisor = code.cmp(Comparison::Equal, divisor, zero);
    let safe = code.select(no_divisor, one, divisor);
    let is_above = code.less(low, high);
    let distance = code.minus(high, low);
    let distance = code.select(is_above, distance, zero);
    let rest = match word {
        U64 => bits_divided(code, dividend, safe, distance, mantissa_bits + 1),
        _ => digits_divided(code, dividend, safe, distance, spare),
    };
    let size = scaled(code, elem, rest, low);
    let size = code.reinterpret(elem, size);
    let value = code.with_sign_of(size, a);
    let is_smaller = code.less(sizes[0], sizes[1]);
    let value = code.select(is_smaller, a, value);
    let is_endless = code.cmp(Comparison::GreaterEqual, sizes[0], infinity);
    let is_nan = code.cmp(Comparison::Greater, sizes[1], infinity);
    let is_undefined = code.or(is_endless, is_nan);
    let is_undefined = code.or(is_undefined, no_divisor);
    let nan = code.float(elem, f64::NAN);
    code.select(is_undefined, nan, value)
}

/// `dividend · 2^distance mod divisor`, `spare` bits at a time.
fn digits_divided(
    code: &mut Code,
    dividend: Variable,
    divisor: Variable,
    distance: Variable,
    spare: i64,
) -> Variable {
    let word = dividend.elem_type();
    let [zero, most] = [0, spare].map(|n| code.int(word, n));
    let first = code.bin(Arithmetic::Modulo, dividend, divisor);
    let [rest, left] = [first, distance].map(|initial| code.mutable(initial));
    code.forever(|code| {
        let distance = code.snapshot(left);
        let is_done = code.cmp(Comparison::Equal, distance, zero);
        code.stop_if(is_done);
        let is_last = code.less(distance, most);
        let step = code.select(is_last, distance, most);
        let digits = code.snapshot(rest);
        let digits = code.bit(Bitwise::ShiftLeft, digits, step);
        let digits = code.bin(Arithmetic::Modulo, digits, divisor);
        code.assign(rest, digits);
        let distance = code.minus(distance, step);
        code.assign(left, distance);
    });
    code.snapshot(rest)
}

/// `dividend · 2^distance mod divisor` by long division, one bit at a time, of a dividend of `n_bits` bits. Kernels with
/// [`digits_divided`] in words of 64 bits ran without end through NVIDIA's Vulkan driver (580, on an H100), for a cause that
/// is not known. This form ends there and is right at the ends of the type.
fn bits_divided(
    code: &mut Code,
    dividend: Variable,
    divisor: Variable,
    distance: Variable,
    n_bits: i64,
) -> Variable {
    let word = dividend.elem_type();
    let [zero, one, n_bits, last] = [0, 1, n_bits, n_bits - 1].map(|n| code.int(word, n));
    let n_turns = code.plus(distance, n_bits);
    let (start, n_turns) = (code.at(0), code.cast(code.at(0).elem_type(), n_turns));
    let rest = code.mutable(zero);
    code.range(start, n_turns, 1, |code, turn| {
        let turn = code.cast(word, turn);
        let is_inside = code.less(turn, n_bits);
        let place = code.minus(last, turn);
        let place = code.select(is_inside, place, zero);
        let bit = code.bit(Bitwise::ShiftRight, dividend, place);
        let bit = code.bit(Bitwise::BitwiseAnd, bit, one);
        let bit = code.select(is_inside, bit, zero);
        let before = code.snapshot(rest);
        let doubled = code.bit(Bitwise::ShiftLeft, before, one);
        let digits = code.plus(doubled, bit);
        let is_less = code.less(digits, divisor);
        let divided = code.minus(digits, divisor);
        let digits = code.select(is_less, digits, divided);
        code.assign(rest, digits);
    });
    code.snapshot(rest)
}

/// The bits of a float: a multiple of the last place of a number with that exponent.
fn scaled(code: &mut Code, elem: ElemType, multiple: Variable, exponent: Variable) -> Variable {
    let word = multiple.elem_type();
    let (mantissa_bits, bias, width) = if word == U64 { (52, 1023, 64) } else { (23, 127, 32) };
    let [zero, one, up, lost, most] =
        [0, 1, mantissa_bits, bias + mantissa_bits, width - 1].map(|n| code.int(word, n));
    let float = code.cast(elem, multiple);
    let bits = code.reinterpret(word, float);
    let its_exponent = code.bit(Bitwise::ShiftRight, bits, up);
    let sum = code.plus(its_exponent, exponent);
    let is_normal = code.less(lost, sum);
    let fall = code.minus(lost, exponent);
    let fall = code.bit(Bitwise::ShiftLeft, fall, up);
    let normal = code.minus(bits, fall);
    let places = code.minus(exponent, one);
    let places = code.bit(Bitwise::BitwiseAnd, places, most);
    let subnormal = code.bit(Bitwise::ShiftLeft, multiple, places);
    let value = code.select(is_normal, normal, subnormal);
    let is_zero = code.cmp(Comparison::Equal, multiple, zero);
    code.select(is_zero, zero, value)
}

/// xʸ as e^(y·ln |x|), of `f32` or `f64`; the relative error grows with the logarithm of the result, to 1e-5 and 2e-13 at
/// the ends of the types. `0⁰ = 1`, NaN for a finite negative base with a fractional exponent.
pub fn pow(code: &mut Code, x: Variable, y: Variable) -> Variable {
    let elem = x.elem_type();
    let size = code.un(Arithmetic::Abs, x);
    let log = unary(code, Unary::Log, size);
    let power = code.times(y, log);
    let magnitude = unary(code, Unary::Exp, power);
    let [zero, half, one, nan] = [0.0, 0.5, 1.0, f64::NAN].map(|value| code.float(elem, value));
    let whole = code.un(Arithmetic::Trunc, y);
    let is_integer = code.cmp(Comparison::Equal, whole, y);
    let halved = code.times(y, half);
    let whole = code.un(Arithmetic::Trunc, halved);
    let is_even = code.cmp(Comparison::Equal, whole, halved);
    let is_odd = code.not(is_even);
    let is_odd = code.and(is_integer, is_odd);
    let signed = code.with_sign_of(magnitude, x);
    let value = code.select(is_odd, signed, magnitude);
    let infinity = code.float(elem, f64::INFINITY);
    let is_negative = code.less(x, zero);
    let is_finite = code.less(size, infinity);
    let is_fractional = code.not(is_integer);
    let is_undefined = code.and(is_negative, is_finite);
    let is_undefined = code.and(is_undefined, is_fractional);
    let [x_nan, y_nan] = [x, y].map(|x| code.is_nan(x));
    let is_nan = code.or(x_nan, y_nan);
    let is_undefined = code.or(is_undefined, is_nan);
    let value = code.select(is_undefined, nan, value);
    // ±1 to an infinite power, too.
    let is_unit = code.is_equal(size, 1.0);
    let is_whole_power = code.not(is_undefined);
    let unit = code.with_sign_of(one, x);
    let unit = code.select(is_odd, unit, one);
    let is_unit = code.and(is_unit, is_whole_power);
    let value = code.select(is_unit, unit, value);
    let is_one = code.is_equal(x, 1.0);
    let no_power = code.is_equal(y, 0.0);
    let is_one = code.or(is_one, no_power);
    code.select(is_one, one, value)
}
