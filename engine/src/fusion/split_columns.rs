//! Long reductions in two steps: parts of the rows first, then the parts.
//!
//! A bias is added to thousands of rows, so its gradient is a sum over all of them, for a few thousand columns. A block that
//! reduces whole columns reads a few neighbours of each row, and there are few blocks. Parts of 128 rows fill a GPU, and
//! their blocks read whole lines. Sums of halves stay in `f32` in between.
//!
//! Rows without a fitting divisor leave a remainder, which is reduced apart. So do long rows along memory, of which the
//! simplifier splits those with a divisor.

use super::cut_rows::{Cuts, RowRange};
use super::domain::Domain;
use super::kernel::{FusedBody, FusedOp, Kernel, KernelBody, Use};
use super::rewrite::Rewrite;
use super::split_scans::combined_by;
use super::{Class, Settings};
use crate::ir::{DType, Graph, Monoid, Node, NodeId, NodeOp, Scalar, Type, Value, View};
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

/// Rows of a part, by preference.
const PART_ROWS: [usize; 5] = [128, 256, 64, 100, 32];
/// Rows of a part if none of these divides them.
const OTHER_PART_ROWS: RangeInclusive<usize> = 64..=256;
/// The shortest row along memory that is split, and the most such rows: more fill a GPU.
const LONG_ROW: usize = 1 << 16;
const FEW_ROWS: usize = 16;
/// The most rows across memory whose remainders are reduced apart.
const MOST_CUT_ROWS: usize = 1 << 14;

/// The graph with the long reductions of some kernels in two steps; none if there are none. The kernels are those of the graph.
pub fn split_columns(graph: &Graph, kernels: &[Kernel], settings: &Settings) -> Option<Graph> {
    let longest = settings.longest_column();
    let written = kernels.iter().flat_map(|kernel| kernel.uses(Use::Write)).map(|operand| operand.value);
    let mut cuts = Cuts::new(graph, written.collect::<HashSet<Value>>());
    let is_cut = |&(node, parts): &(NodeId, Parts)| {
        let operand = graph.nodes[node].inputs[0];
        parts.rest == 0 || graph.ty(operand).dtype != DType::Bool && cuts.can_cut(operand)
    };
    let long = kernels.iter().flat_map(|kernel| long(graph, kernel, longest));
    let reductions: BTreeMap<NodeId, Parts> = long.filter(is_cut).collect();
    if reductions.is_empty() {
        return None;
    }
    let mut rewrite = Rewrite::new(graph);
    for id in 0..graph.nodes.len() {
        let new = match reductions.get(&id) {
            Some(&parts) => in_two_steps(&mut rewrite, &mut cuts, id, parts),
            None => rewrite.copied(id),
        };
        rewrite.map.push(new);
    }
    Some(rewrite.finish())
}

/// A row as equal parts and a remainder.
#[derive(Clone, Copy)]
struct Parts {
    part: usize,
    n_parts: usize,
    rest: usize,
}

impl Parts {
    /// The parts of rows across memory that are longer than `longest`, or of few long rows along memory.
    fn of(domain: Domain, longest: usize) -> Option<Parts> {
        let Domain { outer, row, inner } = domain;
        let part = match inner {
            1 if row >= LONG_ROW.max(longest) && outer <= FEW_ROWS => {
                row.isqrt().next_multiple_of(PART_ROWS[0])
            }
            2.. if row >= longest => {
                let mut preferred = PART_ROWS.into_iter().chain(OTHER_PART_ROWS.rev());
                let part = preferred.find(|&part| row.is_multiple_of(part)).unwrap_or(PART_ROWS[0]);
                Some(part).filter(|&part| part < longest.min(row))?
            }
            _ => return None,
        };
        let parts = Parts { part, n_parts: row / part, rest: row % part };
        (parts.rest == 0 || domain.points(Class::Row) <= MOST_CUT_ROWS).then_some(parts)
    }
}

