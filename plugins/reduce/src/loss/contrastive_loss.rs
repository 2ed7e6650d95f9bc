//! The contrastive loss of pairs.

use super::distance::{distance, eps, row_type};
use super::reduction::{REDUCTIONS, positive_part, reduced, reduced_type, reduction};
use engine_core::op::{AttrSpec, OpForm, TypeIssue};

/// `½·(t·d² + (1 - t)·max(0, m - d)²)` for the distance `d = ‖x - y + ε‖₂` of two rows, a target t of 1 for a pair that belongs
/// together and 0 for one that does not, and a margin m, by default averaged (Hadsell et al. 2006, whose target is
/// `1 - t`).
pub fn contrastive_loss() -> OpForm {
    OpForm::new(
        "contrastive_loss",
        "Draws pairs of rows together or pushes them a margin apart, by default averaged.",
    )
    .input("x", "rows along the last axis")
    .input("y", "the other row of each pair, of the same type")
    .input("target", "1 for each pair that belongs together, else 0")
    .results(&["loss"])
    .attr(AttrSpec::float("margin", "the distance from which other pairs cost nothing", 1.0))
    .attr(eps())
    .attr(reduction(REDUCTIONS))
    .types(|types, attrs| {
        let rows = row_type("contrastive_loss", &types[..2])?;
        match types[2] == rows {
            true => Ok(vec![reduced_type(&rows, attrs)]),
            false => {
                Err(TypeIssue::new(format!("`contrastive_loss` of {} and targets {}", types[0], types[2]))
                    .at(2, format!("this is {}", types[2]))
                    .help(format!("targets hold one number per pair: {rows}")))
            }
        }
    })
    .expand(|b, call| {
        let (eps, margin) = (call.attrs.float("eps"), call.attrs.float("margin"));
        let [x, y, target] = [0, 1, 2].map(|operand| b.widen(call.inputs[operand]));
        let distance = distance(b, x, y, eps);
        let losses = b.map(&[distance, target], |v| {
            let (distance, target) = (v[0], v[1]);
            let missing = positive_part(margin - distance);
            (target * distance * distance + (1.0 - target) * missing * missing) * 0.5
        });
        vec![reduced(b, losses, b.dtype(call.inputs[0]), call.attrs)]
    })
    .example(
        "a pair at distance 5 that belongs together, one at distance ½ that does not",
        "contrastive_loss(a, b, c, eps=0.0, reduction=\"none\")",
        &[
            ("f32[2, 2]", &[0.0, 0.0, 1.0, 1.0]),
            ("f32[2, 2]", &[3.0, 4.0, 1.0, 1.5]),
            ("f32[2]", &[1.0, 0.0]),
        ],
        &[("f32[2]", &[12.5, 0.125])],
    )
}
