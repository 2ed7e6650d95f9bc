//! `sub`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// `a - b`. Integers wrap around.
pub fn sub() -> OpForm {
    Binary {
        name: "sub",
        summary: "Subtracts the second tensor from the first.",
        types: TypeRule::Broadcast { allowed: takes::numbers },
        formula: |a, b| a - b,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "element by element",
            call: "sub(a, b)",
            inputs: vec![("f32[3]", vec![1.5, -2.0, 0.25]), ("f32[3]", vec![4.0, 0.5, -1.0])],
            outputs: vec![("f32[3]", vec![-2.5, -2.5, 1.25])],
        }],
    }
    .form("elementwise")
}
