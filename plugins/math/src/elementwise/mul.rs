//! `mul`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// `a · b`. Integers wrap around.
pub fn mul() -> OpForm {
    Binary {
        name: "mul",
        summary: "Multiplies two tensors element by element.",
        types: TypeRule::Broadcast { allowed: takes::numbers },
        formula: |a, b| a * b,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "element by element",
            call: "mul(a, b)",
            inputs: vec![("f32[3]", vec![1.5, -2.0, 0.25]), ("f32[3]", vec![4.0, 0.5, -1.0])],
            outputs: vec![("f32[3]", vec![6.0, -1.0, -0.25])],
        }],
    }
    .form("elementwise")
}
