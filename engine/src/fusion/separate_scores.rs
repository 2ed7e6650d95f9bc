//! Scores with users beside an attention, such as its gradient, are computed again for them.

use super::attention::{Attention, search};
use super::cost::SHORT_SCORES;
use super::graph::FusionGraph;
use super::place::Place;
use super::settings::Settings;
use super::shapes::matmul_extents;
use super::softmax_gradients::sums_of_results;
use crate::ir::{Graph, Node, NodeId, Output, StateLink, Symbol, Value};
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
    Separation { graph: &divided, members, elements, map: vec![], again: HashMap::new() }.run()
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
    /// By old node: the new one that attentions use.
    map: Vec<NodeId>,
    /// By old node: the copy that all other users read, if there is one.
    again: HashMap<NodeId, NodeId>,
}

impl Separation<'_, '_> {
    fn run(mut self) -> Graph {
        let old = self.graph.ir;
        let mut new = Graph::new(old.name.clone());
        let mut taken: HashSet<Symbol> =
            old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()).collect();
        for (id, node) in old.nodes.iter().enumerate() {
            let is_member = self.members.contains(&id);
            let leads_on = !self.graph.materialized[id]
                && node.inputs.iter().any(|input| self.again.contains_key(&input.node));
            let copied = leads_on || self.elements.contains(&id);
            let inner = self.moved(node, is_member || copied);
            self.map.push(new.push(inner));
            if copied {
                let mut outer = self.moved(node, false);
                outer.outputs.iter_mut().for_each(|output| rename(output, &mut taken));
                self.again.insert(id, new.push(outer));
            }
        }
        let moved = |value: &Value| self.value(value, false);
        new.outputs = old.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
        let link = |link: &StateLink| StateLink { input: self.map[link.input], next: moved(&link.next) };
        new.state = old.state.iter().map(link).collect();
        new.pruned()
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
