//! The Huber loss.

use super::reduction::elementwise;
use engine_core::ir::E;
use engine_core::op::{AttrSpec, OpForm};

/// `½d²` for `d = x - t` with |d| ≤ δ, and `δ(|d| - ½δ)` beyond, by default averaged (Huber 1964, as PyTorch's `huber_loss`).
pub fn huber_loss() -> OpForm {
    elementwise(
        "huber_loss",
        "Squares small differences of predictions and targets and takes large ones linearly, by default averaged.",
        ["predictions", "targets of the same type"],
        |x, target, attrs| {
            let (size, delta) = ((x - target).abs(), attrs.float("delta"));
            E::select(size.le(delta), size * size * 0.5, (size - 0.5 * delta) * delta)
        },
    )
    .attr(AttrSpec::float("delta", "the difference from which the loss is linear", 1.0).at_least(0.0))
    .example(
        "a small difference and a large one",
        "huber_loss(a, b, reduction=\"none\")",
        &[("f32[2]", &[2.5, 5.0]), ("f32[2]", &[2.0, 2.0])],
        &[("f32[2]", &[0.125, 2.5])],
    )
}
