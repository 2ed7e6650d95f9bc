//! Scores with users beside an attention, such as its gradient, are computed again for them.

use super::attention::{Attention, search};
use super::cost::SHORT_SCORES;
use super::graph::FusionGraph;
use super::place::Place;
use super::settings::Settings;
use super::shapes::matmul_extents;
use super::softmax_gradients::sums_of_results;
use crate::ir::{
    Binary, Graph, Monoid, Node, NodeId, NodeOp, Output, Scalar, StateLink, Symbol, Unary, Value, View,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The graph in which users beside an attention, such as its gradient, read a copy of the scores. The attention is one
/// kernel then, and no scores stay in memory from the forward to the backward pass. With `of_weights`, so do the gradients of
/// a softmax between two matmuls, for a device that has a kernel for them.
pub fn separate_scores(graph: &Graph, of_weights: bool) -> Graph {
    let (graph, shared) = match of_weights {
        true => sums_of_results(graph),
        false => (graph.clone(), HashSet::new()),
    };
    let graph = &graph;
    let divided = FusionGraph::new(graph, &Settings::default());
    let shares_weights = |node: NodeId| shared.contains(&graph.nodes[node].outputs[0].name);
    let found = (0..graph.nodes.len()).filter_map(|node| search(&divided, node, shares_weights(node)));
    let is_separated =
        |found: &Attention| found.escaping(&divided).next().is_some() && is_cheap_again(graph, found);
    let found: Vec<Attention> = found.filter(is_separated).collect();
    if found.is_empty() {
        return graph.clone();
    }
    let mut members = BTreeSet::new();
    let mut elements = BTreeSet::new();
    for attention in &found {
        members.extend(attention.members.keys().copied());
        let is_element =
            |(node, place): &(&NodeId, &Place)| **place == Place::Element && **node != attention.output;
        elements.extend(attention.members.iter().filter(is_element).map(|(node, _)| *node));
    }
    let taken = graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()).collect();
    let new = Graph::new(graph.name.clone());
    let (map, again) = (vec![], HashMap::new());
    Separation { graph: &divided, members, elements, by_logarithms: of_weights, new, taken, map, again }.run()
}

/// Whether scores cost less to compute again than to store: they are short sums, or more numbers than their operands.
/// The scores of attention are so. A residual that a normalisation reads is not: it would be computed again from the
/// first layer on.
fn is_cheap_again(graph: &Graph, attention: &Attention) -> bool {
    let (_, m, n, k) = matmul_extents(graph, attention.scores);
    k <= SHORT_SCORES || m * n >= k * (m + n)
}

struct Separation<'r, 'g> {
    graph: &'r FusionGraph<'g>,
    /// All nodes of attentions.
    members: BTreeSet<NodeId>,
    /// The members that are computed twice.
    elements: BTreeSet<NodeId>,
    /// Whether weights are computed again from the logarithms of their sums.
    by_logarithms: bool,
    new: Graph,
    /// The names of all values.
    taken: HashSet<Symbol>,
    /// By old node: the new one that attentions use.
    map: Vec<NodeId>,
    /// By old node: the copy that all other users read, if there is one.
    again: HashMap<NodeId, NodeId>,
}

impl Separation<'_, '_> {
    fn run(mut self) -> Graph {
        let old = self.graph.ir;
        for (id, node) in old.nodes.iter().enumerate() {
            let is_member = self.members.contains(&id);
            let leads_on = !self.graph.materialized[id]
                && node.inputs.iter().any(|input| self.again.contains_key(&input.node));
            let copied = leads_on || self.elements.contains(&id);
            let inner = self.moved(node, is_member || copied);
            let inner = self.new.push(inner);
            self.map.push(inner);
            if copied {
                let outer = self.of_logarithm(node).unwrap_or_else(|| self.moved(node, false));
                let outer = self.pushed(outer);
                self.again.insert(id, outer);
            }
        }
        let moved = |value: &Value| self.value(value, false);
        let outputs = old.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
        let link = |link: &StateLink| StateLink { input: self.map[link.input], next: moved(&link.next) };
        let state = old.state.iter().map(link).collect();
        Graph { outputs, state, ..self.new }.pruned()
    }

    /// A new node, under another name if its own is taken.
    fn pushed(&mut self, mut node: Node) -> NodeId {
        node.outputs.iter_mut().for_each(|output| rename(output, &mut self.taken));
        self.new.push(node)
    }

    /// The weights `exp(x - m) / s` of a softmax as `exp(x - (m + ln s))`: a row has one value, and no point a division.
    fn of_logarithm(&mut self, node: &Node) -> Option<Node> {
        let old = self.graph.ir;
        let op_of = |value: Value| &old.nodes[value.node].op;
        let is = |op: &NodeOp, binary: Binary| *op == NodeOp::Scalar(Scalar::Binary(binary));
        if !self.by_logarithms || !is(&node.op, Binary::Div) {
            return None;
        }
        let [exponential, sums] = node.inputs[..] else { return None };
        let shifted = old.nodes[exponential.node].inputs.first().copied()?;
        let is_exponential = *op_of(exponential) == NodeOp::Scalar(Scalar::Unary(Unary::Exp));
        if !is_exponential || !is(op_of(shifted), Binary::Sub) {
            return None;
        }
        let [x, most] = old.nodes[shifted.node].inputs[..] else { return None };
        let row_of = |value: Value| old.nodes[value.node].inputs.first().copied();
        let (sum, most_of_row) = (row_of(sums)?, row_of(most)?);
        let is_sum = matches!(op_of(sum), NodeOp::Reduce { monoid: Monoid::Sum, .. })
            && row_of(sum) == Some(exponential);
        let is_spread = matches!(op_of(sums), NodeOp::View(View::Broadcast { .. }));
        let is_alike = op_of(sums) == op_of(most) && old.ty(sum) == old.ty(most_of_row);
        if !(is_sum && is_spread && is_alike) {
            return None;
        }
        let [sum_again, most_again] = [sum, most_of_row].map(|row| self.value(&row, false));
        let x_again = self.value(&x, false);
        let mut beside = |op: NodeOp, inputs: Vec<Value>, like: Value| {
            let outputs = vec![Output { name: node.name().clone(), ty: old.ty(like).clone() }];
            Value::of(self.pushed(Node { op, inputs, outputs, ..node.clone() }))
        };
        let logarithm = beside(NodeOp::Scalar(Scalar::Unary(Unary::Log)), vec![sum_again], sum);
        let total = beside(NodeOp::Scalar(Scalar::Binary(Binary::Add)), vec![most_again, logarithm], sum);
        let wide = beside(op_of(sums).clone(), vec![total], sums);
        let difference = beside(NodeOp::Scalar(Scalar::Binary(Binary::Sub)), vec![x_again, wide], shifted);
        let op = NodeOp::Scalar(Scalar::Unary(Unary::Exp));
        Some(Node { op, inputs: vec![difference], ..node.clone() })
    }

    fn moved(&self, node: &Node, inside: bool) -> Node {
        let inputs = node.inputs.iter().map(|input| self.value(input, inside)).collect();
        Node { inputs, ..node.clone() }
    }

    fn value(&self, value: &Value, inside: bool) -> Value {
        let again = self.again.get(&value.node).filter(|_| !inside);
        Value { node: again.copied().unwrap_or(self.map[value.node]), port: value.port }
    }
}

fn rename(output: &mut Output, taken: &mut HashSet<Symbol>) {
    while !taken.insert(output.name.clone()) {
        output.name = format!("{}.again", output.name).into();
    }
}
