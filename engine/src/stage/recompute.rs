//! Recomputed layers: the backward pass computes their activations once more, from their inputs (Chen et al. 2016).
//!
//! The gradients of such a layer read copies of its nodes. The mark of the copies and of these gradients keeps them in
//! kernels of their own, and the plan runs the marks one after the other. So no activation of the layer outlives the
//! forward pass, and the copies of one layer are gone before those of the next are made.

use crate::grad::Differentiated;
use crate::ir::{
    Call, Graph, InputKind, Level, Node, NodeId, NodeOp, Output, RECOMPUTED, Symbol, Value, View, free_name,
};
use crate::lower::primitives;
use crate::op::Registry;
use crate::pass::sound;
use std::collections::{HashMap, HashSet};

/// The graph whose gradients recompute these regions, each a name and the names of its nodes. A region within another
/// belongs to the larger one, which comes later.
pub(super) fn recompute(
    found: Differentiated,
    old: &Graph,
    regions: &[(Symbol, HashSet<Symbol>)],
    registry: &Registry,
) -> Differentiated {
    if regions.is_empty() {
        return found;
    }
    let region_of = regions_of(&found, old, regions);
    let needed = needed(&found, &region_of, registry);
    let mut copier = Copier {
        old: &found.graph,
        names: found.graph.nodes.iter().flat_map(|node| &node.outputs).map(|o| o.name.clone()).collect(),
        new: Graph { nodes: found.graph.nodes[..region_of.len()].to_vec(), ..Graph::new(&*found.graph.name) },
        marks: regions.iter().map(|(name, _)| format!("{name}{RECOMPUTED}").into()).collect(),
        copies: HashMap::new(),
        moved: vec![],
        needed,
        region_of,
    };
    let n_forward = copier.region_of.len();
    for (id, owner) in (n_forward..found.graph.nodes.len()).zip(&found.owners) {
        copier.gradient(id, *owner);
    }
    let grads = found.grads.iter().map(|&grad| copier.after(grad)).collect();
    let Copier { new, .. } = copier;
    let (outputs, state) = (found.graph.outputs.clone(), found.graph.state.clone());
    let graph = sound("recompute", Level::Bound, Graph { outputs, state, ..new });
    Differentiated { graph, grads, ..found }
}

/// The region of each forward node. A cast of a node's value belongs to the node's region.
fn regions_of(
    found: &Differentiated,
    old: &Graph,
    regions: &[(Symbol, HashSet<Symbol>)],
) -> Vec<Option<usize>> {
    let mut of_old: Vec<Option<usize>> = vec![];
    for node in &old.nodes {
        let named = regions.iter().rposition(|(_, names)| names.contains(node.name()));
        let is_cast = matches!(node.op, NodeOp::Scalar(crate::ir::Scalar::Cast(_)));
        let cast = if is_cast { of_old[node.inputs[0].node] } else { None };
        of_old.push(named.or(cast));
    }
    let mut of_new = vec![];
    for (region, &end) in of_old.into_iter().zip(&found.ends) {
        of_new.resize(end, region);
    }
    of_new
}

/// Marks the nodes of regions that gradients need again.
fn needed(found: &Differentiated, region_of: &[Option<usize>], registry: &Registry) -> Vec<bool> {
    let (graph, n_forward) = (&found.graph, region_of.len());
    let mut kept: HashSet<Value> = graph.roots().collect();
    for (id, node) in graph.nodes[..n_forward].iter().enumerate() {
        kept.extend(node.inputs.iter().filter(|input| region_of[input.node] != region_of[id]));
    }
    // A kept value under a second name is stored under the first one, too.
    for (id, node) in graph.nodes[..n_forward].iter().enumerate().rev() {
        let is_renamed =
            node.op == NodeOp::View(View::Reshape) && node.outputs[0].ty == *graph.ty(node.inputs[0]);
        if is_renamed && kept.contains(&Value::of(id)) {
            kept.insert(node.inputs[0]);
        }
    }
    let mut needed = vec![false; n_forward];
    let is_copied = |value: &Value| {
        let is_inside = value.node < n_forward && region_of[value.node].is_some() && !kept.contains(value);
        is_inside && may_repeat(graph, value.node, registry)
    };
    for node in &graph.nodes[n_forward..] {
        node.inputs.iter().filter(|input| is_copied(input)).for_each(|input| needed[input.node] = true);
    }
    for id in (0..n_forward).rev().filter(|id| region_of[*id].is_some()) {
        if needed[id] {
            graph.nodes[id]
                .inputs
                .iter()
                .filter(|input| is_copied(input))
                .for_each(|i| needed[i.node] = true);
        }
    }
    needed
}

