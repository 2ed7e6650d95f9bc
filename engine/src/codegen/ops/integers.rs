//! Integer functions that a language lacks or leaves partly undefined, and small integers in wide registers.

use crate::codegen::ir::builder::{Code, I64, U32, U64};
use crate::ir::{Binary, DType};
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, ConstantValue, ElemType, Variable};

/// Wraps an integer at the end of its type, which may be held in a wider register.
pub fn within_type(code: &mut Code, dtype: DType, x: Variable) -> Variable {
    let elem = x.elem_type();
    let unused = 8 * (elem.size() as i64 - dtype.size() as i64);
    if !dtype.is_int() || unused == 0 {
        return x;
    }
    if dtype.is_signed_int() {
        let unused = code.int(elem, unused);
        let high = code.bit(Bitwise::ShiftLeft, x, unused);
        return code.bit(Bitwise::ShiftRight, high, unused);
    }
    let mask = code.int(elem, (1 << (8 * dtype.size())) - 1);
    code.bit(Bitwise::BitwiseAnd, x, mask)
}

/// The number of bits that are 1, word by word: WGSL counts those of 32 bits alone.
pub fn popcount(code: &mut Code, dtype: DType, x: Variable) -> Variable {
    let mut words = code.words_of(x);
    if dtype.size() < 4 {
        // The sign of a small integer fills its register.
        let mask = code.int(U32, (1 << (8 * dtype.size())) - 1);
        words[0] = code.bit(Bitwise::BitwiseAnd, words[0], mask);
    }
    let counts = words.map(|word| code.count_ones(word));
    let count = code.bin(Arithmetic::Add, counts[0], counts[1]);
    code.cast(x.elem_type(), count)
}

/// The remainder of a/b for signed integers, with the sign of a. SPIR-V's remainder is undefined for negative
/// numbers: NVIDIA's driver gives 1 for -1 % -2. Its division is defined.
pub fn remainder(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let quotient = code.bin(Arithmetic::Div, a, b);
    let multiple = code.bin(Arithmetic::Mul, quotient, b);
    code.bin(Arithmetic::Sub, a, multiple)
}

/// aᵇ by repeated squaring; products wrap. A negative exponent gives the inverse, truncated; the inverse of 0 is
/// 0.
pub fn power(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let (elem, word) = (a.elem_type(), word_of(a));
    let base = code.cast(word, a);
    let exponent = match b.as_const() {
        Some(ConstantValue::Int(n)) => u64::try_from(n).ok(),
        Some(ConstantValue::UInt(n)) => Some(n),
        _ => None,
    };
    match exponent {
        Some(n) => {
            let value = known_power(code, base, n);
            code.cast(elem, value)
        }
        None => open_power(code, [a, b], base),
    }
}

/// The power for an exponent that is known at compile time.
fn known_power(code: &mut Code, base: Variable, exponent: u64) -> Variable {
    let one = code.int(base.elem_type(), 1);
    (0..64 - exponent.leading_zeros()).rev().fold(one, |value, bit| {
        let squared = if value == one { one } else { code.bin(Arithmetic::Mul, value, value) };
        match exponent >> bit & 1 {
            0 => squared,
            _ if squared == one => base,
            _ => code.bin(Arithmetic::Mul, squared, base),
        }
    })
}

/// The power for an exponent that is known at run time.
fn open_power(code: &mut Code, [a, b]: [Variable; 2], base: Variable) -> Variable {
    let (elem, word) = (a.elem_type(), base.elem_type());
    let is_signed = matches!(elem, ElemType::Int(_));
    let none = code.int(elem, 0);
    let is_inverse = code.less(b, none);
    let counted = if is_signed { code.select(is_inverse, none, b) } else { b };
    let counted = code.cast(word, counted);
    let [zero, one] = [0, 1].map(|n| code.int(word, n));
    let [total, factor, left] = [one, base, counted].map(|initial| code.mutable(initial));
    code.forever(|code| {
        let exponent = code.snapshot(left);
        let is_done = code.cmp(Comparison::Equal, exponent, zero);
        code.stop_if(is_done);
        let square = code.snapshot(factor);
        let value = code.snapshot(total);
        let product = code.bin(Arithmetic::Mul, value, square);
        let is_odd = is_odd(code, exponent);
        let value = code.select(is_odd, product, value);
        code.assign(total, value);
        let next = code.bin(Arithmetic::Mul, square, square);
        code.assign(factor, next);
        let rest = code.bit(Bitwise::ShiftRight, exponent, one);
        code.assign(left, rest);
    });
    let value = code.snapshot(total);
    let value = code.cast(elem, value);
    if !is_signed {
        return value;
    }
    // The inverse of a base other than 1 and -1 truncates to 0.
    let [one, minus_one] = [1, -1].map(|n| code.int(elem, n));
    let bits = code.cast(word, b);
    let is_odd = is_odd(code, bits);
    let of_minus_one = code.select(is_odd, minus_one, one);
    let is_minus_one = code.cmp(Comparison::Equal, a, minus_one);
    let is_one = code.cmp(Comparison::Equal, a, one);
    let inverse = code.select(is_minus_one, of_minus_one, none);
    let inverse = code.select(is_one, one, inverse);
    code.select(is_inverse, inverse, value)
}

fn is_odd(code: &mut Code, x: Variable) -> Variable {
    let one = code.int(x.elem_type(), 1);
    let lowest = code.bit(Bitwise::BitwiseAnd, x, one);
    code.cmp(Comparison::Equal, lowest, one)
}

/// a shifted by b. Languages leave negative distances, and distances from the type's width on, undefined. Only the
/// sign remains there.
pub fn shift(code: &mut Code, op: Binary, a: Variable, b: Variable) -> Variable {
    let elem = a.elem_type();
    let width = 8 * elem.size() as i64;
    let known = match b.as_const() {
        Some(ConstantValue::Int(n)) => Some(n),
        Some(ConstantValue::UInt(n)) => i64::try_from(n).ok(),
        _ => None,
    };
    if known.is_some_and(|n| (0..width).contains(&n)) {
        let op = if op == Binary::Shl { Bitwise::ShiftLeft } else { Bitwise::ShiftRight };
        return code.bit(op, a, b);
    }
    let [none, end, last] = [0, width, width - 1].map(|n| code.int(elem, n));
    let is_below = code.less(b, end);
    let is_inside = match elem {
        ElemType::Int(_) => {
            let is_negative = code.less(b, none);
            let is_positive = code.not(is_negative);
            code.and(is_below, is_positive)
        }
        _ => is_below,
    };
    let by = code.select(is_inside, b, last);
    if op == Binary::Shl {
        let shifted = code.bit(Bitwise::ShiftLeft, a, by);
        return code.select(is_inside, shifted, none);
    }
    let shifted = code.bit(Bitwise::ShiftRight, a, by);
    match elem {
        // The shift by the largest distance leaves only the sign.
        ElemType::Int(_) => shifted,
        _ => code.select(is_inside, shifted, none),
    }
}

/// The unsigned type whose products wrap like those of the type.
fn word_of(x: Variable) -> ElemType {
    match x.elem_type() {
        I64 | U64 => U64,
        _ => U32,
    }
}
