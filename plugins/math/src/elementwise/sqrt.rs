//! `sqrt`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// √x; NaN below 0. The gradient g/(2y) is infinite at 0.
pub fn sqrt() -> OpForm {
    Unary {
        name: "sqrt",
        summary: "Takes the square root of each element.",
        takes: DType::is_float,
        formula: |x| x.sqrt(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 3.0), avoid: &[] },
        examples: vec![Example {
            title: "NaN below zero",
            call: "sqrt(a)",
            inputs: vec![("f32[4]", vec![4.0, 7.0, 0.0, -1.0])],
            outputs: vec![("f32[4]", vec![2.0, 2.6457513110645907, 0.0, f64::NAN])],
        }],
    }
    .form("elementwise")
}
