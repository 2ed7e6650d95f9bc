//! `sin`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// sin x, of radians, accurate for large x too; NaN at ±∞.
pub fn sin() -> OpForm {
    Unary {
        name: "sin",
        summary: "Takes the sine of each element.",
        takes: DType::is_float,
        formula: |x| x.sin(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "also far from zero",
            call: "sin(a)",
            inputs: vec![("f32[4]", vec![0.0, 0.5, -2.0, 100000.0])],
            outputs: vec![("f32[4]", vec![0.0, 0.479425538604203, -0.9092974268256817, 0.03574879797201651])],
        }],
    }
    .form("elementwise")
}
