//! Muon: momentum, orthogonalised.

use crate::newton_schulz::{attrs, expect_steps, orthogonalised};
use crate::parts::{optimizer, update_types, widened};
use engine_core::ir::{Attrs, Builder, Value};
use engine_core::op::{AttrSpec, OpForm};

const SLOTS: &[(&str, &str)] = &[("buffer", "the running sum of gradients")];

/// `v' = μ·v + g`, with `u = g + μ·v'` for Nesterov's look-ahead and `u = v'` else. A matrix decays by `1 - lr·decay`
/// and takes the step `lr · √max(1, rows/columns) · newton_schulz(u)` (Jordan et al. 2024). Axes after the first are
/// joined into columns. A vector takes the step `lr·u` without decay.
pub fn muon() -> OpForm {
    optimizer(
        "muon",
        "Takes a step along the running sum of gradients with its singular values brought near 1.",
        SLOTS,
    )
    .attr(AttrSpec::float("momentum", "how much of the buffer stays", 0.95).below(0.0, 1.0))
    .attr(AttrSpec::flag("nesterov", "look ahead along the buffer", true))
    .attr(
        AttrSpec::float("weight_decay", "share of a matrix that decays per unit of learning rate", 0.01)
            .at_least(0.0),
    )
    .attrs(attrs())
    .types(|operands, attrs| {
        expect_steps(attrs)?;
        update_types(operands)
    })
    .lower(widened(step))
    .example(
        "a vector takes a plain step",
        "muon(a, b, c, d)",
        &[("f32[1]", &[1.0]), ("f32[1]", &[0.5]), ("f32[]", &[0.1]), ("f32[1]", &[2.0])],
        &[("f32[1]", &[0.722]), ("f32[1]", &[2.4])],
    )
}

fn step(b: &mut Builder, operands: &[Value], attrs: &Attrs) -> Vec<Value> {
    let [p, g, lr, buffer] = [0, 1, 2, 3].map(|operand| operands[operand]);
    let mu = attrs.float("momentum");
    let next = b.map(&[g, buffer], |v| v[1] * mu + v[0]);
    let u = match attrs.bool("nesterov") {
        true => b.map(&[g, next], |v| v[0] + v[1] * mu),
        false => next,
    };
    let extents = b.extents(p);
    if extents.len() < 2 {
        return vec![b.map(&[p, lr, u], |v| v[0] - v[1] * v[2]), next];
    }
    let n_columns: usize = extents[1..].iter().product();
    let matrix = b.reshape(u, &[extents[0], n_columns]);
    let direction = orthogonalised(b, matrix, attrs);
    let direction = b.reshape(direction, &extents);
    let size = (extents[0] as f64 / n_columns.max(1) as f64).max(1.0).sqrt();
    let decay = attrs.float("weight_decay");
    let p = b.map(&[p, lr, direction], |v| v[0] * (1.0 - v[1] * decay) - v[1] * v[2] * size);
    vec![p, next]
}
