//! `expm1`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// eˣ - 1, accurate near 0.
pub fn expm1() -> OpForm {
    Unary {
        name: "expm1",
        summary: "Raises e to the power of each element and subtracts one, accurately near zero.",
        takes: DType::is_float,
        formula: |x| x.expm1(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "accurate near zero",
            call: "expm1(a)",
            inputs: vec![("f32[3]", vec![1e-06, 0.5, -1.0])],
            outputs: vec![("f32[3]", vec![1.000000497475407e-06, 0.6487212707001282, -0.6321205588285577])],
        }],
    }
    .form("elementwise")
}
