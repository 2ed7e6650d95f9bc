//! From groups to kernels.

pub mod attention;
pub mod attention_gradient;
mod body;
pub mod figures;
mod matmul;
pub mod names;
mod scatter;
pub mod sequence;

use super::domain::{Class, Domain};
use super::graph::FusionGraph;
use super::groups::{FusionGroups, Kind};
use super::kernel::body::FusedBody;
use super::kernel::operand::{Operand, Use};
use super::kernel::{Kernel, KernelBody};
use crate::ir::{NodeId, NodeOp, Value};
use body::BodyBuilder;
use std::collections::HashSet;

/// One kernel per group, without names.
pub fn kernels(groups: &FusionGroups) -> Vec<Kernel> {
    let ids = (0..groups.groups.len()).filter(|&id| !groups.groups[id].members.is_empty());
    // A kernel writes nothing if all users compute its nodes again.
    ids.map(|id| build(groups, id)).filter(|kernel| kernel.uses(Use::Write).next().is_some()).collect()
}

fn build(groups: &FusionGroups, id: usize) -> Kernel {
    let (graph, group) = (groups.graph, &groups.groups[id]);
    let inside: HashSet<NodeId> = group.nodes().collect();
    let fused = |domain: Domain| {
        let mut builder = BodyBuilder::new(graph, &inside, None, domain);
        let stores = builder.stores(groups, &group.members);
        builder.finish(stores)
    };
    let (body, operands) = match group.kind {
        Kind::Scatter(node) => {
            let duplicated = groups.duplicated.get(&id).into_iter().flatten();
            let computed = inside.iter().chain(duplicated).copied().collect();
            scatter::build(graph, &computed, node, groups.settings.deterministic)
        }
        Kind::Whole => whole(graph, group.members[0].0),
        Kind::Map(n) => {
            let (body, operands) = fused(map_domain(graph, &inside, n));
            (map_or_rows(body), operands)
        }
        Kind::Row(domain) => {
            let (body, operands) = fused(domain);
            (KernelBody::Row(body), operands)
        }
        Kind::Matmul(node, domain) => matmul::build(groups, group, &inside, node, domain),
        Kind::Attention(number) => attention::build(groups, &groups.attentions[number]),
        Kind::AttentionGradient(number) => attention_gradient::build(groups, &groups.gradients[number]),
    };
    Kernel {
        name: String::new(),
        bytes_read: figures::bytes_read(&body, &operands),
        bytes_written: figures::bytes_written(&body, &operands),
        flops: figures::flops(&body),
        ops: group.nodes().map(|node| names::op_name(graph.op(node))).collect(),
        nodes: group.nodes().collect(),
        body,
        operands,
    }
}

/// A map with indices that are constant along trailing axes computes them once per row.
fn map_or_rows(body: FusedBody) -> KernelBody {
    if body.insts.iter().any(|inst| inst.class == Class::Row) {
        return KernelBody::Row(body);
    }
    KernelBody::Map(FusedBody { domain: Domain::flat(body.domain.points(Class::Element)), ..body })
}

/// The domain of a map: rows as long as the longest rows that it gathers.
fn map_domain(graph: &FusionGraph, inside: &HashSet<NodeId>, n_points: usize) -> Domain {
    let mut stack: Vec<NodeId> = inside.iter().copied().collect();
    stack.sort_unstable();
    let mut row = None;
    while let Some(node) = stack.pop() {
        let inputs = &graph.ir.nodes[node].inputs;
        if let NodeOp::Gather { axis, .. } = graph.op(node) {
            let trailing: usize = graph.ir.ty(inputs[0]).extents()[axis + 1..].iter().product();
            if trailing > 1 && n_points.is_multiple_of(trailing) && graph.numel(node) == n_points {
                row = row.max(Some(trailing));
            }
        }
        stack.extend(inputs.iter().map(|input| input.node).filter(|&input| graph.is_recomputed(input)));
    }
    let row = row.unwrap_or(n_points);
    Domain { outer: n_points.checked_div(row).unwrap_or(1), row, inner: 1 }
}

/// The kernel of one node that reads and writes whole tensors.
fn whole(graph: &FusionGraph, id: NodeId) -> (KernelBody, Vec<Operand>) {
    let node = &graph.ir.nodes[id];
    let read = |&value: &Value| {
        let buffer = graph.dense(value);
        let buffer = buffer.unwrap_or_else(|| crate::bug!("operand of `{}` is not dense", node.name()));
        Operand::read(graph.ir, buffer)
    };
    let results = Operand::results(graph.ir, id);
    (KernelBody::of_node(graph.ir, id), node.inputs.iter().map(read).chain(results).collect())
}
