//! `trunc`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// x without its fraction. Integers pass through; the gradient is 0.
pub fn trunc() -> OpForm {
    Unary {
        name: "trunc",
        summary: "Rounds each element towards zero.",
        takes: takes::numbers,
        formula: |x| x.trunc(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences {
            range: (-2.0, 2.0),
            avoid: &[-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0],
        },
        examples: vec![Example {
            title: "halves and others",
            call: "trunc(a)",
            inputs: vec![("f32[5]", vec![2.5, -2.5, 0.5, 1.75, -0.25])],
            outputs: vec![("f32[5]", vec![2.0, -2.0, 0.0, 1.0, -0.0])],
        }],
    }
    .form("elementwise")
}
