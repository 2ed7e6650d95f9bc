//! Lion.

use crate::parts::{decay_attrs, effective_gradient, optimizer, widened};
use engine_core::ir::Body;
use engine_core::op::{AttrSpec, OpForm};
use std::sync::Arc;

const SLOTS: &[(&str, &str)] = &[("m", "the running mean of gradients")];

/// `p - lr · (sign(β₁m + (1-β₁)g) + λp); m' = β₂m + (1-β₂)g`, where λ is the decay (Chen et al. 2023, as in optax).
pub fn lion() -> OpForm {
    optimizer("lion", "Takes a step of one size along the sign of a running mean of gradients.", SLOTS)
        .attr(AttrSpec::float("beta1", "weight of the mean in the sign", 0.9).below(0.0, 1.0))
        .attr(AttrSpec::float("beta2", "how much of the mean stays", 0.99).below(0.0, 1.0))
        .attrs(decay_attrs(0.001, "share of the parameter that decays per unit of learning rate"))
        .lower(widened(|b, operands, attrs| {
            let body = Body::new(4, |v| {
                let [p, lr, m] = [v[0], v[2], v[3]];
                let g = effective_gradient(p, v[1], attrs, false);
                let (beta1, beta2) = (attrs.float("beta1"), attrs.float("beta2"));
                let direction = (m * beta1 + g * (1.0 - beta1)).sign() + p * attrs.float("weight_decay");
                vec![p - lr * direction, m * beta2 + g * (1.0 - beta2)]
            });
            b.map_body(operands, Arc::new(body))
        }))
        .example(
            "the mean outweighs the gradient",
            "lion(a, b, c, d)",
            &[
                ("f32[2]", &[1.0, -2.0]),
                ("f32[2]", &[0.5, -4.0]),
                ("f32[]", &[0.1]),
                ("f32[2]", &[-0.25, -0.5]),
            ],
            &[("f32[2]", &[1.0999, -1.8998]), ("f32[2]", &[-0.2425, -0.535])],
        )
}
