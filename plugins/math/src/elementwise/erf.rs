//! `erf`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// The error function 2/√π · ∫₀ˣ exp(-t²) dt.
pub fn erf() -> OpForm {
    Unary {
        name: "erf",
        summary: "Takes the error function of each element.",
        takes: DType::is_float,
        formula: |x| x.erf(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "saturates",
            call: "erf(a)",
            inputs: vec![("f32[4]", vec![0.0, 0.5, -2.0, 100.0])],
            outputs: vec![("f32[4]", vec![0.0, 0.5204998778130465, -0.9953222650189527, 1.0])],
        }],
    }
    .form("elementwise")
}
