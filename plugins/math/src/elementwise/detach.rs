//! `detach`.

use crate::takes;
use engine_core::op::{Grad, GradCheck, OpForm};

/// The elements unchanged. No gradient passes, so the operand counts as a constant (PyTorch's `detach`).
pub fn detach() -> OpForm {
    OpForm::unary("detach", "Passes its operand through and stops its gradient.", takes::anything, |x| x)
        .grad(Grad::rule(|_, _| vec![None]))
        .check(GradCheck::Convention {
            why: "the operand counts as a constant",
            grads: vec![vec![vec![0.0, 0.0, 0.0]]],
        })
        .example(
            "the elements stay",
            "detach(a)",
            &[("f32[3]", &[1.5, -2.0, f64::INFINITY])],
            &[("f32[3]", &[1.5, -2.0, f64::INFINITY])],
        )
}
