//! `sign`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// -1, 0 or 1; NaN stays NaN. The gradient is 0.
pub fn sign() -> OpForm {
    Unary {
        name: "sign",
        summary: "Takes the sign of each element.",
        takes: takes::numbers,
        formula: |x| x.sign(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example {
            title: "NaN stays",
            call: "sign(a)",
            inputs: vec![("f32[4]", vec![2.5, 0.0, -3.0, f64::NAN])],
            outputs: vec![("f32[4]", vec![1.0, 0.0, -1.0, f64::NAN])],
        }],
    }
    .form("elementwise")
}
