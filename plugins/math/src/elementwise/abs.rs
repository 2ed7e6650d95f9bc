//! `abs`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// `|x|`. The gradient is g·sign x, 0 at 0.
pub fn abs() -> OpForm {
    Unary {
        name: "abs",
        summary: "Takes the absolute value of each element.",
        takes: takes::numbers,
        formula: |x| x.abs(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example {
            title: "of both signs",
            call: "abs(a)",
            inputs: vec![("f32[3]", vec![1.5, -2.0, 0.25])],
            outputs: vec![("f32[3]", vec![1.5, 2.0, 0.25])],
        }],
    }
    .form("elementwise")
}
