//! The mean absolute error.

use super::reduction::elementwise;
use engine_core::op::OpForm;

/// `|x - t|`, by default averaged (PyTorch's `l1_loss`). The slope at equal elements is 0.
pub fn l1_loss() -> OpForm {
    elementwise(
        "l1_loss",
        "Takes the distance of predictions and targets, by default averaged.",
        ["predictions", "targets of the same type"],
        |x, target, _| (x - target).abs(),
    )
    .example(
        "the mean of two",
        "l1_loss(a, b)",
        &[("f32[2]", &[1.0, 5.0]), ("f32[2]", &[2.0, 2.0])],
        &[("f32[]", &[2.0])],
    )
}
