//! Copies of operands of matmuls without the axes that they repeat along.
//!
//! The gradient of an image reads the weights of a convolution permuted, and repeats them for each item. No stride
//! describes that matrix, so it is copied. The copy leaves the items out, and the matmul reads it through a broadcast.

use super::Settings;
use super::graph::FusionGraph;
use super::rewrite::Rewrite;
use crate::ir::{Graph, Node, NodeId, NodeOp, Type, Value, View, dense_strides};
use std::collections::BTreeSet;

/// The graph with operands of matmuls that are copied before they are repeated; none if there are none.
pub fn copy_once(graph: &Graph, settings: &Settings) -> Option<Graph> {
    let repeats = Repeats::new(graph);
    let matmuls = graph.nodes.iter().filter(|node| matches!(node.op, NodeOp::Matmul(_)));
    let operands = matmuls.flat_map(|node| node.inputs.iter().map(|input| input.node));
    let mut copies: BTreeSet<NodeId> = operands.filter(|&node| repeats.in_a_copy(node)).collect();
    if copies.is_empty() {
        return None;
    }
    let divided = FusionGraph::new(graph, settings);
    let is_copy = |node: NodeId| divided.materialized[node] && !divided.root[node];
    copies.retain(|&node| is_copy(node) && graph.nodes[node].no_fuse.is_none());
    if copies.is_empty() {
        return None;
    }
    let mut rewrite = Rewrite::new(graph);
    for id in 0..graph.nodes.len() {
        let new = match copies.contains(&id) {
            true => copied_once(&mut rewrite, id, &repeats.axes[id]),
            false => rewrite.copied(id),
        };
        rewrite.map.push(new);
    }
    Some(rewrite.finish())
}

/// A view as a broadcast of its first elements along the axes that repeat.
fn copied_once(rewrite: &mut Rewrite, id: NodeId, repeats: &[bool]) -> NodeId {
    let old = rewrite.old;
    let node = &old.nodes[id];
    let ty = old.ty(Value::of(id)).clone();
    let extents = ty.extents();
    let inputs = node.inputs.iter().map(|&input| rewrite.value(input)).collect();
    let all = rewrite.beside(id, "repeated", node.op.clone(), inputs, ty.clone());
    let firsts: Vec<usize> =
        extents.iter().zip(repeats).map(|(&extent, &repeats)| if repeats { 1 } else { extent }).collect();
    let slice = View::Slice { start: vec![0; extents.len()], step: vec![1; extents.len()] };
    let first = rewrite.beside(id, "first", NodeOp::View(slice), vec![all], Type::new(ty.dtype, &firsts));
    let axes: Vec<usize> = (0..extents.len()).filter(|&axis| !repeats[axis]).collect();
    let kept: Vec<usize> = axes.iter().map(|&axis| extents[axis]).collect();
    let reshape = NodeOp::View(View::Reshape);
    let once = rewrite.beside(id, "once", reshape, vec![first], Type::new(ty.dtype, &kept));
    let broadcast = NodeOp::View(View::Broadcast { axes });
    rewrite.new.push(Node { op: broadcast, inputs: vec![once], ..node.clone() })
}

/// The axes along which all elements of a value are equal.
struct Repeats<'g> {
    graph: &'g Graph,
    /// By node, and by axis of its first result.
    axes: Vec<Vec<bool>>,
}

impl<'g> Repeats<'g> {
    fn new(graph: &'g Graph) -> Repeats<'g> {
        let mut repeats = Repeats { graph, axes: vec![] };
        for node in &graph.nodes {
            let axes = repeats.of_node(node);
            repeats.axes.push(axes);
        }
        repeats
    }

    /// Whether a node is a view that a copy would repeat. A broadcast that comes last needs no copy of what it repeats.
    fn in_a_copy(&self, node: NodeId) -> bool {
        let is_view = match &self.graph.nodes[node].op {
            NodeOp::View(view) => !matches!(view, View::Broadcast { .. }),
            _ => false,
        };
        let extents = self.graph.ty(Value::of(node)).extents();
        is_view && self.axes[node].iter().zip(extents).any(|(&repeats, extent)| repeats && extent > 1)
    }

    fn of(&self, value: Value) -> Vec<bool> {
        match value.port {
            0 => self.axes[value.node].clone(),
            _ => vec![false; self.graph.ty(value).rank()],
        }
    }

    fn of_node(&self, node: &Node) -> Vec<bool> {
        let Some(extents) = node.outputs.first().map(|output| output.ty.extents()) else { return vec![] };
        let nothing = vec![false; extents.len()];
        if extents.contains(&0) {
            return nothing;
        }
        let mut axes = match &node.op {
            NodeOp::Const(_) => vec![true; extents.len()],
            NodeOp::Scalar(_) => node.inputs.iter().fold(vec![true; extents.len()], |all, &input| {
                all.iter().zip(self.of(input)).map(|(&all, repeats)| all && repeats).collect()
            }),
            NodeOp::View(view) => self.of_view(view, node.inputs[0], &extents),
            _ => nothing,
        };
        axes.iter_mut().zip(extents).for_each(|(repeats, extent)| *repeats |= extent == 1);
        axes
    }

    fn of_view(&self, view: &View, operand: Value, extents: &[usize]) -> Vec<bool> {
        let mut repeats = self.of(operand);
        match view {
            View::Reshape => reshaped(&self.graph.ty(operand).extents(), &repeats, extents),
            View::Permute { perm } => perm.iter().map(|&axis| repeats[axis]).collect(),
            View::Broadcast { axes } => {
                let from = |axis: usize| axes.iter().position(|&to| to == axis);
                (0..extents.len()).map(|axis| from(axis).is_none_or(|from| repeats[from])).collect()
            }
            View::Slice { .. } => repeats,
            View::Pad { low, high, .. } => {
                let padded = low.iter().zip(high).map(|(low, high)| low + high > 0);
                repeats.iter().zip(padded).map(|(&repeats, padded)| repeats && !padded).collect()
            }
            &View::Window { axis, .. } => {
                repeats.insert(axis + 1, repeats[axis]);
                repeats
            }
        }
    }
}

/// Which axes repeat under another shape: those that overlap no axis along which elements differ.
fn reshaped(from: &[usize], repeats: &[bool], to: &[usize]) -> Vec<bool> {
    let reaches = |extents: &[usize]| -> Vec<[usize; 2]> {
        dense_strides(extents)
            .into_iter()
            .zip(extents)
            .map(|(stride, extent)| [stride, stride * extent])
            .collect()
    };
    let all = reaches(from);
    let differing: Vec<[usize; 2]> =
        all.into_iter().zip(repeats).filter(|&(_, &repeats)| !repeats).map(|(reach, _)| reach).collect();
    let is_apart = |[low, high]: [usize; 2], [from, until]: [usize; 2]| {
        from.is_multiple_of(high) || low.is_multiple_of(until)
    };
    reaches(to).into_iter().map(|reach| differing.iter().all(|&other| is_apart(reach, other))).collect()
}
