//! `round`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// The nearest integer, halves to the even one. Integers pass through; the gradient is 0.
pub fn round() -> OpForm {
    Unary {
        name: "round",
        summary: "Rounds each element to the nearest integer, halves to even.",
        takes: takes::numbers,
        formula: |x| x.round(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences {
            range: (-2.0, 2.0),
            avoid: &[-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0],
        },
        examples: vec![Example {
            title: "halves and others",
            call: "round(a)",
            inputs: vec![("f32[5]", vec![2.5, -2.5, 0.5, 1.75, -0.25])],
            outputs: vec![("f32[5]", vec![2.0, -2.0, 0.0, 2.0, -0.0])],
        }],
    }
    .form("elementwise")
}
