//! `copy`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// The elements unchanged. The gradient is g.
pub fn copy() -> OpForm {
    Unary {
        name: "copy",
        summary: "Passes its operand through.",
        takes: takes::anything,
        formula: |x| x,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "NaN and infinities too",
            call: "copy(a)",
            inputs: vec![("f32[3]", vec![1.5, f64::NAN, f64::NEG_INFINITY])],
            outputs: vec![("f32[3]", vec![1.5, f64::NAN, f64::NEG_INFINITY])],
        }],
    }
    .form("elementwise")
}
