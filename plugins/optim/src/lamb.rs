//! LAMB.

use crate::parts::{correction, decay_attrs, effective_gradient, moment_attrs, moments, optimizer, widened};
use engine_core::ir::{Attrs, Body, Builder, E, Unary, Value};
use engine_core::op::{AttrSpec, OpForm};
use std::sync::Arc;

const SLOTS: &[(&str, &str)] =
    &[("m", "the running mean of gradients"), ("v", "the running mean of their squares")];
const SQUARES: usize = 4;

/// `p - lr · (‖p‖₂/‖u‖₂) · u` for Adam's direction `u = m̂/(√v̂ + ε) + λp`, where λ is the decay and both norms are over the
/// whole parameter. The ratio is 1 if a norm is 0 (You et al. 2020, as in optax).
pub fn lamb() -> OpForm {
    let mut form =
        optimizer("lamb", "Takes an Adam step of a size relative to that of the parameter.", SLOTS);
    form.inputs[SQUARES].range = Some([0.0, f64::INFINITY]);
    form.attrs(moment_attrs())
        .attr(AttrSpec::float("eps", "added to the divisor", 1e-6).at_least(0.0))
        .attrs(decay_attrs(0.0, "multiple of the parameter added to the direction"))
        .lower(widened(step))
        .example(
            "the first step is a tenth of the parameter's norm, 5",
            "lamb(a, b, c, d, e)",
            &[
                ("f32[2]", &[3.0, -4.0]),
                ("f32[2]", &[0.5, -4.0]),
                ("f32[]", &[0.1]),
                ("f32[2]", &[0.0, 0.0]),
                ("f32[2]", &[0.0, 0.0]),
            ],
            &[
                ("f32[2]", &[2.6464469187657302, -3.6464463000479928]),
                ("f32[2]", &[0.05, -0.4]),
                ("f32[2]", &[0.00025, 0.016]),
            ],
        )
}

fn step(b: &mut Builder, operands: &[Value], attrs: &Attrs) -> Vec<Value> {
    let [p, g, lr, m, v] = [0, 1, 2, 3, 4].map(|operand| operands[operand]);
    let correction1 = correction(b, attrs.float("beta1"), lr);
    let correction2 = correction(b, attrs.float("beta2"), lr);
    let (eps, decay) = (attrs.float("eps"), attrs.float("weight_decay"));
    let body = Body::new(6, |x| {
        let [p, m, v, correction1, correction2] = [x[0], x[2], x[3], x[4], x[5]];
        let g = effective_gradient(p, x[1], attrs, false);
        let [m, v] = moments(g, m, v, attrs);
        vec![m / correction1 / ((v / correction2).sqrt() + eps) + p * decay, m, v]
    });
    let found = b.map_body(&[p, g, m, v, correction1, correction2], Arc::new(body));
    let [direction, m, v] = [found[0], found[1], found[2]];
    let (size, length) = (norm(b, p), norm(b, direction));
    let ratio = b.map(&[size, length], |n| {
        let is_zero = n[0].eq(0.0) | n[1].eq(0.0);
        E::select(is_zero, 1.0, n[0] / n[1])
    });
    vec![b.map(&[p, lr, ratio, direction], |x| x[0] - x[1] * x[2] * x[3]), m, v]
}

fn norm(b: &mut Builder, x: Value) -> Value {
    let squares = b.mul(x, x);
    let axes: Vec<usize> = (0..b.ty(x).rank()).collect();
    let total = b.sum(squares, &axes);
    b.unary(Unary::Sqrt, total)
}
