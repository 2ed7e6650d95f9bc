//! Long reductions across memory in two steps: parts of the rows first, then the parts.
//!
//! A bias is added to thousands of rows, so its gradient is a sum over all of them, for a few thousand columns. A block that
//! reduces whole columns reads a few neighbours of each row, and there are few blocks. Parts of 128 rows fill a GPU, and
//! their blocks read whole lines. Sums of halves stay in `f32` in between.

use super::domain::Domain;
use super::kernel::{FusedBody, FusedOp, Kernel, KernelBody};
use super::rewrite::Rewrite;
use super::{Class, Settings};
use crate::ir::{Graph, Monoid, Node, NodeId, NodeOp, Scalar, Type, Value, View};
use std::collections::BTreeSet;

/// Rows of a part, by preference.
const PART_ROWS: [usize; 5] = [128, 256, 64, 100, 32];

/// The graph with the long reductions of some kernels in two steps; none if there are none. The kernels are those of the graph.
pub fn split_columns(graph: &Graph, kernels: &[Kernel], settings: &Settings) -> Option<Graph> {
    let longest = settings.longest_column();
    let reductions: BTreeSet<NodeId> =
        kernels.iter().flat_map(|kernel| long(graph, kernel, longest)).collect();
    if reductions.is_empty() {
        return None;
    }
    let mut rewrite = Rewrite::new(graph);
    for id in 0..graph.nodes.len() {
        let new = match reductions.contains(&id) {
            true => in_two_steps(&mut rewrite, id),
            false => rewrite.copied(id),
        };
        rewrite.map.push(new);
    }
    Some(rewrite.finish())
}

/// The reductions of a kernel over rows that are longer than `longest` and lie across memory. A kernel that reads its elements
/// again behind the reduction is left as it is.
fn long<'k>(graph: &'k Graph, kernel: &'k Kernel, longest: usize) -> impl Iterator<Item = NodeId> + 'k {
    let is_long = match &kernel.body {
        KernelBody::Row(body) => {
            let Domain { row, inner, .. } = body.domain;
            inner > 1
                && row >= longest
                && part_rows(row).is_some_and(|part| part < longest.min(row))
                && reads_once(body)
        }
        _ => false,
    };
    let nodes = kernel.nodes.iter().copied().filter(move |_| is_long);
    nodes.filter(|&node| splits(graph, node))
}

fn part_rows(row: usize) -> Option<usize> {
    PART_ROWS.into_iter().find(|&part| row.is_multiple_of(part))
}

fn splits(graph: &Graph, node: NodeId) -> bool {
    let is_associative = |monoid| matches!(monoid, Monoid::Sum | Monoid::Max | Monoid::Min);
    matches!(graph.nodes[node].op, NodeOp::Reduce { monoid, .. } if is_associative(monoid))
}

/// Whether no element depends on a reduction.
fn reads_once(body: &FusedBody) -> bool {
    let mut is_reduced: Vec<bool> = vec![];
    for inst in &body.insts {
        is_reduced.push(match &inst.op {
            FusedOp::Reduce { .. } => true,
            FusedOp::Scalar(_, operands) => operands.iter().any(|&operand| is_reduced[operand]),
            FusedOp::Store { value, .. } => is_reduced[*value],
            _ => false,
        });
    }
    body.insts.iter().zip(is_reduced).all(|(inst, is_reduced)| inst.class != Class::Element || !is_reduced)
}

/// The parts of a reduction, and what they are reduced to.
fn in_two_steps(rewrite: &mut Rewrite, id: NodeId) -> NodeId {
    let node = &rewrite.old.nodes[id];
    let NodeOp::Reduce { monoid, ref axes } = node.op else {
        crate::bug!("`{}` is no reduction", node.name())
    };
    let from = rewrite.old.ty(node.inputs[0]).clone();
    let Domain { outer, row, inner } = Domain::of_reduction(&from.extents(), axes);
    let part = part_rows(row).unwrap_or(row);
    let dtype = if monoid == Monoid::Sum { from.dtype.accumulator() } else { from.dtype };
    let mut x = rewrite.value(node.inputs[0]);
    if dtype != from.dtype {
        let wide = NodeOp::Scalar(Scalar::Cast(dtype));
        x = rewrite.beside(id, "wide", wide, vec![x], from.with_dtype(dtype));
    }
    let ty = |extents: &[usize]| Type::new(dtype, extents);
    let n_parts = row / part;
    let reshape = || NodeOp::View(View::Reshape);
    let rows = rewrite.beside(id, "rows", reshape(), vec![x], ty(&[outer, n_parts, part, inner]));
    let reduce = |axis| NodeOp::Reduce { monoid, axes: vec![axis] };
    let parts = rewrite.beside(id, "parts", reduce(2), vec![rows], ty(&[outer, n_parts, inner]));
    let mut whole = rewrite.beside(id, "whole", reduce(1), vec![parts], ty(&[outer, inner]));
    let to = rewrite.old.ty(Value::of(id)).dtype;
    if to != dtype {
        let narrow = NodeOp::Scalar(Scalar::Cast(to));
        whole = rewrite.beside(id, "narrow", narrow, vec![whole], Type::new(to, &[outer, inner]));
    }
    let node = Node { op: reshape(), inputs: vec![whole], ..rewrite.old.nodes[id].clone() };
    rewrite.new.push(node)
}
