//! Hyperbolic functions other than tanh, and their inverses.

use engine_core::ir::{DType, E};
use engine_core::op::{Grad, OpForm};
use std::f64::consts::LN_2;

/// (eˣ - e⁻ˣ)/2, accurate near 0; finite wherever the result is. The gradient is g·cosh x.
pub fn sinh() -> OpForm {
    OpForm::unary("sinh", "Takes the hyperbolic sine of each element.", DType::is_float, sine)
        .grad(Grad::by_operand(|x, g| g * cosine(x)))
        .example(
            "of both signs",
            "sinh(a)",
            &[("f32[4]", &[0.0, 0.5, -2.0, 1000.0])],
            &[("f32[4]", &[0.0, 0.5210953054937474, -3.626860407847019, f64::INFINITY])],
        )
}

/// (eˣ + e⁻ˣ)/2; finite wherever the result is. The gradient is g·sinh x.
pub fn cosh() -> OpForm {
    OpForm::unary("cosh", "Takes the hyperbolic cosine of each element.", DType::is_float, cosine)
        .grad(Grad::by_operand(|x, g| g * sine(x)))
        .example(
            "of both signs",
            "cosh(a)",
            &[("f32[4]", &[0.0, 0.5, -2.0, 1000.0])],
            &[("f32[4]", &[1.0, 1.1276259652063807, 3.7621956910836314, f64::INFINITY])],
        )
}

/// The inverse of sinh, ln(x + √(x² + 1)). The gradient is g/√(x² + 1).
pub fn asinh() -> OpForm {
    OpForm::unary("asinh", "Takes the inverse hyperbolic sine of each element.", DType::is_float, |x| {
        let size = x.abs();
        let near = (size + size * size / (1.0 + (size * size + 1.0).sqrt())).log1p();
        x.sign() * E::select(size.gt(FAR), size.log() + LN_2, near)
    })
    .grad(Grad::by_operand(|x, g| g * (x * x + 1.0).rsqrt()))
    .example(
        "near zero and far from it",
        "asinh(a)",
        &[("f32[4]", &[0.5, -2.0, 1e-6, 1e12])],
        &[("f32[4]", &[0.48121182505960347, -1.4436354751788103, 1e-06, 28.324168296488494])],
    )
}

/// The inverse of cosh for x ≥ 1, ln(x + √(x² - 1)); NaN below 1. The gradient is g/√(x² - 1).
pub fn acosh() -> OpForm {
    OpForm::unary("acosh", "Takes the inverse hyperbolic cosine of each element.", DType::is_float, |x| {
        let above = x - 1.0;
        let near = (above + (above * (above + 2.0)).sqrt()).log1p();
        E::select(x.lt(1.0), f64::NAN, E::select(x.gt(FAR), x.log() + LN_2, near))
    })
    .grad(Grad::by_operand(|x, g| g * ((x - 1.0) * (x + 1.0)).rsqrt()))
    .tested_on(1.5, 4.0)
    .example(
        "NaN below 1",
        "acosh(a)",
        &[("f32[4]", &[0.5, 1.0, 2.0, 1e12])],
        &[("f32[4]", &[f64::NAN, 0.0, 1.3169578969248166, 28.324168296488494])],
    )
}

/// The inverse of tanh, ½·ln((1 + x)/(1 - x)): infinite at ±1, NaN beyond. The gradient is g/(1 - x²).
pub fn atanh() -> OpForm {
    OpForm::unary("atanh", "Takes the inverse hyperbolic tangent of each element.", DType::is_float, |x| {
        let size = x.abs();
        x.sign() * ((size * 2.0 / (1.0 - size)).log1p() * 0.5)
    })
    .grad(Grad::by_operand(|x, g| g / ((1.0 - x) * (1.0 + x))))
    .tested_on(-0.9, 0.9)
    .example(
        "infinite at 1, NaN beyond",
        "atanh(a)",
        &[("f32[5]", &[0.5, -0.25, 1e-6, 1.0, 1.5])],
        &[(
            "f32[5]",
            &[0.5493061443340548, -0.25541281188299536, 1.0000000000003333e-06, f64::INFINITY, f64::NAN],
        )],
    )
}

/// From here on, x² + 1 is x² even in double precision. x² is still finite in single precision.
const FAR: f64 = 1e9;

/// Near 0, from eˣ - 1. Elsewhere, from the square of e^(x/2), which does not overflow before the result does.
fn sine(x: E) -> E {
    let size = x.abs();
    let above = size.expm1();
    let root = (size * 0.5).exp();
    let far = root * 0.5 * root - 0.5 / root / root;
    x.sign() * E::select(size.lt(1.0), (above + above / (above + 1.0)) * 0.5, far)
}

fn cosine(x: E) -> E {
    let root = (x * 0.5).exp();
    root * 0.5 * root + 0.5 / root / root
}
