//! `neg`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// `-x`.
pub fn neg() -> OpForm {
    Unary {
        name: "neg",
        summary: "Changes the sign of each element.",
        takes: takes::signed,
        formula: |x| -x,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "of both signs",
            call: "neg(a)",
            inputs: vec![("f32[3]", vec![1.5, -2.0, 0.25])],
            outputs: vec![("f32[3]", vec![-1.5, 2.0, -0.25])],
        }],
    }
    .form("elementwise")
}
