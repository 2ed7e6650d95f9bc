//! Hoisting from steps: values that no step changes are computed once, by a plan that runs before the first step.
//!
//! Such values depend on parameters, unchanged states and data that stays. A matmul in half precision reads the rounded
//! copy of a parameter, for example, and a search reads the norms of its base. Values that are results of the graph stay in
//! the step, so a graph in which nothing changes keeps its work.

use super::invariant::{Invariant, Work};
use crate::ir::{
    Binary, Graph, InputKind, Node, NodeId, NodeOp, Scalar, StateLink, Symbol, Value, free_name,
};
use crate::work::steps;
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
    let readers = Readers { graph, users: graph.users() };
    let worth = |value: Value| {
        let bias = behind_widening(graph, value);
        let is_operand = |value| is_worth(&invariant.work(value), readers.multiply(value));
        let is_bias = |value| is_worth(&invariant.work(value), readers.add_to_product(value));
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

/// The nodes that read a value.
struct Readers<'g> {
    graph: &'g Graph,
    users: Vec<Vec<NodeId>>,
}

impl Readers<'_> {
    /// Whether a value is an operand of a product, which needs it in memory, perhaps through views.
    fn multiply(&self, value: Value) -> bool {
        let is_view = |id: NodeId| matches!(self.graph.nodes[id].op, NodeOp::View(_));
        self.any(value, is_view, |node, _| matches!(node.op, NodeOp::Matmul(_)))
    }

    /// Whether a value is added to a product of its type, which a library then does.
    fn add_to_product(&self, value: Value) -> bool {
        let graph = self.graph;
        let is_product = |other: &Value| {
            let other = behind_widening(graph, *other);
            let is_matmul = matches!(graph.nodes[other.node].op, NodeOp::Matmul(_));
            is_matmul && graph.ty(other).dtype == graph.ty(value).dtype
        };
        self.any(
            value,
            |id| repeats(graph, id),
            |node, same| {
                let is_sum = node.op == NodeOp::Scalar(Scalar::Binary(Binary::Add));
                is_sum && node.inputs.iter().any(|input| !same.contains(input) && is_product(input))
            },
        )
    }

    /// Whether a value is read, through nodes that repeat it, by a node that is wanted. That test gets the equal values
    /// before the node.
    fn any(
        &self,
        value: Value,
        repeats: impl Fn(NodeId) -> bool,
        is_wanted: impl Fn(&Node, &BTreeSet<Value>) -> bool,
    ) -> bool {
        let mut same = BTreeSet::from([value]);
        let mut open: BTreeSet<NodeId> = self.of(value).collect();
        while let Some(id) = open.pop_first() {
            steps(1);
            if repeats(id) {
                same.insert(Value::of(id));
                open.extend(self.of(Value::of(id)));
            }
            if is_wanted(&self.graph.nodes[id], &same) {
                return true;
            }
        }
        false
    }

    fn of(&self, value: Value) -> impl Iterator<Item = NodeId> {
        let users = self.users[value.node].iter().copied();
        users.filter(move |&user| self.graph.nodes[user].inputs.contains(&value))
    }
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

/// Whether a value is worth a plan before the steps: it needs a kernel of its own, as the operand of a product does, and is not
/// larger than the inputs behind it.
/// A step computes any other value while it reads these inputs.
fn is_worth(work: &Work, is_operand: bool) -> bool {
    let needs_kernel = work.is_slow || is_operand;
    work.is_computed && needs_kernel && work.bytes <= work.bytes_read
}

#[cfg(test)]
mod tests;
