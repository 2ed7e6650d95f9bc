//! Trigonometric functions other than sine and cosine, and their inverses.

use engine_core::grad::unbroadcast;
use engine_core::ir::{Builder, DType, E, Value};
use engine_core::op::{Grad, GradCall, OpForm};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_3, FRAC_PI_6, PI};

/// tan x, of radians; NaN at ±∞. The gradient is g·(1 + y²).
pub fn tan() -> OpForm {
    OpForm::unary("tan", "Takes the tangent of each element.", DType::is_float, |x| x.sin() / x.cos())
        .grad(Grad::by_result(|y, g| g * (1.0 + y * y)))
        .tested_on(-1.4, 1.4)
        .example(
            "of both signs",
            "tan(a)",
            &[("f32[4]", &[0.0, 0.5, -2.0, 1.5])],
            &[("f32[4]", &[0.0, 0.5463024898437905, 2.185039863261519, 14.101419947171719])],
        )
}

/// The angle from -π/2 to π/2 whose sine is x; NaN outside -1..1. The gradient is g/√(1 - x²).
pub fn asin() -> OpForm {
    OpForm::unary("asin", "Takes the inverse sine of each element.", DType::is_float, |x| {
        arctangent(x / cosine_of_arcsine(x))
    })
    .grad(Grad::by_operand(|x, g| g / cosine_of_arcsine(x)))
    .tested_on(-0.9, 0.9)
    .example(
        "NaN outside -1..1",
        "asin(a)",
        &[("f32[5]", &[-1.0, 0.0, 0.5, 1.0, 1.5])],
        &[("f32[5]", &[-FRAC_PI_2, 0.0, FRAC_PI_6, FRAC_PI_2, f64::NAN])],
    )
}

/// The angle from 0 to π whose cosine is x; NaN outside -1..1. The gradient is -g/√(1 - x²).
pub fn acos() -> OpForm {
    OpForm::unary("acos", "Takes the inverse cosine of each element.", DType::is_float, |x| {
        arctangent(((1.0 - x) / (1.0 + x)).sqrt()) * 2.0
    })
    .grad(Grad::by_operand(|x, g| -(g / cosine_of_arcsine(x))))
    .tested_on(-0.9, 0.9)
    .example(
        "NaN outside -1..1",
        "acos(a)",
        &[("f32[5]", &[-1.0, 0.0, 0.5, 1.0, 1.5])],
        &[("f32[5]", &[PI, FRAC_PI_2, FRAC_PI_3, 0.0, f64::NAN])],
    )
}

/// The angle from -π/2 to π/2 whose tangent is x. The gradient is g/(1 + x²).
pub fn atan() -> OpForm {
    OpForm::unary("atan", "Takes the inverse tangent of each element.", DType::is_float, arctangent)
        .grad(Grad::by_operand(|x, g| g / (1.0 + x * x)))
        .example(
            "infinity has a right angle",
            "atan(a)",
            &[("f32[4]", &[0.0, 0.5, -2.0, f64::INFINITY])],
            &[("f32[4]", &[0.0, 0.4636476090008061, -1.1071487177940904, FRAC_PI_2])],
        )
}

/// The angle from -π to π of the point with the ordinate `a` and the abscissa `b`. Signs of zeros and infinite
/// coordinates count as in IEEE's `atan2`. The gradients are g·b/(a² + b²) and -g·a/(a² + b²), and 0 at the origin.
pub fn atan2() -> OpForm {
    OpForm::binary(
        "atan2",
        "Takes the angle of a point from its ordinate and its abscissa.",
        DType::is_float,
        angle,
    )
    .grad(Grad::rule(by_coordinate))
    .tested_on(0.5, 2.0)
    .example(
        "in all quadrants",
        "atan2(a, b)",
        &[("f32[5]", &[1.0, 1.0, -1.0, -1.0, 0.0]), ("f32[5]", &[2.0, -2.0, -0.5, 0.5, -1.0])],
        &[("f32[5]", &[0.4636476090008061, 2.677945044588987, -2.0344439357957027, -1.1071487177940904, PI])],
    )
}

/// √(1 - x²), exact near ±1.
fn cosine_of_arcsine(x: E) -> E {
    ((1.0 - x) * (1.0 + x)).sqrt()
}

/// Beyond 1, π/2 - atan(1/x).
fn arctangent(x: E) -> E {
    let size = x.abs();
    let is_far = size.gt(1.0);
    let flat = acute(E::select(is_far, size.recip(), size));
    x.sign() * E::select(is_far, FRAC_PI_2 - flat, flat)
}

/// The inverse tangent of a ratio from 0 to 1, with a relative error below 10⁻¹¹. `tests/examples/rationals.py` fits the
/// rational function.
fn acute(ratio: E) -> E {
    const P: [f64; 5] = [
        0.0018576797027989444,
        0.10099171207718055,
        0.7417816370780025,
        1.588747583308757,
        0.9999999999983296,
    ];
    const Q: [f64; 5] =
        [0.013366316512543667, 0.2535908983058817, 1.1824752899704767, 1.922080916260384, 1.0];
    let square = ratio * ratio;
    ratio * (polynomial(square, &P) / polynomial(square, &Q))
}

/// Σ cᵢ·xⁿ⁻ⁱ by Horner's rule.
pub fn polynomial(x: E, coefficients: &[f64]) -> E {
    let (first, rest) = coefficients.split_first().unwrap_or((&0.0, &[]));
    rest.iter().fold(E::from(*first), |sum, &coefficient| sum * x + coefficient)
}

fn angle(a: E, b: E) -> E {
    let (height, width) = (a.abs(), b.abs());
    let (less, more) = (height.min(width), height.max(width));
    // The ratio of two infinities is taken as 1, that of two zeros as 0.
    let ratio = E::select(more.eq(0.0), 0.0, E::select(less.eq(more), 1.0, less / more));
    let flat = acute(ratio);
    let upright = E::select(height.gt(width), FRAC_PI_2 - flat, flat);
    let turned = E::select(is_negative(b), PI - upright, upright);
    E::select(is_negative(a), -turned, turned)
}

/// Whether the sign is that of -1, also for zeros.
fn is_negative(x: E) -> E {
    E::select(x.eq(0.0), x.recip(), x).lt(0.0)
}

fn by_coordinate(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None, None] };
    let operands = [call.inputs[0], call.inputs[1], g];
    let slope = |side: E, v: &[E]| {
        let size = v[0] * v[0] + v[1] * v[1];
        E::select(size.eq(0.0), 0.0, v[2] * (side / size))
    };
    let over_a = b.map(&operands, |v| slope(v[1], v));
    let over_b = b.map(&operands, |v| -slope(v[0], v));
    vec![Some(unbroadcast(b, over_a, call.inputs[0])), Some(unbroadcast(b, over_b, call.inputs[1]))]
}
