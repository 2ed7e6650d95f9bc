//! Functions of `f64` from sums and products, for languages that lack them. WGSL's extensions only have sums,
//! products and roots of doubles.
//!
//! Argument reductions are as for `f32`. Exponentials are Taylor sums. The other coefficients, and the pieces of
//! `erf`, are those of FDLIBM (Sun Microsystems, 1993).

use crate::codegen::ir::builder::{Code, F64, I64, U64};
use crate::codegen::ops::functions::parts::{log_ends, quarter_wave};
use crate::ir::Unary;
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, Variable};

/// A function of `f64`.
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

fn number(code: &mut Code, value: f64) -> Variable {
    code.float(F64, value)
}

/// x, or 0 for NaN, for which comparisons are undefined.
fn or_zero(code: &mut Code, x: Variable, is_nan: Variable) -> Variable {
    let zero = number(code, 0.0);
    code.select(is_nan, zero, x)
}

/// The nearest integer, ties to even. On a processor without AVX-512, Mesa's software Vulkan rounds ties of
/// doubles to zero, and is wrong beyond 2²⁴.
pub fn round(code: &mut Code, x: Variable) -> Variable {
    let [half, one, two] = [0.5, 1.0, 2.0].map(|value| number(code, value));
    let below = code.un(Arithmetic::Floor, x);
    let above = code.plus(below, one);
    let rest = code.minus(x, below);
    let is_above = code.less(half, rest);
    let nearer = code.select(is_above, above, below);
    let even = code.times(above, half);
    let even = code.un(Arithmetic::Floor, even);
    let even = code.times(even, two);
    let is_tie = code.is_equal(rest, 0.5);
    let nearest = code.select(is_tie, even, nearer);
    // Beyond 2⁵² all numbers are integers, and a sum with 1 may not be exact.
    let size = code.un(Arithmetic::Abs, x);
    let end = number(code, 52f64.exp2());
    let has_parts = code.less(size, end);
    let nearest = code.select(has_parts, nearest, x);
    code.with_sign_of(nearest, x)
}

/// 2ⁿ for −1022 ≤ n ≤ 1023.
fn power_of_two(code: &mut Code, n: Variable) -> Variable {
    let [bias, shift] = [1023, 52].map(|word| code.int(I64, word));
    let exponent = code.plus(n, bias);
    let bits = code.bit(Bitwise::ShiftLeft, exponent, shift);
    code.reinterpret(F64, bits)
}

/// ln 2 as a sum of two parts; products of the first with exponents are exact.
const LN2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// `x = n·ln 2 + r` with |r| ≤ ½ ln 2; n as an integer.
fn split_ln2(code: &mut Code, x: Variable) -> (Variable, Variable) {
    let scale = number(code, std::f64::consts::LOG2_E);
    let n = code.times(x, scale);
    let n = round(code, n);
    let [high, low] = LN2.map(|part| number(code, -part));
    let whole = code.cast(I64, n);
    // As for `f32`, the compiler must not see that this equals n.
    let again = code.cast(F64, whole);
    let r = code.fma(n, high, x);
    (whole, code.fma(again, low, r))
}

/// eʳ − 1 for |r| ≤ ½ ln 2.
fn small_expm1(code: &mut Code, r: Variable) -> Variable {
    // 1/2!, 1/3!, …; the remaining terms are below 2⁻⁵⁷ of the sum.
    let mut factorial = 1.0;
    let coefficients: Vec<f64> = (2..=13)
        .map(|n| {
            factorial *= f64::from(n);
            1.0 / factorial
        })
        .collect();
    let tail = code.horner(r, &coefficients);
    let square = code.times(r, r);
    code.fma(square, tail, r)
}

/// eˣ; error below 1.1 ULP.
fn exp(code: &mut Code, x: Variable) -> Variable {
    let is_nan = code.is_nan(x);
    let inside = or_zero(code, x, is_nan);
    let inside = code.at_most(inside, 710.0);
    let inside = code.at_least(inside, -746.0);
    let (n, r) = split_ln2(code, inside);
    let fraction = small_expm1(code, r);
    let one = number(code, 1.0);
    let power = code.plus(one, fraction);
    // 2ⁿ alone may be subnormal or infinite, so the product takes two factors.
    let shift = code.int(I64, 1);
    let half = code.bit(Bitwise::ShiftRight, n, shift);
    let rest = code.minus(n, half);
    let [first, second] = [half, rest].map(|n| power_of_two(code, n));
    let value = code.times(power, first);
    let value = code.times(value, second);
    code.select(is_nan, x, value)
}

