//! `rsqrt`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// 1/√x; infinite at 0. The gradient is -½·g·y³.
pub fn rsqrt() -> OpForm {
    Unary {
        name: "rsqrt",
        summary: "Takes one over the square root of each element.",
        takes: DType::is_float,
        formula: |x| x.rsqrt(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 3.0), avoid: &[] },
        examples: vec![Example {
            title: "infinite at zero",
            call: "rsqrt(a)",
            inputs: vec![("f32[4]", vec![4.0, 7.0, 0.0, -1.0])],
            outputs: vec![("f32[4]", vec![0.5, 0.3779644730092272, f64::INFINITY, f64::NAN])],
        }],
    }
    .form("elementwise")
}
