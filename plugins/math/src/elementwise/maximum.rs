//! `maximum`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// The larger element; NaN if either is NaN. Where both are equal the gradient goes to `a`.
pub fn maximum() -> OpForm {
    Binary {
        name: "maximum",
        summary: "Takes the larger of two elements; NaN wins.",
        types: TypeRule::Broadcast { allowed: takes::numbers },
        formula: |a, b| a.max(b),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "NaN wins over numbers",
            call: "maximum(a, b)",
            inputs: vec![
                ("f32[4]", vec![1.0, f64::NAN, 3.0, -1.0]),
                ("f32[4]", vec![2.0, 0.0, f64::NAN, -2.0]),
            ],
            outputs: vec![("f32[4]", vec![2.0, f64::NAN, f64::NAN, -1.0])],
        }],
    }
    .form("elementwise")
}
