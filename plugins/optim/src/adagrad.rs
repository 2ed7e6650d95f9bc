//! Adagrad.

use crate::parts::{decay_attrs, effective_gradient, optimizer, widened};
use engine_core::ir::{Attrs, Body, Builder, Value};
use engine_core::op::{AttrSpec, OpForm};
use std::sync::Arc;

const SLOTS: &[(&str, &str)] = &[("sum", "the sum of squared gradients")];
const SUM: usize = 3;

/// `s' = s + g²; p - lr/(1 + t·d) · g / (√(s₀ + s') + ε)`, t counted from 0, with `lr_decay` d and
/// `initial_accumulator_value` s₀ (Duchi et al. 2011, as in PyTorch).
pub fn adagrad() -> OpForm {
    let mut form = optimizer("adagrad", "Takes a step scaled by the sum of all squared gradients.", SLOTS);
    form.inputs[SUM].range = Some([0.0, f64::INFINITY]);
    form.attr(AttrSpec::float("lr_decay", "how fast the rate falls with the step", 0.0).at_least(0.0))
        .attr(AttrSpec::float("initial_accumulator_value", "added to the sum of squares", 0.0).at_least(0.0))
        .attr(AttrSpec::float("eps", "added to the divisor", 1e-10).at_least(0.0))
        .attrs(decay_attrs(0.0, "L2 penalty added to the gradient"))
        .lower(widened(step))
        .example(
            "a gradient of 3 after one of 4, and none after one of ½",
            "adagrad(a, b, c, d)",
            &[
                ("f32[2]", &[1.0, -2.0]),
                ("f32[2]", &[3.0, 0.0]),
                ("f32[]", &[0.1]),
                ("f32[2]", &[16.0, 0.25]),
            ],
            &[("f32[2]", &[0.94, -2.0]), ("f32[2]", &[25.0, 0.25])],
        )
}

fn step(b: &mut Builder, operands: &[Value], attrs: &Attrs) -> Vec<Value> {
    let [p, g, lr, sum] = [0, 1, 2, 3].map(|operand| operands[operand]);
    let (decay, initial, eps) =
        (attrs.float("lr_decay"), attrs.float("initial_accumulator_value"), attrs.float("eps"));
    let rate = match decay {
        0.0 => lr,
        _ => {
            let step = b.step();
            let t = b.cast(step, b.dtype(lr));
            b.map(&[lr, t], |v| v[0] / (v[1] * decay + 1.0))
        }
    };
    let body = Body::new(4, |v| {
        let [p, rate, sum] = [v[0], v[2], v[3]];
        let g = effective_gradient(p, v[1], attrs, true);
        let sum = sum + g * g;
        vec![p - rate * g / ((sum + initial).sqrt() + eps), sum]
    });
    b.map_body(&[p, g, rate, sum], Arc::new(body))
}