/// eˣ − 1; error below 2 ULP.
fn expm1(code: &mut Code, x: Variable) -> Variable {
    let is_nan = code.is_nan(x);
    let inside = or_zero(code, x, is_nan);
    let inside = code.at_most(inside, 710.0);
    let inside = code.at_least(inside, -40.0);
    let (n, r) = split_ln2(code, inside);
    let fraction = small_expm1(code, r);
    // 2ⁿ(fraction + 1) − 1 at half scale, as 2ⁿ overflows for the largest finite results.
    let one = code.int(I64, 1);
    let n = code.minus(n, one);
    let scale = power_of_two(code, n);
    let [half, two] = [0.5, 2.0].map(|value| number(code, value));
    let rest = code.minus(scale, half);
    let value = code.fma(scale, fraction, rest);
    let value = code.times(two, value);
    let is_zero = code.is_equal(x, 0.0);
    let is_itself = code.or(is_zero, is_nan);
    code.select(is_itself, x, value)
}

/// `x = m·2ᵉ` with √½ ≤ m < √2, for normal positive x.
fn split_exponent(code: &mut Code, x: Variable) -> (Variable, Variable) {
    let bits = code.reinterpret(I64, x);
    let root = code.int(I64, std::f64::consts::FRAC_1_SQRT_2.to_bits() as i64);
    let above = code.minus(bits, root);
    let shift = code.int(I64, 52);
    let exponent = code.bit(Bitwise::ShiftRight, above, shift);
    let scaled = code.bit(Bitwise::ShiftLeft, exponent, shift);
    let mantissa = code.minus(bits, scaled);
    (code.reinterpret(F64, mantissa), exponent)
}

/// `ln(1 + f) + e·ln 2`, by `s = f/(2 + f)`.
fn log_reduced(code: &mut Code, f: Variable, exponent: Variable) -> Variable {
    const TAIL: [f64; 7] = [
        6.666_666_666_666_735e-1,
        3.999_999_999_940_942e-1,
        2.857_142_874_366_239e-1,
        2.222_219_843_214_978_4e-1,
        1.818_357_216_161_805e-1,
        1.531_383_769_920_937_3e-1,
        1.479_819_860_511_658_6e-1,
    ];
    let exponent = code.cast(F64, exponent);
    let [half, two] = [0.5, 2.0].map(|value| number(code, value));
    let above = code.plus(two, f);
    let s = code.over(f, above);
    let square = code.times(s, s);
    let tail = code.horner(square, TAIL);
    let tail = code.times(square, tail);
    let half_square = code.times(f, f);
    let half_square = code.times(half, half_square);
    let [high, low] = LN2.map(|part| number(code, part));
    let small = code.times(exponent, low);
    let tail = code.plus(half_square, tail);
    let small = code.fma(s, tail, small);
    let rest = code.minus(half_square, small);
    let rest = code.minus(f, rest);
    code.fma(exponent, high, rest)
}

/// ln x; error below 1 ULP. ln 0 = −∞, NaN below 0.
fn log(code: &mut Code, x: Variable) -> Variable {
    let [least, scale] = [f64::MIN_POSITIVE, 52f64.exp2()].map(|value| number(code, value));
    let is_small = code.less(x, least);
    let scaled = code.times(x, scale);
    let normal = code.select(is_small, scaled, x);
    let (m, exponent) = split_exponent(code, normal);
    let [none, down] = [0, 52].map(|n| code.int(I64, n));
    let down = code.select(is_small, down, none);
    let exponent = code.minus(exponent, down);
    let one = number(code, 1.0);
    let f = code.minus(m, one);
    let value = log_reduced(code, f, exponent);
    log_ends(code, x, value)
}

/// ln(1 + x); error below 2 ULP, as in [`functions`].
fn log1p(code: &mut Code, x: Variable) -> Variable {
    let one = number(code, 1.0);
    let total = code.plus(one, x);
    let (m, exponent) = split_exponent(code, total);
    let f = code.minus(m, one);
    let log = log_reduced(code, f, exponent);
    // u − 1 from the parts of u, as a device may replace (1 + x) − 1 by x.
    let scale = power_of_two(code, exponent);
    let rest = code.minus(scale, one);
    let part = code.fma(f, scale, rest);
    let bits = code.reinterpret(U64, total);
    let bits_of_one = code.int(U64, 1f64.to_bits() as i64);
    let is_nothing = code.cmp(Comparison::Equal, bits, bits_of_one);
    let divisor = code.select(is_nothing, one, part);
    // If x exceeds its precision, the ratio is 1. The parts of u may be infinite there.
    let digits = code.int(I64, 64);
    let is_large = code.less(digits, exponent);
    let divisor = code.select(is_large, x, divisor);
    let ratio = code.over(x, divisor);
    let value = code.times(log, ratio);
    let value = log_ends(code, total, value);
    code.select(is_nothing, x, value)
}

