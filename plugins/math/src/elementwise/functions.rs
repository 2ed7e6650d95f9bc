//! Exponentials, roots, trigonometric and error functions.

use engine_core::ir::{DType, E};
use engine_core::op::{Grad, OpForm};
use std::f64::consts::{LN_2, LN_10, SQRT_2};

/// eˣ; beyond the largest float it is infinite.
pub fn exp() -> OpForm {
    OpForm::unary("exp", "Raises e to the power of each element.", DType::is_float, |x| x.exp()).example(
        "overflow is infinite",
        "exp(a)",
        &[("f32[4]", &[0.0, 0.5, -2.0, 1000.0])],
        &[("f32[4]", &[1.0, 1.6487212707001282, 0.1353352832366127, f64::INFINITY])],
    )
}

/// eˣ - 1, accurate near 0.
pub fn expm1() -> OpForm {
    OpForm::unary(
        "expm1",
        "Raises e to the power of each element and subtracts one, accurately near zero.",
        DType::is_float,
        |x| x.expm1(),
    )
    .example(
        "accurate near zero",
        "expm1(a)",
        &[("f32[3]", &[1e-06, 0.5, -1.0])],
        &[("f32[3]", &[1.000000497475407e-06, 0.6487212707001282, -0.6321205588285577])],
    )
}

/// The natural logarithm: -∞ at 0, NaN below.
pub fn log() -> OpForm {
    OpForm::unary("log", "Takes the natural logarithm of each element.", DType::is_float, |x| x.log())
        .tested_on(0.5, 3.0)
        .example(
            "minus infinity at zero, NaN below",
            "log(a)",
            &[("f32[4]", &[1.0, 7.0, 0.0, -1.0])],
            &[("f32[4]", &[0.0, 1.9459101490553132, f64::NEG_INFINITY, f64::NAN])],
        )
}

/// ln(1 + x), accurate near 0.
pub fn log1p() -> OpForm {
    OpForm::unary(
        "log1p",
        "Takes the natural logarithm of one plus each element, accurately near zero.",
        DType::is_float,
        |x| x.log1p(),
    )
    .tested_on(-0.5, 3.0)
    .example(
        "accurate near zero",
        "log1p(a)",
        &[("f32[3]", &[1e-06, 0.5, -1.0])],
        &[("f32[3]", &[9.999994974755786e-07, 0.4054651081081644, f64::NEG_INFINITY])],
    )
}

/// 2ˣ; beyond the largest float it is infinite. The gradient is g·y·ln 2.
pub fn exp2() -> OpForm {
    OpForm::unary("exp2", "Raises 2 to the power of each element.", DType::is_float, |x| E::from(2.0).pow(x))
        .grad(Grad::by_result(|y, g| g * y * LN_2))
        .example(
            "whole powers are exact",
            "exp2(a)",
            &[("f32[4]", &[3.0, 0.5, -2.0, 2000.0])],
            &[("f32[4]", &[8.0, SQRT_2, 0.25, f64::INFINITY])],
        )
}

/// The logarithm to base 2: -∞ at 0, NaN below. That of a power of 2 is a whole number.
pub fn log2() -> OpForm {
    OpForm::unary("log2", "Takes the logarithm to base 2 of each element.", DType::is_float, |x| {
        logarithm(x, 2.0)
    })
    .grad(Grad::by_operand(|x, g| g / (x * LN_2)))
    .tested_on(0.5, 3.0)
    .example(
        "minus infinity at zero, NaN below",
        "log2(a)",
        &[("f32[4]", &[8.0, 7.0, 0.0, -1.0])],
        &[("f32[4]", &[3.0, 2.807354922057604, f64::NEG_INFINITY, f64::NAN])],
    )
}

