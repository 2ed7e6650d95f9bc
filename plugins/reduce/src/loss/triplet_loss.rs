//! The triplet loss.

use super::distance::{distance, eps, row_type};
use super::reduction::{REDUCTIONS, positive_part, reduced, reduced_type, reduction};
use engine_core::op::{AttrSpec, OpForm};

/// `max(0, m + d(a, p) - d(a, n))` for rows a, p and n, the distance `d(x, y) = ‖x - y + ε‖₂` and a margin m, by default
/// averaged (Schroff et al. 2015, as PyTorch's `triplet_margin_loss`).
pub fn triplet_loss() -> OpForm {
    OpForm::new(
        "triplet_loss",
        "Takes the part by which negative rows miss a margin beyond positive ones, by default averaged.",
    )
    .input("anchor", "rows along the last axis")
    .input("positive", "a row near each anchor, of the same type")
    .input("negative", "a row far from each anchor, of the same type")
    .results(&["loss"])
    .attr(AttrSpec::float("margin", "how much farther the negative row should be", 1.0))
    .attr(eps())
    .attr(reduction(REDUCTIONS))
    .types(|types, attrs| Ok(vec![reduced_type(&row_type("triplet_loss", types)?, attrs)]))
    .expand(|b, call| {
        let (eps, margin) = (call.attrs.float("eps"), call.attrs.float("margin"));
        let [anchor, positive, negative] = [0, 1, 2].map(|operand| b.widen(call.inputs[operand]));
        let near = distance(b, anchor, positive, eps);
        let far = distance(b, anchor, negative, eps);
        let losses = b.map(&[near, far], |d| positive_part(d[0] - d[1] + margin));
        vec![reduced(b, losses, b.dtype(call.inputs[0]), call.attrs)]
    })
    .example(
        "distances of 5 and 4, then of 0 and 2",
        "triplet_loss(a, b, c, eps=0.0, reduction=\"none\")",
        &[
            ("f32[2, 2]", &[0.0, 0.0, 1.0, 1.0]),
            ("f32[2, 2]", &[3.0, 4.0, 1.0, 1.0]),
            ("f32[2, 2]", &[4.0, 0.0, 1.0, 3.0]),
        ],
        &[("f32[2]", &[2.0, 0.0])],
    )
}
