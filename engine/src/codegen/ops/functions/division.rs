//! Products with zero, quotients by zero and by large divisors, and remainders of floats.

use crate::codegen::ir::builder::{Code, F32, U64};
use crate::codegen::ops::functions::parts::word_of;
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, ConstantValue, ElemType, Variable};

/// `x·0` for a constant zero of either sign: NaN for infinities and NaN. A language may replace it by 0 for every
/// x.
pub fn times_zero(code: &mut Code, x: Variable, zero: Variable) -> Variable {
    let zero = code.mutable(zero);
    let sign = sign_of_product(code, x, zero);
    let signed = code.with_sign_of(zero, sign);
    // A compiler may replace a comparison with infinity by false, so this tests the bits.
    let word = word_of(x);
    let infinity = code.int(word, if word == U64 { 0x7FF0 << 48 } else { 0x7F80_0000 });
    let bits = code.reinterpret(word, x);
    let exponent = code.bit(Bitwise::BitwiseAnd, bits, infinity);
    let is_undefined = code.cmp(Comparison::Equal, exponent, infinity);
    let nan = code.float(x.elem_type(), f64::NAN);
    code.select(is_undefined, nan, signed)
}

/// `a/b` of `f32`. WGSL promises a quotient only for divisors up to 2¹²⁶. The inverse of a larger divisor is
/// subnormal, and a GPU that multiplies by it may give 0. Both operands are scaled by ¼ there.
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

/// Whether x is a constant of at most that magnitude.
fn is_below(x: Variable, size: f64) -> bool {
    matches!(x.as_const(), Some(ConstantValue::Float(value)) if value.abs() <= size)
}

/// `x/0` for a constant zero of either sign: infinite, but NaN for 0 and NaN. A language may replace it by any
/// value.
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

/// A number with the sign of `a·b`, which is that of `a/b`.
fn sign_of_product(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let word = word_of(a);
    let [a_bits, b_bits] = [a, b].map(|x| code.reinterpret(word, x));
    let sign = code.bit(Bitwise::BitwiseXor, a_bits, b_bits);
    code.reinterpret(a.elem_type(), sign)
}

/// The exact remainder of a/b with the sign of a. The significand of `a` is divided as a number with as many
/// digits as the exponents differ by. NaN for b = 0 and infinite a.
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
    // Subnormal numbers and the smallest normal ones are multiples of the same unit.
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

/// `dividend · 2^distance mod divisor` by long division, one bit at a time, of a dividend of `n_bits` bits. With
/// 64-bit words, kernels with [`digits_divided`] never end on NVIDIA's Vulkan driver (580, on an H100); the cause
/// is unknown. This form ends there, and is exact at the ends of the type.
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

/// The bits of a float: a multiple of the unit in the last place of a number with that exponent.
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
