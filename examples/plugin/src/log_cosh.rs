//! `log_cosh`: a loss. Losses and metrics of training are ops.

use engine::core::ir::DType;
use engine::core::op::{Grad, OpForm};

/// log(cosh x), computed without overflow as |x| + log(1 + e^(-2|x|)) - log 2. The gradient is tanh x.
pub fn log_cosh() -> OpForm {
    OpForm::unary(
        "log_cosh",
        "The logarithm of the hyperbolic cosine: a loss that is quadratic near 0 and linear far from it.",
        DType::is_float,
        |x| x.abs() + (x.abs() * -2.0).exp().log1p() - std::f64::consts::LN_2,
    )
    .grad(Grad::by_operand(|x, g| g * x.tanh()))
    .example(
        "of both signs",
        "log_cosh(a)",
        &[("f32[3]", &[-1.0, 0.0, 100.0])],
        &[("f32[3]", &[0.4337808304830271, 0.0, 99.30685281944005])],
    )
}