/// The logarithm to base 10: -∞ at 0, NaN below. That of a power of 10 is a whole number.
pub fn log10() -> OpForm {
    OpForm::unary("log10", "Takes the logarithm to base 10 of each element.", DType::is_float, |x| {
        logarithm(x, 10.0)
    })
    .grad(Grad::by_operand(|x, g| g / (x * LN_10)))
    .tested_on(0.5, 3.0)
    .example(
        "minus infinity at zero, NaN below",
        "log10(a)",
        &[("f32[4]", &[1000.0, 7.0, 0.0, -1.0])],
        &[("f32[4]", &[3.0, 0.8450980400142568, f64::NEG_INFINITY, f64::NAN])],
    )
}

/// A multiple of the natural logarithm is rounded twice. Powers of the base get the whole number itself, so that `floor`
/// of the result is right. Subnormal numbers may equal a power that is not near.
fn logarithm(x: E, base: f64) -> E {
    let rounded = x.log() * base.ln().recip();
    let whole = rounded.round();
    let is_near = (whole - rounded).abs().lt(1e-4);
    E::select(is_near & E::from(base).pow(whole).eq(x), whole, rounded)
}

/// √x; NaN below 0. The gradient g/(2y) is infinite at 0.
pub fn sqrt() -> OpForm {
    OpForm::unary("sqrt", "Takes the square root of each element.", DType::is_float, |x| x.sqrt())
        .tested_on(0.5, 3.0)
        .example(
            "NaN below zero",
            "sqrt(a)",
            &[("f32[4]", &[4.0, 7.0, 0.0, -1.0])],
            &[("f32[4]", &[2.0, 2.6457513110645907, 0.0, f64::NAN])],
        )
}

/// 1/√x; infinite at 0. The gradient is -½·g·y³.
pub fn rsqrt() -> OpForm {
    OpForm::unary("rsqrt", "Takes one over the square root of each element.", DType::is_float, |x| x.rsqrt())
        .tested_on(0.5, 3.0)
        .example(
            "infinite at zero",
            "rsqrt(a)",
            &[("f32[4]", &[4.0, 7.0, 0.0, -1.0])],
            &[("f32[4]", &[0.5, 0.3779644730092272, f64::INFINITY, f64::NAN])],
        )
}

/// sin x, of radians, accurate for large x too; NaN at ±∞.
pub fn sin() -> OpForm {
    OpForm::unary("sin", "Takes the sine of each element.", DType::is_float, |x| x.sin()).example(
        "also far from zero",
        "sin(a)",
        &[("f32[4]", &[0.0, 0.5, -2.0, 100000.0])],
        &[("f32[4]", &[0.0, 0.479425538604203, -0.9092974268256817, 0.03574879797201651])],
    )
}

/// cos x, of radians, accurate for large x too; NaN at ±∞.
pub fn cos() -> OpForm {
    OpForm::unary("cos", "Takes the cosine of each element.", DType::is_float, |x| x.cos()).example(
        "also far from zero",
        "cos(a)",
        &[("f32[4]", &[0.0, 0.5, -2.0, 100000.0])],
        &[("f32[4]", &[1.0, 0.8775825618903728, -0.4161468365471424, -0.9993608074382124])],
    )
}

/// tanh x, ±1 for large |x|. The gradient is g·(1 - y²).
pub fn tanh() -> OpForm {
    OpForm::unary("tanh", "Takes the hyperbolic tangent of each element.", DType::is_float, |x| x.tanh())
        .example(
            "saturates",
            "tanh(a)",
            &[("f32[4]", &[0.0, 0.5, -2.0, 100.0])],
            &[("f32[4]", &[0.0, 0.46211715726000974, -0.9640275800758169, 1.0])],
        )
}

/// The error function 2/√π · ∫₀ˣ exp(-t²) dt.
pub fn erf() -> OpForm {
    OpForm::unary("erf", "Takes the error function of each element.", DType::is_float, |x| x.erf()).example(
        "saturates",
        "erf(a)",
        &[("f32[4]", &[0.0, 0.5, -2.0, 100.0])],
        &[("f32[4]", &[0.0, 0.5204998778130465, -0.9953222650189527, 1.0])],
    )
}
