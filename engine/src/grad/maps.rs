//! Gradients of scalar bodies.

use crate::ir::{Body, Builder, Literal, Type, Value};
use std::sync::Arc;

/// Gradients of a scalar body: one map for all operands, then sums over the broadcast axes.
pub(super) fn map_gradients(
    builder: &mut Builder,
    body: &Body,
    inputs: &[Value],
    upstream: &[Option<Value>],
    result: &Type,
    wanted: &[bool],
) -> Vec<Option<Value>> {
    let (vjp, live) = body.vjp();
    let picked: Vec<usize> = (0..inputs.len()).filter(|&i| live[i] && wanted[i]).collect();
    let mut grads = vec![None; inputs.len()];
    if picked.is_empty() {
        return grads;
    }
    let rank_of = |operand: usize| live[..operand].iter().filter(|&&is_live| is_live).count();
    let outputs: Vec<usize> = picked.iter().map(|&operand| rank_of(operand)).collect();
    let body = Body::new(vjp.n_params, |args| {
        let all = vjp.inline(args);
        outputs.iter().map(|&output| all[output]).collect()
    });
    let mut operands = inputs.to_vec();
    for grad in upstream {
        operands.push(grad.unwrap_or_else(|| builder.full(Literal::Float(0.0), result.clone())));
    }
    let values = builder.map_body(&operands, Arc::new(body));
    for (&operand, value) in picked.iter().zip(values) {
        grads[operand] = Some(unbroadcast(builder, value, inputs[operand]));
    }
    grads
}

/// Sums a gradient over the axes along which `like` was broadcast, and converts it to the type of `like`.
pub fn unbroadcast(builder: &mut Builder, grad: Value, like: Value) -> Value {
    let (from, to) = (builder.extents(grad), builder.extents(like));
    let lead = from.len() - to.len();
    let repeated = |axis: usize| axis < lead || (to[axis - lead] == 1 && from[axis] != 1);
    let axes: Vec<usize> = (0..from.len()).filter(|&axis| repeated(axis)).collect();
    let sum = builder.sum(grad, &axes);
    let shaped = builder.reshape(sum, &to);
    let dtype = builder.dtype(like);
    builder.cast(shaped, dtype)
}
