//! `sigmoid`.

use engine_core::ir::{DType, E};
use engine_core::op::{Grad, OpForm};

/// 1/(1 + e⁻ˣ). The gradient is g·y·(1 - y).
pub fn sigmoid() -> OpForm {
    OpForm::unary("sigmoid", "Squashes each element into (0, 1).", DType::is_float, curve)
        .grad(Grad::by_result(|y, g| g * y * (1.0 - y)))
        .example(
            "far out too",
            "sigmoid(a)",
            &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
            &[("f32[5]", &[3.7200759760208356e-44, 0.18242552380635635, 0.5, 0.8807970779778823, 1.0])],
        )
}

/// The formula for one element. The exponent is never positive, so that neither the value nor its derivative overflows.
pub fn curve(x: E) -> E {
    let is_right = x.ge(0.0);
    let decay = E::select(is_right, -x, x).exp();
    let right = (1.0 + decay).recip();
    E::select(is_right, right, decay * right)
}
