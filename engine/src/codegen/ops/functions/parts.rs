//! Steps that the functions of both float types share.

use crate::codegen::ir::builder::{Code, F32, F64, I32, U32, U64};
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, ElemType, Variable};

impl Code<'_> {
    /// A constant of `f32`.
    pub(crate) fn f(&mut self, value: f64) -> Variable {
        self.float(F32, value)
    }

    pub(crate) fn plus(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Add, a, b)
    }

    pub(crate) fn minus(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Sub, a, b)
    }

    pub(crate) fn times(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Mul, a, b)
    }

    pub(crate) fn over(&mut self, a: Variable, b: Variable) -> Variable {
        self.bin(Arithmetic::Div, a, b)
    }

    pub(crate) fn at_most(&mut self, x: Variable, limit: f64) -> Variable {
        let limit = self.float(x.elem_type(), limit);
        let is_above = self.cmp(Comparison::Greater, x, limit);
        self.select(is_above, limit, x)
    }

    pub(crate) fn at_least(&mut self, x: Variable, limit: f64) -> Variable {
        let limit = self.float(x.elem_type(), limit);
        let is_below = self.less(x, limit);
        self.select(is_below, limit, x)
    }

    pub(crate) fn is_equal(&mut self, x: Variable, value: f64) -> Variable {
        let value = self.float(x.elem_type(), value);
        self.cmp(Comparison::Equal, x, value)
    }

    /// `c₀ + c₁x + c₂x² + …`
    pub(crate) fn horner(&mut self, x: Variable, coefficients: impl AsRef<[f64]>) -> Variable {
        let coefficients = coefficients.as_ref();
        let elem = x.elem_type();
        let last = self.float(elem, coefficients.last().copied().unwrap_or_default());
        coefficients.iter().rev().skip(1).fold(last, |sum, &coefficient| {
            let coefficient = self.float(elem, coefficient);
            self.fma(sum, x, coefficient)
        })
    }

    /// 2ⁿ for −126 ≤ n ≤ 127.
    pub(crate) fn power_of_two(&mut self, n: Variable) -> Variable {
        let bias = self.int(I32, 127);
        let exponent = self.bin(Arithmetic::Add, n, bias);
        let exponent = self.cast(U32, exponent);
        let shift = self.int(U32, 23);
        let bits = self.bit(Bitwise::ShiftLeft, exponent, shift);
        self.reinterpret(F32, bits)
    }

    pub(crate) fn with_sign_of(&mut self, size: Variable, x: Variable) -> Variable {
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
pub fn word_of(x: Variable) -> ElemType {
    if x.elem_type() == F64 { U64 } else { U32 }
}

/// The logarithm at the ends of its domain, else `inside`.
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

/// sin(r + quadrant·π/2) for |r| ≤ π/4, from the tails of both series. The quadrant is an integer as wide as r.
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
