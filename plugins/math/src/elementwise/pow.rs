//! `pow`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// `aᵇ`. A negative base with a fractional exponent is NaN, 0⁰ is 1. By `a` the gradient is g·b·aᵇ⁻¹ (0 where b = 0), by `b` it is
/// g·aᵇ·ln a (0 where a = 0 and b ≥ 0).
pub fn pow() -> OpForm {
    Binary {
        name: "pow",
        summary: "Raises the first tensor to the power of the second.",
        types: TypeRule::Broadcast { allowed: takes::numbers },
        formula: |a, b| a.pow(b),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "also of zero and of negative bases",
            call: "pow(a, b)",
            inputs: vec![
                ("f32[5]", vec![2.0, 0.0, -2.0, -2.0, 4.0]),
                ("f32[5]", vec![3.0, 0.0, 2.0, 0.5, -0.5]),
            ],
            outputs: vec![("f32[5]", vec![8.0, 1.0, 4.0, f64::NAN, 0.5])],
        }],
    }
    .form("elementwise")
}
