//! Rounding to integers.

use crate::takes;
use engine_core::ir::{DType, E};
use engine_core::op::OpForm;

/// The largest integer not above x. Integers pass through; the gradient is 0.
pub fn floor() -> OpForm {
    rounding("floor", "floor(a)", "Rounds each element down.", |x| x.floor(), [2., -3., 0., 1., -1.])
}

/// The smallest integer not below x. Integers pass through; the gradient is 0.
pub fn ceil() -> OpForm {
    rounding("ceil", "ceil(a)", "Rounds each element up.", |x| x.ceil(), [3., -2., 1., 2., -0.])
}

/// x without its fraction. Integers pass through; the gradient is 0.
pub fn trunc() -> OpForm {
    rounding("trunc", "trunc(a)", "Rounds each element towards zero.", |x| x.trunc(), [2., -2., 0., 1., -0.])
}

/// The nearest integer, halves to the even one. Integers pass through; the gradient is 0.
pub fn round() -> OpForm {
    let summary = "Rounds each element to the nearest integer, halves to even.";
    rounding("round", "round(a)", summary, |x| x.round(), [2., -2., 0., 2., -0.])
}

/// x - trunc x, with the sign of x; NaN at ±∞. The gradient is g.
pub fn frac() -> OpForm {
    OpForm::unary("frac", "Takes the fraction of each element.", DType::is_float, |x| x - x.trunc())
        .avoiding(&[-2.0, -1.0, 0.0, 1.0, 2.0])
        .example(
            "of both signs",
            "frac(a)",
            &[("f32[5]", &[2.5, -2.5, 0.5, 1.75, -0.25])],
            &[("f32[5]", &[0.5, -0.5, 0.5, 0.75, -0.25])],
        )
}

/// `rounded` holds the results for 2.5, -2.5, 0.5, 1.75 and -0.25.
fn rounding(name: &str, call: &'static str, summary: &str, formula: fn(E) -> E, rounded: [f64; 5]) -> OpForm {
    OpForm::unary(name, summary, takes::numbers, formula)
        .avoiding(&[-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0])
        .example(
            "halves and others",
            call,
            &[("f32[5]", &[2.5, -2.5, 0.5, 1.75, -0.25])],
            &[("f32[5]", &rounded)],
        )
}
