//! `tanh`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// tanh x, ±1 for large |x|. The gradient is g·(1 - y²).
pub fn tanh() -> OpForm {
    Unary {
        name: "tanh",
        summary: "Takes the hyperbolic tangent of each element.",
        takes: DType::is_float,
        formula: |x| x.tanh(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "saturates",
            call: "tanh(a)",
            inputs: vec![("f32[4]", vec![0.0, 0.5, -2.0, 100.0])],
            outputs: vec![("f32[4]", vec![0.0, 0.46211715726000974, -0.9640275800758169, 1.0])],
        }],
    }
    .form("elementwise")
}
