//! `relu`.

use crate::takes;
use engine_core::ir::E;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// max(x, 0); NaN stays NaN. The gradient is g where y > 0, else 0. It depends on the result alone, so the backward
/// pass does not need the operand.
pub fn relu() -> OpForm {
    Unary {
        name: "relu",
        summary: "Replaces negative elements by zero.",
        takes: takes::numbers,
        formula: |x| x.max(0.0),
        grad: Grad::by_result(|y, g| E::select(y.gt(0.0), g, 0.0)),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example {
            title: "zero and NaN stay",
            call: "relu(a)",
            inputs: vec![("f32[4]", vec![-1.0, 0.0, 2.0, f64::NAN])],
            outputs: vec![("f32[4]", vec![0.0, 0.0, 2.0, f64::NAN])],
        }],
    }
    .form("activation")
}
