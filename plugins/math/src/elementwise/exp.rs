//! `exp`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// eˣ; beyond the largest float it is infinite.
pub fn exp() -> OpForm {
    Unary {
        name: "exp",
        summary: "Raises e to the power of each element.",
        takes: DType::is_float,
        formula: |x| x.exp(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "overflow is infinite",
            call: "exp(a)",
            inputs: vec![("f32[4]", vec![0.0, 0.5, -2.0, 1000.0])],
            outputs: vec![("f32[4]", vec![1.0, 1.6487212707001282, 0.1353352832366127, f64::INFINITY])],
        }],
    }
    .form("elementwise")
}
