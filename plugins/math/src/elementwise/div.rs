//! `div`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// `a / b`. Floats follow IEEE: `x / 0` is infinite, `0 / 0` is NaN. Integers divide towards zero, and a divisor
/// of 0 is an error while running (E0605).
pub fn div() -> OpForm {
    Binary {
        name: "div",
        summary: "Divides the first tensor by the second.",
        types: TypeRule::Broadcast { allowed: takes::numbers },
        formula: |a, b| a / b,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 2.0), avoid: &[] },
        examples: vec![
            Example {
                title: "a zero divides into infinities and NaN",
                call: "div(a, b)",
                inputs: vec![("f32[4]", vec![6.0, 1.0, -1.0, 0.0]), ("f32[4]", vec![4.0, 0.0, 0.0, 0.0])],
                outputs: vec![("f32[4]", vec![1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN])],
            },
            Example {
                title: "integers divide towards zero",
                call: "div(a, b)",
                inputs: vec![("i32[4]", vec![7.0, -7.0, 7.0, -7.0]), ("i32[4]", vec![2.0, 2.0, -2.0, -2.0])],
                outputs: vec![("i32[4]", vec![3.0, -3.0, -3.0, 3.0])],
            },
        ],
    }
    .form("elementwise")
}
