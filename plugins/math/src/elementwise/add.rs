//! `add`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// `a + b`. Integers wrap around.
pub fn add() -> OpForm {
    Binary {
        name: "add",
        summary: "Adds two tensors.",
        types: TypeRule::Broadcast { allowed: takes::numbers },
        formula: |a, b| a + b,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "a row is added to every row",
            call: "add(a, b)",
            inputs: vec![
                ("f32[2, 3]", vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                ("f32[3]", vec![10.0, 20.0, 30.0]),
            ],
            outputs: vec![("f32[2, 3]", vec![11.0, 22.0, 33.0, 14.0, 25.0, 36.0])],
        }],
    }
    .form("elementwise")
}