/// tanh x; error below 3 ULP.
fn tanh(code: &mut Code, x: Variable) -> Variable {
    let size = code.un(Arithmetic::Abs, x);
    // 1 − tanh 22 is far below half an ULP of 1.
    let size = code.at_most(size, 22.0);
    let two = number(code, 2.0);
    let doubled = code.times(two, size);
    let e = expm1(code, doubled);
    let above = code.plus(e, two);
    let value = code.over(e, above);
    let value = code.with_sign_of(value, x);
    let is_nan = code.is_nan(x);
    code.select(is_nan, x, value)
}

/// sin(x + quarters·π/2) with an error below 1 ULP of the larger of the result and 2⁻⁵². Beyond |x| = 10¹²
/// precision is lost; infinity gives NaN.
fn sine(code: &mut Code, x: Variable, quarters: i64) -> Variable {
    // π/2 in four parts: products of the first three with n are exact for n of 20 bits.
    const HALF_PI: [f64; 4] = [
        1.570_796_326_734_125_6,
        6.077_100_506_303_966e-11,
        2.022_266_248_711_166_5e-21,
        8.478_427_660_368_9e-32,
    ];
    let scale = number(code, std::f64::consts::FRAC_2_PI);
    let n = code.times(x, scale);
    let n = round(code, n);
    // n as a sum of two parts of at most 20 bits each.
    let [step, inverse] = [20f64.exp2(), (-20f64).exp2()].map(|value| number(code, value));
    let steps = code.times(n, inverse);
    let steps = code.un(Arithmetic::Trunc, steps);
    let far = code.times(steps, step);
    let near = code.minus(n, far);
    let r = HALF_PI.into_iter().fold(x, |r, part| {
        let part = number(code, -part);
        let r = code.fma(far, part, r);
        code.fma(near, part, r)
    });
    let bound = number(code, 62f64.exp2());
    let size = code.un(Arithmetic::Abs, n);
    let is_bounded = code.less(size, bound);
    let zero = number(code, 0.0);
    let [n, r] = [n, r].map(|value| code.select(is_bounded, value, zero));
    // A reduced angle without precision still gives a value of the wave.
    let r = code.at_most(r, std::f64::consts::FRAC_PI_4);
    let r = code.at_least(r, -std::f64::consts::FRAC_PI_4);
    let quadrant = code.cast(I64, n);
    let shift = code.int(I64, quarters);
    let quadrant = code.plus(quadrant, shift);
    let wave = quarter_wave(code, quadrant, r, [&SINE, &COSINE]);
    let [infinity, nan] = [f64::INFINITY, f64::NAN].map(|value| number(code, value));
    let is_bounded = code.less(size, infinity);
    let value = code.select(is_bounded, wave, nan);
    // The sums of the argument reduction would lose the sign of −0.
    if quarters == 0 {
        let is_zero = code.is_equal(x, 0.0);
        return code.select(is_zero, x, value);
    }
    value
}

const SINE: [f64; 6] = [
    -1.666_666_666_666_663_2e-1,
    8.333_333_333_322_49e-3,
    -1.984_126_982_985_795e-4,
    2.755_731_370_707_006_8e-6,
    -2.505_076_025_340_686_3e-8,
    1.589_690_995_211_55e-10,
];
const COSINE: [f64; 6] = [
    4.166_666_666_666_66e-2,
    -1.388_888_888_887_411e-3,
    2.480_158_728_947_673e-5,
    -2.755_731_435_139_066_3e-7,
    2.087_572_321_298_175e-9,
    -1.135_964_755_778_819_5e-11,
];

/// The error function; error below 2 ULP.
fn erf(code: &mut Code, x: Variable) -> Variable {
    let size = code.un(Arithmetic::Abs, x);
    // 1 − erf 6 is below half an ULP of 1.
    let size = code.at_most(size, 6.0);
    let square = code.times(size, size);
    let small = ratio(code, square, &SMALL);
    let small = code.fma(size, small, size);
    let one = number(code, 1.0);
    let above = code.minus(size, one);
    let near = ratio(code, above, &NEAR_ONE);
    let erf_one = number(code, ERF_ONE);
    let near = code.plus(erf_one, near);
    let far = far_erf(code, size, square);
    let [end_small, end_near] = [0.84375, 1.25].map(|end| number(code, end));
    let is_near = code.less(size, end_near);
    let value = code.select(is_near, near, far);
    let is_small = code.less(size, end_small);
    let value = code.select(is_small, small, value);
    let value = code.with_sign_of(value, x);
    let is_nan = code.is_nan(x);
    code.select(is_nan, x, value)
}

