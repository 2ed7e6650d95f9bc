//! Muon: momentum, orthogonalised.

use crate::newton_schulz::{attrs, expect_steps, orthogonalised};
use crate::parts::{operands, results, role, update_types, widened};
use engine_core::ir::{Attrs, Builder, Value};
use engine_core::op::{AttrKind, AttrSpec, Example, Grad, GradCheck, OpForm, TypeRule};

const SLOTS: &[(&str, &str)] = &[("buffer", "the running sum of gradients")];
const NOT_DIFFERENTIATED: &str = "an update is the end of a training step";

/// `v' = μ·v + g`, with `u = g + μ·v'` for Nesterov's look-ahead and `u = v'` else. A matrix decays by `1 - lr·decay`
/// and takes the step `lr · √max(1, rows/columns) · newton_schulz(u)` (Jordan et al. 2024). Axes after the first are
/// joined into columns. A vector takes the step `lr·u` without decay.
pub fn muon() -> OpForm {
    let mut settings = vec![
        AttrSpec::with_default("momentum", "how much of the buffer stays", AttrKind::Float, 0.95)
            .below(0.0, 1.0),
        AttrSpec::with_default("nesterov", "look ahead along the buffer", AttrKind::Bool, true),
        AttrSpec::with_default(
            "weight_decay",
            "share of a matrix that decays per unit of learning rate",
            AttrKind::Float,
            0.01,
        )
        .at_least(0.0),
    ];
    settings.extend(attrs());
    OpForm {
        name: "muon".into(),
        family: "optim".into(),
        summary: "Takes a step along the running sum of gradients with its singular values brought near 1."
            .into(),
        inputs: operands(SLOTS),
        outputs: results(SLOTS),
        attrs: settings,
        types: TypeRule::custom(|operands, attrs| {
            expect_steps(attrs)?;
            update_types(operands)
        }),
        lower: widened(step),
        grad: Grad::None { why: NOT_DIFFERENTIATED },
        check: GradCheck::None { why: NOT_DIFFERENTIATED },
        examples: vec![Example::new(
            "a vector takes a plain step",
            "muon(a, b, c, d)",
            &[("f32[1]", &[1.0]), ("f32[1]", &[0.5]), ("f32[]", &[0.1]), ("f32[1]", &[2.0])],
            &[("f32[1]", &[0.722]), ("f32[1]", &[2.4])],
        )],
        role: role(SLOTS),
    }
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
