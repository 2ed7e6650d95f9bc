//! `log_cosh`: a loss. Losses and metrics of training are ops.

use engine::core::ir::DType;
use engine::core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// log(cosh x), computed without overflow as |x| + log(1 + e^(-2|x|)) - log 2. The gradient is tanh x.
pub fn log_cosh() -> OpForm {
    Unary {
        name: "log_cosh",
        summary: "The logarithm of the hyperbolic cosine: a loss that is quadratic near 0 and linear far from it.",
        takes: DType::is_float,
        formula: |x| x.abs() + (x.abs() * -2.0).exp().log1p() - std::f64::consts::LN_2,
        grad: Grad::by_operand(|x, g| g * x.tanh()),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "of both signs",
            call: "log_cosh(a)",
            inputs: vec![("f32[3]", vec![-1.0, 0.0, 100.0])],
            outputs: vec![("f32[3]", vec![0.4337808304830271, 0.0, 99.30685281944005])],
        }],
    }
    .form("my_plugin")
}
