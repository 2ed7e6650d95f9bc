//! `reciprocal`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// 1/x; infinite at 0, with the sign of the zero. The gradient is -g·y².
pub fn reciprocal() -> OpForm {
    Unary {
        name: "reciprocal",
        summary: "Takes one over each element.",
        takes: DType::is_float,
        formula: |x| x.recip(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 3.0), avoid: &[] },
        examples: vec![Example {
            title: "infinite at zero",
            call: "reciprocal(a)",
            inputs: vec![("f32[3]", vec![4.0, -0.5, 0.0])],
            outputs: vec![("f32[3]", vec![0.25, -2.0, f64::INFINITY])],
        }],
    }
    .form("elementwise")
}
