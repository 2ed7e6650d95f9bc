//! Adam and AdamW.

use crate::parts::{correction, decay_attrs, effective_gradient, moment_attrs, moments, optimizer, widened};
use engine_core::ir::{Attrs, Body, Builder, E, Value};
use engine_core::op::{AttrSpec, OpForm};
use std::sync::Arc;

const SLOTS: &[(&str, &str)] =
    &[("m", "the running mean of gradients"), ("v", "the running mean of their squares")];
const SQUARES: usize = 4;
/// Kingma and Ba 2015, with an optional L2 penalty.
pub fn adam() -> OpForm {
    form(
        "adam",
        "Takes a step scaled by running means of the gradient and of its square.",
        decay_attrs(0.0, "L2 penalty added to the gradient"),
        true,
        &[0.900000002, -1.90000000025],
    )
}

/// Loshchilov and Hutter 2019: the decay acts on the parameter itself.
pub fn adamw() -> OpForm {
    form(
        "adamw",
        "Takes an Adam step from a parameter that has decayed a little.",
        decay_attrs(0.01, "share of the parameter that decays per unit of learning rate"),
        false,
        &[0.899000002, -1.89800000025],
    )
}

fn form(name: &str, summary: &str, decay: Vec<AttrSpec>, coupled: bool, next: &[f64]) -> OpForm {
    let mut form = optimizer(name, summary, SLOTS);
    form.inputs[SQUARES].range = Some([0.0, f64::INFINITY]);
    form.attrs(moment_attrs())
        .attr(AttrSpec::float("eps", "added to the divisor", 1e-8).at_least(0.0))
        .attrs(decay)
        .lower(widened(move |b, operands, attrs| step(b, operands, attrs, coupled)))
        .example(
            "the first step has the size of the rate, for a gradient of any size",
            match coupled {
                true => "adam(a, b, c, d, e)",
                false => "adamw(a, b, c, d, e)",
            },
            &[
                ("f32[2]", &[1.0, -2.0]),
                ("f32[2]", &[0.5, -4.0]),
                ("f32[]", &[0.1]),
                ("f32[2]", &[0.0, 0.0]),
                ("f32[2]", &[0.0, 0.0]),
            ],
            &[("f32[2]", next), ("f32[2]", &[0.05, -0.4]), ("f32[2]", &[0.00025, 0.016])],
        )
}

/// `m' = β₁m + (1-β₁)g; v' = β₂v + (1-β₂)g²; p - lr/(1-β₁ᵗ) · m' / (√(v'/(1-β₂ᵗ)) + ε)`, t counted from 1.
fn step(b: &mut Builder, operands: &[Value], attrs: &Attrs, coupled: bool) -> Vec<Value> {
    let [p, g, lr, m, v] = [0, 1, 2, 3, 4].map(|operand| operands[operand]);
    let correction1 = correction(b, attrs.float("beta1"), lr);
    let correction2 = correction(b, attrs.float("beta2"), lr);
    // Terms that depend on the step alone are computed once, not per element.
    let rate = b.map(&[lr, correction1], |v| v[0] / v[1]);
    let scale = b.map(&[correction2], |v| v[0].sqrt().recip());
    let body = Body::new(7, |x| update(x, attrs, coupled));
    b.map_body(&[p, g, m, v, lr, rate, scale], Arc::new(body))
}

fn update(x: &[E], attrs: &Attrs, coupled: bool) -> Vec<E> {
    let [p, g, m, v, lr, rate, scale] = [x[0], x[1], x[2], x[3], x[4], x[5], x[6]];
    let g = effective_gradient(p, g, attrs, coupled);
    let [m, v] = moments(g, m, v, attrs);
    let decay = attrs.float("weight_decay");
    let p = if coupled || decay == 0.0 { p } else { p * (1.0 - lr * decay) };
    vec![p - rate * m / (v.sqrt() * scale + attrs.float("eps")), m, v]
}
