//! `hardsigmoid`.

use engine_core::ir::{DType, E};
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// x/6 + ½, clipped to between 0 and 1. The gradient is g/6 for x strictly between -3 and 3, else 0.
pub fn hardsigmoid() -> OpForm {
    Unary {
        name: "hardsigmoid",
        summary: "Approximates the sigmoid by three straight lines.",
        takes: DType::is_float,
        formula: |x| (x / 6.0 + 0.5).max(0.0).min(1.0),
        grad: Grad::by_operand(|x, g| E::select(x.gt(-3.0) & x.lt(3.0), g / 6.0, 0.0)),
        check: GradCheck::FiniteDifferences { range: (-4.0, 4.0), avoid: &[-3.0, 3.0] },
        examples: vec![Example {
            title: "outside, at the ends and inside",
            call: "hardsigmoid(a)",
            inputs: vec![("f32[6]", vec![-4.0, -3.0, 0.0, 1.5, 3.0, 4.0])],
            outputs: vec![("f32[6]", vec![0.0, 0.0, 0.5, 0.75, 1.0, 1.0])],
        }],
    }
    .form("activation")
}
