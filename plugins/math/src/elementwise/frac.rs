//! `frac`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// x - trunc x, with the sign of x; NaN at ±∞. The gradient is g.
pub fn frac() -> OpForm {
    Unary {
        name: "frac",
        summary: "Takes the fraction of each element.",
        takes: DType::is_float,
        formula: |x| x - x.trunc(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[-2.0, -1.0, 0.0, 1.0, 2.0] },
        examples: vec![Example {
            title: "of both signs",
            call: "frac(a)",
            inputs: vec![("f32[5]", vec![2.5, -2.5, 0.5, 1.75, -0.25])],
            outputs: vec![("f32[5]", vec![0.5, -0.5, 0.5, 0.75, -0.25])],
        }],
    }
    .form("elementwise")
}