/// Whether a copy of a node has the same value. Inputs and constants need no copy, and one check of an index is enough.
/// A call draws random numbers by its name, which a copy does not have.
fn may_repeat(graph: &Graph, id: NodeId, registry: &Registry) -> bool {
    match &graph.nodes[id].op {
        NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::Check(_) => false,
        NodeOp::Call(call) => !draws(graph, &graph.nodes[id], call, registry),
        _ => true,
    }
}

fn draws(graph: &Graph, node: &Node, call: &Call, registry: &Registry) -> bool {
    let mut alone = Graph::new("call");
    let leaf = |(at, input): (usize, &Value)| {
        let outputs = vec![Output { name: format!("operand.{at}").into(), ty: graph.ty(*input).clone() }];
        Node { op: NodeOp::Input(InputKind::Data), inputs: vec![], outputs, ..node.clone() }
    };
    alone.nodes = node.inputs.iter().enumerate().map(leaf).collect();
    let inputs = (0..node.inputs.len()).map(Value::of).collect();
    let called = alone.push(Node { op: NodeOp::Call(call.clone()), inputs, ..node.clone() });
    alone.outputs = vec![("result".into(), Value::of(called))];
    primitives(&alone, registry).nodes.iter().any(|node| matches!(node.op, NodeOp::Random { .. }))
}

struct Copier<'g> {
    old: &'g Graph,
    new: Graph,
    names: HashSet<Symbol>,
    /// By region: the mark of its copies and gradients.
    marks: Vec<Symbol>,
    region_of: Vec<Option<usize>>,
    needed: Vec<bool>,
    /// By forward node: its copy.
    copies: HashMap<NodeId, NodeId>,
    /// By gradient node: the new one.
    moved: Vec<NodeId>,
}

impl Copier<'_> {
    /// Appends a gradient node, after copies of the region that it reads. `owner` is the forward node whose gradient
    /// it computes.
    fn gradient(&mut self, id: NodeId, owner: NodeId) {
        let node = &self.old.nodes[id];
        for input in &node.inputs {
            let region = self.region_of.get(input.node).copied().flatten();
            if let Some(region) =
                region.filter(|_| self.needed[input.node] && !self.copies.contains_key(&input.node))
            {
                self.copy(region);
            }
        }
        let inputs = node.inputs.iter().map(|&input| self.after(input)).collect();
        let mark = self.region_of[owner].map(|region| self.marks[region].clone());
        self.moved.push(self.new.nodes.len());
        self.new.push(Node { inputs, no_fuse: mark.or(node.no_fuse.clone()), ..node.clone() });
    }

    /// Appends copies of all nodes of a region that gradients need.
    fn copy(&mut self, region: usize) {
        let ids =
            (0..self.region_of.len()).filter(|&id| self.region_of[id] == Some(region) && self.needed[id]);
        for id in ids.collect::<Vec<_>>() {
            let node = &self.old.nodes[id];
            let inputs = node.inputs.iter().map(|&input| self.after(input)).collect();
            let mut outputs = node.outputs.clone();
            for output in &mut outputs {
                output.name = free_name(&mut self.names, &format!("{}.again", output.name));
            }
            let mark = Some(self.marks[region].clone());
            let copy = self.new.push(Node { inputs, outputs, no_fuse: mark, ..node.clone() });
            self.copies.insert(id, copy);
        }
    }

    /// The value as gradients read it.
    fn after(&self, value: Value) -> Value {
        let node = match value.node.checked_sub(self.region_of.len()) {
            Some(gradient) => self.moved[gradient],
            None => self.copies.get(&value.node).copied().unwrap_or(value.node),
        };
        Value { node, ..value }
    }
}
