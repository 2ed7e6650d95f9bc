//! `square`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// x². Integers wrap around.
pub fn square() -> OpForm {
    Unary {
        name: "square",
        summary: "Squares each element.",
        takes: takes::numbers,
        formula: |x| x * x,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "of both signs",
            call: "square(a)",
            inputs: vec![("f32[3]", vec![1.5, -2.0, 0.25])],
            outputs: vec![("f32[3]", vec![2.25, 4.0, 0.0625])],
        }],
    }
    .form("elementwise")
}
