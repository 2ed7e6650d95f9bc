//! The hinge loss.

use super::reduction::{elementwise, positive_part};
use engine_core::op::{AttrSpec, OpForm};

/// `max(0, m - t·x)` for scores x, targets t of -1 or 1 and a margin m, by default averaged (Cortes and Vapnik 1995, as in
/// Keras and scikit-learn).
pub fn hinge_loss() -> OpForm {
    elementwise(
        "hinge_loss",
        "Takes the part by which scores miss a margin on the side of their target, by default averaged.",
        ["scores", "-1 or 1, of the same type"],
        |x, target, attrs| positive_part(attrs.float("margin") - target * x),
    )
    .attr(AttrSpec::float("margin", "the score from which the right side costs nothing", 1.0))
    .example(
        "a score beyond the margin, one within, one on the wrong side",
        "hinge_loss(a, b, reduction=\"none\")",
        &[("f32[3]", &[2.0, -0.25, 0.5]), ("f32[3]", &[1.0, -1.0, -1.0])],
        &[("f32[3]", &[0.0, 0.75, 1.5])],
    )
}
