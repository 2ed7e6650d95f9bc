//! RMSprop.

use crate::parts::{decay_attrs, effective_gradient, optimizer, widened};
use engine_core::ir::{Attrs, Builder, Value};
use engine_core::op::{AttrSpec, OpForm};

const SLOTS: &[(&str, &str)] = &[
    ("square", "the running mean of squared gradients"),
    ("mean", "the running mean of gradients; zero unless `centered`"),
    ("velocity", "the running sum of scaled gradients; zero without momentum"),
];
const SQUARE: usize = 3;

/// `s' = αs + (1-α)g²` and `u = g / (√s' + ε)`. If centered, `m' = αm + (1-α)g` and `s' - m'²` takes the place of s' under
/// the root. The step is `lr·u`, and with momentum `lr·v'` for `v' = μv + u` (Tieleman and Hinton 2012, Graves 2013, as in
/// PyTorch).
pub fn rmsprop() -> OpForm {
    let mut form =
        optimizer("rmsprop", "Takes a step scaled by a running mean of the squared gradient.", SLOTS);
    form.inputs[SQUARE].range = Some([0.0, f64::INFINITY]);
    form.attr(AttrSpec::float("alpha", "how much of the running means stays", 0.99).below(0.0, 1.0))
        .attr(AttrSpec::float("eps", "added to the divisor", 1e-8).at_least(0.0))
        .attr(AttrSpec::float("momentum", "how much of the velocity stays", 0.0).below(0.0, 1.0))
        .attr(AttrSpec::flag("centered", "divide by the deviation from the running mean", false))
        .attrs(decay_attrs(0.0, "L2 penalty added to the gradient"))
        .lower(widened(step))
        .example(
            "the first step is ten times the rate, for a gradient of any size",
            "rmsprop(a, b, c, d, e, f)",
            &[
                ("f32[2]", &[1.0, -2.0]),
                ("f32[2]", &[0.5, -4.0]),
                ("f32[]", &[0.01]),
                ("f32[2]", &[0.0, 0.0]),
                ("f32[2]", &[0.0, 0.0]),
                ("f32[2]", &[0.0, 0.0]),
            ],
            &[
                ("f32[2]", &[0.90000002, -1.9000000025]),
                ("f32[2]", &[0.0025, 0.16]),
                ("f32[2]", &[0.0, 0.0]),
                ("f32[2]", &[0.0, 0.0]),
            ],
        )
}

fn step(b: &mut Builder, operands: &[Value], attrs: &Attrs) -> Vec<Value> {
    let [p, g, lr, square, mean, velocity] = [0, 1, 2, 3, 4, 5].map(|operand| operands[operand]);
    let (alpha, eps, mu) = (attrs.float("alpha"), attrs.float("eps"), attrs.float("momentum"));
    let g = b.map(&[p, g], |v| effective_gradient(v[0], v[1], attrs, true));
    let square = b.map(&[square, g], |v| v[0] * alpha + v[1] * v[1] * (1.0 - alpha));
    let (mean, spread) = match attrs.bool("centered") {
        true => {
            let mean = b.map(&[mean, g], |v| v[0] * alpha + v[1] * (1.0 - alpha));
            // Rounding may leave a difference below zero, whose root is NaN.
            (mean, b.map(&[square, mean], |v| (v[0] - v[1] * v[1]).max(0.0)))
        }
        false => (mean, square),
    };
    let scaled = b.map(&[g, spread], |v| v[0] / (v[1].sqrt() + eps));
    let (velocity, direction) = match mu > 0.0 {
        true => {
            let next = b.map(&[velocity, scaled], |v| v[0] * mu + v[1]);
            (next, next)
        }
        false => (velocity, scaled),
    };
    vec![b.map(&[p, lr, direction], |v| v[0] - v[1] * v[2]), square, mean, velocity]
}
