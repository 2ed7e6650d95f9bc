//! Explanations: the reason for every edge between two kernels.

use super::graph::Edge;
use super::groups::{FusionGroups, Kind};
use super::kernel::Kernel;
use super::legality::{self, OTHER_USERS};
use super::passes::PASSES;
use crate::ir::{NodeId, Value};
use std::collections::HashMap;

/// The reason why two kernels are not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFused {
    /// Producer.
    pub from: Value,
    /// Consumer.
    pub to: NodeId,
    /// The rule that refused, and the bytes that the edge moves.
    pub reason: String,
}

/// Every edge between two kernels, with its reason. Some groups have become one of the kernels.
pub fn not_fused(groups: &FusionGroups, kernels: &[Kernel]) -> Vec<NotFused> {
    let mut edges: Vec<NotFused> = vec![];
    let mut kernel_of: HashMap<NodeId, usize> = HashMap::new();
    for (id, kernel) in kernels.iter().enumerate() {
        kernel_of.extend(kernel.nodes.iter().map(|&node| (node, id)));
    }
    for node in 0..groups.group_of.len() {
        let Some(to) = groups.group_of[node] else { continue };
        let first = edges.len();
        for edge in &groups.graph.edges[node] {
            let producer = edge.producer.node;
            let Some(from) = groups.group_of[producer] else { continue };
            let is_one_kernel =
                kernel_of.contains_key(&node) && kernel_of.get(&producer) == kernel_of.get(&node);
            let is_fused = is_one_kernel
                || from == to
                || is_read_through(groups, producer, to)
                || groups.is_duplicated(producer, node);
            if !is_fused && edges[first..].iter().all(|known| known.from != edge.producer) {
                edges.push(explain(groups, edge, node, from, to));
            }
        }
    }
    edges
}

/// Whether group `to` is an attention that computes a node of another group again.
fn is_read_through(groups: &FusionGroups, node: NodeId, to: usize) -> bool {
    matches!(groups.groups[to].kind, Kind::Attention(number)
        if groups.attentions[number].duplicated.contains(&node))
}

fn explain(groups: &FusionGroups, edge: &Edge, node: NodeId, from: usize, to: usize) -> NotFused {
    let is_off = groups.fuel == 0 || PASSES.iter().any(|pass| !groups.settings.runs(pass.name()));
    let refusal = match legality::can_join(groups, from, to) {
        Err(_)
            if groups.groups[from].is_matmul() && legality::row_reduction(groups, from, node).is_some() =>
        {
            legality::can_fold(groups, from, node).err().unwrap_or(OTHER_USERS)
        }
        Err(refusal) => refusal,
        Ok(_) if is_off => "the settings hold fusion back",
        Ok(_) => "the value has other users, so it is stored anyway",
    };
    let bytes = 2 * groups.graph.ir.ty(edge.producer).bytes();
    let reason = format!("{refusal} ({bytes} bytes through memory)");
    NotFused { from: edge.producer, to: node, reason }
}
