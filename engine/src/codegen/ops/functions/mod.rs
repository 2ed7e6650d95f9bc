//! Functions of floats from sums and products, for languages whose own functions are inexact or missing.

pub mod division;
pub mod doubles;
pub mod large_angles;
pub mod parts;
pub mod singles;

use crate::codegen::ir::builder::{Code, F64};
use crate::ir::Unary;
use cubecl_core::ir::{Arithmetic, Comparison, ConstantValue, Variable};

/// Whether this module has the function.
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
        _ => singles::unary(code, op, x),
    }
}

/// xʸ as e^(y·ln |x|), of `f32` or `f64`. The relative error grows with the logarithm of the result, up to 1e-5
/// and 2e-13 at the ends of the types. `0⁰ = 1`, and NaN for a finite negative base with a fractional exponent.
pub fn pow(code: &mut Code, x: Variable, y: Variable) -> Variable {
    let elem = x.elem_type();
    // No function is applied to a constant, for which WGSL has no `f64` forms.
    if let Some(ConstantValue::Float(base)) = x.as_const()
        && base > 0.0
        && base.is_finite()
        && base != 1.0
    {
        let log = code.float(elem, base.ln());
        let power = code.times(y, log);
        return unary(code, Unary::Exp, power);
    }
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
    // ±1 to an infinite power is 1.
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
