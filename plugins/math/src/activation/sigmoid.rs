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

/// The formula for one element. Where e⁻ˣ overflows to infinity, the result is 0, which is the nearest number that is
/// not subnormal. A derivative of this formula would be a product of 0 and infinity there: the op brings its own.
pub fn curve(x: E) -> E {
    (1.0 + (-x).exp()).recip()
}

/// The formula for ops without a gradient of their own. Its exponent is never positive, so the derivative does not
/// overflow either.
pub fn differentiable_curve(x: E) -> E {
    let is_right = x.ge(0.0);
    let decay = E::select(is_right, -x, x).exp();
    let right = (1.0 + decay).recip();
    E::select(is_right, right, decay * right)
}
