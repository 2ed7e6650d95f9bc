//! Argument reduction of large angles (M. Payne, R. Hanek: "Radian reduction for trigonometric functions", 1983).
//! Of the product with 2/π, only the digits around the binary point are computed, with integers.

use crate::codegen::ir::builder::{Code, F32, U32};
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, Variable};

/// The bits of 2/π, after two zeros.
const DIGITS: [u32; 6] = [0x28be_60db, 0x9391_054a, 0x7f09_d5f4, 0x7d4d_3770, 0x36d8_a566, 0x4f10_e410];

/// `x = n·π/2 + r` with |r| ≤ π/4, for finite |x| ≥ 1: the low bits of n, and r within 2 ULP.
pub fn reduced(code: &mut Code, x: Variable) -> (Variable, Variable) {
    let bits = code.reinterpret(U32, x);
    let exponent = {
        let above = code.shifted_right(bits, 23);
        let above = code.masked(above, 0xFF);
        let bias = code.word(126);
        code.bin(Arithmetic::Sub, above, bias)
    };
    let digits = digits_at(code, exponent);
    let mantissa = code.shifted_left(bits, 8);
    let hidden = code.word(1 << 31);
    let mantissa = code.bit(Bitwise::BitwiseOr, mantissa, hidden);
    // Two bits before the binary point, 62 after it.
    let [low, _] = product(code, mantissa, digits[2]);
    let [high, middle] = product(code, mantissa, digits[1]);
    let [middle, carry] = sum(code, middle, low);
    let high = code.bin(Arithmetic::Add, high, carry);
    let top = code.bin(Arithmetic::Mul, mantissa, digits[0]);
    let high = code.bin(Arithmetic::Add, high, top);
    let quadrant = code.shifted_right(high, 30);
    let high = code.masked(high, 0x3FFF_FFFF);
    // A fraction above ½ is replaced by its distance from the next integer.
    let half = code.word(1 << 29);
    let is_past = code.cmp(Comparison::GreaterEqual, high, half);
    let [zero, one, all] = [0, 1, 1 << 30].map(|n| code.word(n));
    let missing_low = code.bin(Arithmetic::Sub, zero, middle);
    let is_whole = code.cmp(Comparison::Equal, middle, zero);
    let borrow = code.select(is_whole, zero, one);
    let missing = code.bin(Arithmetic::Sub, all, high);
    let missing = code.bin(Arithmetic::Sub, missing, borrow);
    let high = code.select(is_past, missing, high);
    let low = code.select(is_past, missing_low, middle);
    let next = code.bin(Arithmetic::Add, quadrant, one);
    let quadrant = code.select(is_past, next, quadrant);
    let r = fraction(code, high, low);
    let minus_r = code.un(Arithmetic::Neg, r);
    let r = code.select(is_past, minus_r, r);
    // A negative angle turns in the other direction.
    let sign = code.shifted_right(bits, 31);
    let is_negative = code.cmp(Comparison::Equal, sign, one);
    let back = code.bin(Arithmetic::Sub, zero, quadrant);
    let quadrant = code.select(is_negative, back, quadrant);
    let minus_r = code.un(Arithmetic::Neg, r);
    (quadrant, code.select(is_negative, minus_r, r))
}

/// The 96 bits of 2/π from which the product starts two bits before its binary point.
fn digits_at(code: &mut Code, exponent: Variable) -> [Variable; 3] {
    let number = code.shifted_right(exponent, 5);
    let rest = code.masked(exponent, 31);
    let zero = code.word(0);
    let words: Vec<Variable> = (0..4)
        .map(|place| {
            (0..5).fold(zero, |word, first: usize| {
                let digits = (first + place).checked_sub(1).and_then(|i| DIGITS.get(i));
                let digits = code.word(digits.copied().unwrap_or_default());
                let here = code.word(first as u32);
                let is_here = code.cmp(Comparison::Equal, number, here);
                code.select(is_here, digits, word)
            })
        })
        .collect();
    // A shift by the width is undefined, so the lower word is shifted in two steps.
    let most = code.word(31);
    let back = code.bin(Arithmetic::Sub, most, rest);
    [0, 1, 2].map(|i| {
        let moved = code.bit(Bitwise::ShiftLeft, words[i], rest);
        let next = code.shifted_right(words[i + 1], 1);
        let next = code.bit(Bitwise::ShiftRight, next, back);
        code.bit(Bitwise::BitwiseOr, moved, next)
    })
}

/// The upper and the lower word of a product.
fn product(code: &mut Code, a: Variable, b: Variable) -> [Variable; 2] {
    let [a_low, b_low] = [a, b].map(|x| code.masked(x, 0xFFFF));
    let [a_high, b_high] = [a, b].map(|x| code.shifted_right(x, 16));
    let pairs = [(a_low, b_low), (a_low, b_high), (a_high, b_low), (a_high, b_high)];
    let [lowest, one, other, highest] = pairs.map(|(a, b)| code.bin(Arithmetic::Mul, a, b));
    let above = code.shifted_right(lowest, 16);
    let [one_low, other_low] = [one, other].map(|x| code.masked(x, 0xFFFF));
    let middle = code.bin(Arithmetic::Add, above, one_low);
    let middle = code.bin(Arithmetic::Add, middle, other_low);
    let low = code.masked(lowest, 0xFFFF);
    let up = code.shifted_left(middle, 16);
    let low = code.bit(Bitwise::BitwiseOr, up, low);
    let carries = [one, other, middle].map(|x| code.shifted_right(x, 16));
    let high = carries.into_iter().fold(highest, |sum, carry| code.bin(Arithmetic::Add, sum, carry));
    [high, low]
}

/// The sum of two words, and its carry.
fn sum(code: &mut Code, a: Variable, b: Variable) -> [Variable; 2] {
    let total = code.bin(Arithmetic::Add, a, b);
    let is_carried = code.less(total, a);
    let [zero, one] = [0, 1].map(|n| code.word(n));
    [total, code.select(is_carried, one, zero)]
}

/// `(high·2³² + low)·2⁻⁶²·π/2`
fn fraction(code: &mut Code, high: Variable, low: Variable) -> Variable {
    let [high, low] = [high, low].map(|word| code.cast(F32, word));
    let [up, down, quarter] =
        [(-30f64).exp2(), (-62f64).exp2(), std::f64::consts::FRAC_PI_2].map(|value| code.float(F32, value));
    let low = code.bin(Arithmetic::Mul, low, down);
    let turns = code.fma(high, up, low);
    code.bin(Arithmetic::Mul, turns, quarter)
}

impl Code<'_> {
    fn word(&mut self, value: u32) -> Variable {
        self.int(U32, i64::from(value))
    }

    fn masked(&mut self, x: Variable, mask: u32) -> Variable {
        let mask = self.word(mask);
        self.bit(Bitwise::BitwiseAnd, x, mask)
    }

    fn shifted_left(&mut self, x: Variable, by: u32) -> Variable {
        let by = self.word(by);
        self.bit(Bitwise::ShiftLeft, x, by)
    }

    fn shifted_right(&mut self, x: Variable, by: u32) -> Variable {
        let by = self.word(by);
        self.bit(Bitwise::ShiftRight, x, by)
    }
}
