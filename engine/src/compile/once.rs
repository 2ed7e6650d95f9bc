//! Hoisting from steps: values that no step changes are computed once, by a plan that runs before the first step.
//!
//! Such values depend on parameters, unchanged states and data that stays. A matmul in half precision reads the rounded
//! copy of a parameter, for example, and a search reads the norms of its base. Values that are results of the graph stay in
//! the step, so a graph in which nothing changes keeps its work.

use super::invariant::{Invariant, Work};
use crate::ir::{
    Binary, Graph, InputKind, Node, NodeId, NodeOp, Scalar, StateLink, Symbol, Value, free_name,
};
use std::collections::{BTreeSet, HashSet};

/// The switch of this pass.
pub(super) const HOIST_FROM_STEPS: &str = "hoist-from-steps";

/// A graph in two parts.
pub(super) struct Split {
    /// The values that no step changes, as next values of states of their names.
    pub(super) once: Graph,
    /// The rest, which reads the values as inputs of the kind [`InputKind::Once`].
    pub(super) step: Graph,
}

/// Splits a simplified graph. `data` are the names of data inputs that no step changes. `None` if nothing is worth it.
pub(super) fn split(graph: &Graph, data: &[Symbol]) -> Option<Split> {
    let invariant = Invariant::of(graph, |input| is_fixed(graph, input, data));
    let (read, results) = (invariant.read_by_others(), invariant.results());
    let worth = |value: Value| {
        let bias = behind_widening(graph, value);
        let is_operand = |value| is_worth(&invariant.work(value), is_multiplied(graph, value));
        let is_bias = |value| is_worth(&invariant.work(value), is_added_to_product(graph, value));
        Some(value).filter(|&value| is_operand(value)).or(Some(bias).filter(|&bias| is_bias(bias)))
    };
    let values: BTreeSet<Value> = read.iter().filter_map(|&value| worth(value)).collect();
    let values: Vec<Value> = values.difference(&results).copied().collect();
    if values.is_empty() {
        return None;
    }
    let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
    let mut taken: HashSet<Symbol> = outputs.map(|output| output.name.clone()).collect();
    let named = values.into_iter().map(|value| {
        let name = free_name(&mut taken, &format!("once.{}", graph.name_of(value)));
        (value, name)
    });
    let named: Vec<(Value, Symbol)> = named.collect();
    let mut once =
        Graph { name: format!("{}.once", graph.name), outputs: vec![], state: vec![], ..graph.clone() };
    for (value, name) in &named {
        let input = once.push_input(name.clone(), InputKind::State, graph.ty(*value).clone());
        once.state.push(StateLink { input, next: *value });
    }
    let step = invariant.given(&named, InputKind::Once);
    Some(Split { once: once.pruned(), step: step.pruned() })
}

/// Whether no step changes an input.
fn is_fixed(graph: &Graph, input: NodeId, data: &[Symbol]) -> bool {
    match graph.nodes[input].op {
        NodeOp::Input(InputKind::Param | InputKind::State) => {
            graph.state.iter().all(|link| link.input != input)
        }
        NodeOp::Input(InputKind::Data) => data.contains(graph.nodes[input].name()),
        _ => false,
    }
}

/// Whether a value is an operand of a product, which needs it in memory, perhaps through views.
fn is_multiplied(graph: &Graph, value: Value) -> bool {
    let is_view = |id: NodeId| matches!(graph.nodes[id].op, NodeOp::View(_));
    is_read(graph, value, is_view, |node, _| matches!(node.op, NodeOp::Matmul(_)))
}

/// Whether a value is read, through nodes that repeat it, by a node that is wanted. That test gets all equal values.
fn is_read(
    graph: &Graph,
    value: Value,
    repeats: impl Fn(NodeId) -> bool,
    is_wanted: impl Fn(&Node, &HashSet<Value>) -> bool,
) -> bool {
    let mut same = HashSet::from([value]);
    graph.nodes.iter().enumerate().skip(value.node + 1).any(|(id, node)| {
        if !node.inputs.iter().any(|input| same.contains(input)) {
            return false;
        }
        if repeats(id) {
            same.insert(Value::of(id));
        }
        is_wanted(node, &same)
    })
}

/// What a value is a conversion of to a wider type, or a view.
fn behind_widening(graph: &Graph, mut value: Value) -> Value {
    while repeats(graph, value.node) {
        value = graph.nodes[value.node].inputs[0];
    }
    value
}

/// Whether a node is a view, or converts to a wider type.
fn repeats(graph: &Graph, node: NodeId) -> bool {
    let node = &graph.nodes[node];
    match node.op {
        NodeOp::View(_) => true,
        NodeOp::Scalar(Scalar::Cast(to)) => graph.ty(node.inputs[0]).dtype.widens_to(to),
        _ => false,
    }
}

/// Whether a value is added to a product of its type, which a library then does.
fn is_added_to_product(graph: &Graph, value: Value) -> bool {
    let is_product = |other: &Value| {
        let other = behind_widening(graph, *other);
        let is_matmul = matches!(graph.nodes[other.node].op, NodeOp::Matmul(_));
        is_matmul && graph.ty(other).dtype == graph.ty(value).dtype
    };
    is_read(
        graph,
        value,
        |id| repeats(graph, id),
        |node, same| {
            let is_sum = node.op == NodeOp::Scalar(Scalar::Binary(Binary::Add));
            is_sum && node.inputs.iter().any(|input| !same.contains(input) && is_product(input))
        },
    )
}

/// Whether a value is worth a plan before the steps: it needs a kernel of its own, as the operand of a product does, and is not
/// larger than the inputs behind it.
/// A step computes any other value while it reads these inputs.
fn is_worth(work: &Work, is_operand: bool) -> bool {
    let needs_kernel = work.is_slow || is_operand;
    work.is_computed && needs_kernel && work.bytes <= work.bytes_read
}

#[cfg(test)]
mod tests;
