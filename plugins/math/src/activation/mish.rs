//! `mish`.

use super::softplus;
use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// x·tanh(softplus x).
pub fn mish() -> OpForm {
    Unary {
        name: "mish",
        summary: "Multiplies each element by the hyperbolic tangent of its softplus.",
        takes: DType::is_float,
        formula: |x| {
            let (left, inner) = super::reach::within_reach(x);
            left * softplus::curve(inner).tanh()
        },
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "of both signs",
            call: "mish(a)",
            inputs: vec![("f32[5]", vec![-100.0, -1.5, 0.0, 2.0, 100.0])],
            outputs: vec![(
                "f32[5]",
                vec![-3.7200759760208363e-42, -0.29809974216680674, 0.0, 1.9439589595339946, 100.0],
            )],
        }],
    }
    .form("activation")
}
