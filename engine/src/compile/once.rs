//! Hoisting from steps: values that no step changes are computed once, by a plan that runs before the first step.
//!
//! Such values depend on parameters, unchanged states and data that stays. A matmul in half precision reads the rounded
//! copy of a parameter, for example, and a search reads the norms of its base. Values that are results of the graph stay in
//! the step, so a graph in which nothing changes keeps its work.

use super::invariant::{Invariant, Work};
use crate::ir::{Graph, InputKind, NodeId, NodeOp, StateLink, Symbol, Value, free_name};
use std::collections::HashSet;

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
    let read = invariant.read_by_others();
    let values: Vec<Value> = read
        .difference(&invariant.results())
        .copied()
        .filter(|value| is_worth(&invariant.work(*value), is_multiplied(graph, *value)))
        .collect();
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
    let mut same = HashSet::from([value]);
    for (id, node) in graph.nodes.iter().enumerate().skip(value.node) {
        if node.inputs.iter().any(|input| same.contains(input)) {
            match node.op {
                NodeOp::Matmul(_) => return true,
                NodeOp::View(_) => drop(same.insert(Value::of(id))),
                _ => {}
            }
        }
    }
    false
}

/// Whether a value is worth a plan before the steps: it needs a kernel of its own, and is not larger than the inputs behind it.
/// A step computes any other value while it reads these inputs.
fn is_worth(work: &Work, is_multiplied: bool) -> bool {
    let needs_kernel = work.is_slow || is_multiplied;
    work.is_computed && needs_kernel && work.bytes <= work.bytes_read
}

#[cfg(test)]
mod tests;
