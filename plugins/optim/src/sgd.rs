//! Stochastic gradient descent, plain and with momentum.

use crate::parts::{decay_attrs, effective_gradient, optimizer, widened};
use engine_core::ir::{Body, E};
use engine_core::op::{AttrSpec, OpForm};
use std::sync::Arc;

/// `p - lr · g`.
pub fn sgd() -> OpForm {
    optimizer("sgd", "Takes a step against the gradient.", &[])
        .attrs(decay_attrs(0.0, "L2 penalty added to the gradient"))
        .lower(widened(|b, operands, attrs| {
            vec![b.map(operands, |v| v[0] - v[2] * effective_gradient(v[0], v[1], attrs, true))]
        }))
        .example(
            "a step of rate 0.1",
            "sgd(a, b, c)",
            &[("f32[2]", &[1.0, -2.0]), ("f32[2]", &[0.5, 4.0]), ("f32[]", &[0.1])],
            &[("f32[2]", &[0.95, -2.4])],
        )
        .example(
            "a half-precision parameter under a single-precision rate",
            "sgd(a, b, c)",
            &[("bf16[1]", &[1.0]), ("bf16[1]", &[0.5]), ("f32[]", &[0.5])],
            &[("bf16[1]", &[0.75])],
        )
}

const VELOCITY: &[(&str, &str)] = &[("velocity", "the running sum of gradients")];

/// `v' = μ·v + (1 - τ)·g; p - lr·v'`, optionally with Nesterov's look-ahead `g + μ·v'` (Sutskever et al. 2013). As in
/// PyTorch, the first velocity is the gradient itself, undamped.
pub fn momentum() -> OpForm {
    optimizer("momentum", "Takes a step along a running sum of gradients.", VELOCITY)
        .attr(AttrSpec::float("momentum", "how much of the velocity stays", 0.9).below(0.0, 1.0))
        .attr(AttrSpec::float("dampening", "how much of a later gradient is left out", 0.0).between(0.0, 1.0))
        .attr(AttrSpec::flag("nesterov", "look ahead along the velocity", false))
        .attrs(decay_attrs(0.0, "L2 penalty added to the gradient"))
        .lower(widened(|b, operands, attrs| {
            let step = b.step();
            let is_first = b.map(&[step], |s| s[0].eq(E::from(0i64)));
            let operands: Vec<_> = operands.iter().copied().chain([is_first]).collect();
            let body = Body::new(5, |v| {
                let [p, lr, velocity, is_first] = [v[0], v[2], v[3], v[4]];
                let g = effective_gradient(p, v[1], attrs, true);
                let (mu, dampening) = (attrs.float("momentum"), attrs.float("dampening"));
                let later = velocity * mu + g * (1.0 - dampening);
                // The velocity starts at zero, so the first step is an exception only with damping.
                let next = if dampening == 0.0 { later } else { E::select(is_first, g, later) };
                let direction = if attrs.bool("nesterov") { g + next * mu } else { next };
                vec![p - lr * direction, next]
            });
            b.map_body(&operands, Arc::new(body))
        }))
        .example(
            "a later step",
            "momentum(a, b, c, d)",
            &[("f32[1]", &[1.0]), ("f32[1]", &[0.5]), ("f32[]", &[0.1]), ("f32[1]", &[2.0])],
            &[("f32[1]", &[0.77]), ("f32[1]", &[2.3])],
        )
        .example(
            "looking ahead",
            "momentum(a, b, c, d, nesterov=true)",
            &[("f32[1]", &[1.0]), ("f32[1]", &[0.5]), ("f32[]", &[0.1]), ("f32[1]", &[2.0])],
            &[("f32[1]", &[0.743]), ("f32[1]", &[2.3])],
        )
}
