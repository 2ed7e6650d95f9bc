//! `log1p`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// ln(1 + x), accurate near 0.
pub fn log1p() -> OpForm {
    Unary {
        name: "log1p",
        summary: "Takes the natural logarithm of one plus each element, accurately near zero.",
        takes: DType::is_float,
        formula: |x| x.log1p(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-0.5, 3.0), avoid: &[] },
        examples: vec![Example {
            title: "accurate near zero",
            call: "log1p(a)",
            inputs: vec![("f32[3]", vec![1e-06, 0.5, -1.0])],
            outputs: vec![("f32[3]", vec![9.999994974755786e-07, 0.4054651081081644, f64::NEG_INFINITY])],
        }],
    }
    .form("elementwise")
}
