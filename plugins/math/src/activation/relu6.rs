//! `relu6`.

use crate::takes;
use engine_core::ir::E;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// min(max(x, 0), 6); NaN stays NaN. The gradient is g strictly inside, else 0.
pub fn relu6() -> OpForm {
    Unary {
        name: "relu6",
        summary: "Clips each element to between 0 and 6.",
        takes: takes::numbers,
        formula: |x| x.max(0.0).min(6.0),
        grad: Grad::by_result(|y, g| E::select(y.gt(0.0) & y.lt(6.0), g, 0.0)),
        check: GradCheck::FiniteDifferences { range: (-2.0, 8.0), avoid: &[0.0, 6.0] },
        examples: vec![Example {
            title: "below, at the ends, inside and above",
            call: "relu6(a)",
            inputs: vec![("f32[5]", vec![-1.0, 0.0, 2.5, 6.0, 7.0])],
            outputs: vec![("f32[5]", vec![0.0, 0.0, 2.5, 6.0, 6.0])],
        }],
    }
    .form("activation")
}
