//! Gradients: reverse mode on the typed, bound graph.
//!
//! An op's own gradient rule takes precedence. Without one, a scalar body is differentiated symbolically, and an
//! expansion is expanded on the spot. So only primitives need rules here. Gradients are ordinary nodes: they simplify,
//! fuse and print like all others, and can be differentiated again.

mod backward;
mod forward;
mod issue;
mod keep;
mod loops;
mod maps;
mod primitives;
mod scans;

pub(crate) use forward::named;
pub use issue::GradIssue;
pub use maps::unbroadcast;

use crate::ir::{Graph, NodeId, StateLink, Value};
use crate::op::Registry;
use backward::{backward, or_zeros, taped};
use forward::Forward;

/// A graph with the gradients of one of its values.
#[derive(Clone, Debug)]
pub struct Differentiated {
    /// The graph with some calls expanded and the gradient nodes appended. Outputs and state are those of the original.
    pub graph: Graph,
    /// The new value of each value of the original.
    pub map: Vec<Vec<Value>>,
    /// The gradient of each value of `wrt`, of the same type. It is zero where `loss` does not depend on the value.
    pub grads: Vec<Value>,
    /// For each value of `wrt`, whether any gradient reaches it.
    pub reached: Vec<bool>,
    /// By node of the original: the number of new nodes up to it, with those that its expansion has made.
    pub ends: Vec<NodeId>,
    /// By node after those: the node of the forward graph whose gradients it computes.
    pub owners: Vec<NodeId>,
}

/// Appends the gradients of the scalar `loss` with respect to `wrt`.
///
/// # Errors
/// If a path from `wrt` to `loss` leads through a float result of an op without a gradient. Indices and truth values
/// end a path without an error.
pub fn differentiate(
    graph: &Graph,
    registry: &Registry,
    loss: Value,
    wrt: &[Value],
) -> Result<Differentiated, GradIssue> {
    let forward =
        Forward::of(graph, registry, (&[loss], wrt), &|node, wanted| taped(node, wanted, registry))?;
    let Forward { mut builder, map, ends, tapes, .. } = forward;
    let moved = |value: Value| map[value.node][value.port];
    let wrt: Vec<Value> = wrt.iter().map(|&value| moved(value)).collect();
    builder.set_scope("d.loss", None);
    let seed = builder.full_like(moved(loss), 1.0);
    let mut owners = vec![];
    let found = backward(&mut builder, &tapes, (&[(moved(loss), seed)], &wrt), &mut owners)?;
    let reached = found.iter().map(Option::is_some).collect();
    let grads = or_zeros(&mut builder, found, &wrt);
    owners.resize(builder.graph.nodes.len(), moved(loss).node);
    owners.drain(..ends.last().copied().unwrap_or(0));
    let mut result = builder.graph;
    result.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(*value))).collect();
    let link = |l: &StateLink| StateLink { input: moved(Value::of(l.input)).node, next: moved(l.next) };
    result.state = graph.state.iter().map(link).collect();
    Ok(Differentiated { graph: result, map, grads, reached, ends, owners })
}

#[cfg(test)]
mod tests;
