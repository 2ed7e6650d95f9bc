//! The mean squared error.

use super::reduction::elementwise;
use engine_core::op::OpForm;

/// `(x - t)²`, by default averaged (PyTorch's `mse_loss`).
pub fn mse_loss() -> OpForm {
    elementwise(
        "mse_loss",
        "Squares the difference of predictions and targets, by default averaged.",
        ["predictions", "targets of the same type"],
        |x, target, _| (x - target) * (x - target),
    )
    .example(
        "the mean of two",
        "mse_loss(a, b)",
        &[("f32[2]", &[1.0, 5.0]), ("f32[2]", &[2.0, 2.0])],
        &[("f32[]", &[5.0])],
    )
}
