//! `silu`.

use super::sigmoid;
use engine_core::ir::DType;
use engine_core::op::{Grad, OpForm};

/// x·σ(x), also called swish. The gradient is g·σ·(1 + x·(1 - σ)).
pub fn silu() -> OpForm {
    OpForm::unary("silu", "Multiplies each element by its sigmoid.", DType::is_float, |x| {
        // The sigmoid of the gradient, so that a kernel that needs both computes one exponential.
        let (factor, _) = super::reach::within_reach(x);
        factor * sigmoid::curve(factor)
    })
    .grad(Grad::by_operand(|x, g| {
        let (factor, inner) = super::reach::within_reach(x);
        let s = sigmoid::curve(factor);
        g * (s * (1.0 + inner * (1.0 - s)))
    }))
    .example(
        "of both signs",
        "silu(a)",
        &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
        &[("f32[5]", &[-3.720075976020836e-42, -0.2736382857095345, 0.0, 1.7615941559557646, 100.0])],
    )
}
