//! `relu_squared`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// max(x, 0)². The gradient is 2·max(x, 0)·g.
pub fn relu_squared() -> OpForm {
    Unary {
        name: "relu_squared",
        summary: "Squares the positive part of each element.",
        takes: takes::numbers,
        formula: |x| x.max(0.0) * x.max(0.0),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "of both signs",
            call: "relu_squared(a)",
            inputs: vec![("f32[4]", vec![-1.0, 0.0, 1.5, 3.0])],
            outputs: vec![("f32[4]", vec![0.0, 0.0, 2.25, 9.0])],
        }],
    }
    .form("activation")
}