/// The long reductions of a kernel. A kernel that reads its elements again behind the reduction is left as it is.
fn long<'k>(
    graph: &'k Graph,
    kernel: &'k Kernel,
    longest: usize,
) -> impl Iterator<Item = (NodeId, Parts)> + 'k {
    let is_read_once = matches!(&kernel.body, KernelBody::Row(body) if reads_once(body));
    let nodes = kernel.nodes.iter().filter(move |_| is_read_once);
    nodes.filter_map(move |&node| Some((node, Parts::of(reduced(graph, node)?, longest)?)))
}

/// The rows of a node that reduces them, if it may reduce parts first.
fn reduced(graph: &Graph, node: NodeId) -> Option<Domain> {
    let Node { op: NodeOp::Reduce { monoid, axes }, inputs, .. } = &graph.nodes[node] else { return None };
    let is_associative = matches!(monoid, Monoid::Sum | Monoid::Max | Monoid::Min);
    is_associative.then(|| Domain::of_reduction(&graph.ty(inputs[0]).extents(), axes))
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

/// The parts of a reduction and its remainder, and what they are reduced to.
fn in_two_steps(rewrite: &mut Rewrite, cuts: &mut Cuts, id: NodeId, parts: Parts) -> NodeId {
    let node = &rewrite.old.nodes[id];
    let NodeOp::Reduce { monoid, ref axes } = node.op else {
        crate::bug!("`{}` is no reduction", node.name())
    };
    let operand = node.inputs[0];
    let from = rewrite.old.ty(operand).clone();
    let domain = Domain::of_reduction(&from.extents(), axes);
    let Domain { outer, inner, .. } = domain;
    let Parts { part, n_parts, rest } = parts;
    let dtype = if monoid == Monoid::Sum { from.dtype.accumulator() } else { from.dtype };
    let ty = |extents: &[usize]| Type::new(dtype, extents);
    let reshape = || NodeOp::View(View::Reshape);
    let reduce = |axis| NodeOp::Reduce { monoid, axes: vec![axis] };
    let even = match rest {
        0 => rewrite.value(operand),
        _ => cuts.cut(rewrite, id, operand, RowRange { domain, first: 0, count: n_parts * part }),
    };
    let x = widened(rewrite, id, even, dtype);
    let rows = rewrite.beside(id, "rows", reshape(), vec![x], ty(&[outer, n_parts, part, inner]));
    let of_parts = rewrite.beside(id, "parts", reduce(2), vec![rows], ty(&[outer, n_parts, inner]));
    let mut whole = rewrite.beside(id, "whole", reduce(1), vec![of_parts], ty(&[outer, inner]));
    if rest > 0 {
        let range = RowRange { domain, first: n_parts * part, count: rest };
        let x = cuts.cut(rewrite, id, operand, range);
        let x = widened(rewrite, id, x, dtype);
        let op = if rest == 1 { reshape() } else { reduce(1) };
        let last = rewrite.beside(id, "rest", op, vec![x], ty(&[outer, inner]));
        let combine = NodeOp::Scalar(Scalar::Binary(combined_by(monoid)));
        whole = rewrite.beside(id, "all", combine, vec![whole, last], ty(&[outer, inner]));
    }
    let to = rewrite.old.ty(Value::of(id)).dtype;
    if to != dtype {
        let narrow = NodeOp::Scalar(Scalar::Cast(to));
        whole = rewrite.beside(id, "narrow", narrow, vec![whole], Type::new(to, &[outer, inner]));
    }
    let node = Node { op: reshape(), inputs: vec![whole], ..rewrite.old.nodes[id].clone() };
    rewrite.new.push(node)
}

/// A new value in the type in which parts are reduced.
fn widened(rewrite: &mut Rewrite, id: NodeId, x: Value, dtype: DType) -> Value {
    let ty = rewrite.new.ty(x).with_dtype(dtype);
    if rewrite.new.ty(x).dtype == dtype {
        return x;
    }
    rewrite.beside(id, "wide", NodeOp::Scalar(Scalar::Cast(dtype)), vec![x], ty)
}