/// `1 − e^(−x² − 9/16 + R(1/x²)/S(1/x²))/x` for x ≥ 1.25.
fn far_erf(code: &mut Code, size: Variable, square: Variable) -> Variable {
    let size = code.at_least(size, 1.25);
    let square = code.at_least(square, 1.25 * 1.25);
    let one = number(code, 1.0);
    let inverse = code.over(one, square);
    let [first, second] = [&FAR, &FARTHER].map(|parts| ratio(code, inverse, parts));
    let border = number(code, 1.0 / 0.35);
    let is_first = code.less(size, border);
    let correction = code.select(is_first, first, second);
    let shift = number(code, -0.5625);
    let power = code.minus(shift, square);
    let power = code.plus(power, correction);
    let power = exp(code, power);
    let rest = code.over(power, size);
    code.minus(one, rest)
}

/// A quotient of two polynomials: numerator and denominator.
type Ratio = [&'static [f64]; 2];

fn ratio(code: &mut Code, x: Variable, parts: &Ratio) -> Variable {
    let [above, below] = parts.map(|coefficients| code.horner(x, coefficients));
    code.over(above, below)
}

/// erf 1, rounded.
const ERF_ONE: f64 = 8.450_629_115_104_675e-1;
/// erf x/x − 1 by x².
const SMALL: Ratio = [
    &[
        1.283_791_670_955_125_6e-1,
        -3.250_421_072_470_015e-1,
        -2.848_174_957_559_851e-2,
        -5.770_270_296_489_442e-3,
        -2.376_301_665_665_016_3e-5,
    ],
    &[
        1.0,
        3.979_172_239_591_553_5e-1,
        6.502_224_998_876_73e-2,
        5.081_306_281_875_766e-3,
        1.324_947_380_043_216_4e-4,
        -3.960_228_278_775_368e-6,
    ],
];
/// erf x − erf 1 by x − 1.
const NEAR_ONE: Ratio = [
    &[
        -2.362_118_560_752_659_4e-3,
        4.148_561_186_837_483e-1,
        -3.722_078_760_357_013e-1,
        3.183_466_199_011_617_5e-1,
        -1.108_946_942_823_966_8e-1,
        3.547_830_432_561_824e-2,
        -2.166_375_594_868_791e-3,
    ],
    &[
        1.0,
        1.064_208_804_008_442_3e-1,
        5.403_979_177_021_71e-1,
        7.182_865_441_419_627e-2,
        1.261_712_198_087_616_4e-1,
        1.363_708_391_202_905e-2,
        1.198_449_984_679_911e-2,
    ],
];
/// `ln(x·(1 − erf x)) + x² + 9/16` by 1/x², up to x = 1/0.35.
const FAR: Ratio = [
    &[
        -9.864_944_034_847_148e-3,
        -6.938_585_727_071_818e-1,
        -1.055_862_622_532_329_1e1,
        -6.237_533_245_032_601e1,
        -1.623_966_694_625_734_7e2,
        -1.846_050_929_067_110_4e2,
        -8.128_743_550_630_66e1,
        -9.814_329_344_169_145,
    ],
    &[
        1.0,
        1.965_127_166_743_925_7e1,
        1.376_577_541_435_190_4e2,
        4.345_658_774_752_292_3e2,
        6.453_872_717_332_679e2,
        4.290_081_400_275_678_3e2,
        1.086_350_055_417_794_4e2,
        6.570_249_770_319_282,
        -6.042_441_521_485_81e-2,
    ],
];
/// `ln(x·(1 − erf x)) + x² + 9/16` by 1/x², beyond x = 1/0.35.
const FARTHER: Ratio = [
    &[
        -9.864_942_924_700_1e-3,
        -7.992_832_376_805_23e-1,
        -1.775_795_491_775_475_2e1,
        -1.606_363_848_558_219_2e2,
        -6.375_664_433_683_896e2,
        -1.025_095_131_611_077_2e3,
        -4.835_191_916_086_514e2,
    ],
    &[
        1.0,
        3.033_806_074_348_246e1,
        3.257_925_129_965_739e2,
        1.536_729_586_084_437e3,
        3.199_858_219_508_595_5e3,
        2.553_050_406_433_164_3e3,
        4.745_285_412_069_554e2,
        -2.244_095_244_658_582e1,
    ],
];
