//! The Kullback-Leibler divergence.

use super::reduction::{REDUCTIONS, elementwise, reduction};
use engine_core::ir::E;
use engine_core::op::{AttrSpec, OpForm};

/// `t·(ln t - x)` for log-probabilities x and probabilities t, 0 where t is 0, by default averaged over all elements
/// (PyTorch's `kl_div`). `batchmean` is the divergence itself, averaged over rows. With `log_target`, targets are
/// logarithms too: `eᵗ·(t - x)`.
pub fn kl_div() -> OpForm {
    let form = elementwise(
        "kl_div",
        "Computes the divergence of targets from log-probabilities term by term, by default averaged.",
        ["log-probabilities", "probabilities of the same type"],
        |x, target, attrs| match attrs.bool("log_target") {
            true => target.exp() * (target - x),
            // The logarithm of 0 would make the product and its gradient NaN.
            false => target * (E::select(target.eq(0.0), 1.0, target).log() - x),
        },
    );
    let attrs = vec![
        reduction(&[REDUCTIONS, &["batchmean"]].concat()),
        AttrSpec::flag("log_target", "whether targets are log-probabilities", false),
    ];
    OpForm { attrs, ..form }.tested_on(0.1, 2.0).example(
        "certainty against two equal classes",
        "kl_div(a, b, reduction=\"batchmean\")",
        &[("f32[1, 2]", &[-std::f64::consts::LN_2; 2]), ("f32[1, 2]", &[1.0, 0.0])],
        &[("f32[]", &[std::f64::consts::LN_2])],
    )
}
