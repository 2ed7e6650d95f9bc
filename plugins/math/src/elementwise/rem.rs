//! `rem`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// The remainder of a division towards zero: it has the sign of `a`, as C's `fmod`. By zero it is NaN for floats and an
/// error while running (E0605) for integers. The gradient treats the quotient as constant.
pub fn rem() -> OpForm {
    Binary {
        name: "rem",
        summary: "Takes the remainder of a division, with the sign of the dividend.",
        types: TypeRule::Broadcast { allowed: takes::numbers },
        formula: |a, b| a % b,
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 0.9), avoid: &[] },
        examples: vec![Example {
            title: "the sign is that of the dividend",
            call: "rem(a, b)",
            inputs: vec![("f32[4]", vec![7.0, -7.0, 7.0, -7.0]), ("f32[4]", vec![4.0, 4.0, -4.0, -4.0])],
            outputs: vec![("f32[4]", vec![3.0, -3.0, 3.0, -3.0])],
        }],
    }
    .form("elementwise")
}
