//! Stacks of matrices without one stride from matrix to matrix, such as the heads of a sequence: `[batch, rows, heads, width]`
//! read as matrices of `[rows, width]`. Attention on tensor cores and in tiles reads them where they lie. All other matmuls read copies.

use super::groups::{FusionGroups, Kind};
use super::settings::Settings;
use crate::ir::{DType, Graph, NodeId, NodeOp};
use std::collections::BTreeSet;

/// The matmuls that may read stacks where they lie, if they become a part of an attention.
pub fn readable(graph: &Graph, settings: &Settings) -> BTreeSet<NodeId> {
    let limits = &settings.device.kernels;
    let has_kernel = |node: NodeId| {
        let dtype = graph.ty(graph.nodes[node].inputs[0]).dtype;
        let is_half = matches!(dtype, DType::F16 | DType::BF16);
        let on_tensor_cores = settings.device.tensor_cores.is_some() && is_half;
        on_tensor_cores || limits.columns_in_tiles > 0 && (is_half || dtype == DType::F32)
    };
    let has_batch = |node: NodeId| match &graph.nodes[node].op {
        NodeOp::Matmul(spec) => !spec.batch.is_empty(),
        _ => false,
    };
    let runs = settings.runs("attention");
    (0..graph.nodes.len()).filter(|&node| runs && has_batch(node) && has_kernel(node)).collect()
}

/// The matmuls among some that read stacks and are no part of an attention.
pub fn unread(groups: &FusionGroups, stacks: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let is_attention = |node: NodeId| {
        let kind = groups.group_of[node].map(|group| groups.groups[group].kind);
        matches!(kind, Some(Kind::Attention(_) | Kind::AttentionGradient(_)))
    };
    let reads = |node: NodeId| [0, 1].into_iter().any(|side| groups.graph.is_read_stack(node, side));
    stacks.iter().copied().filter(|&node| reads(node) && !is_attention(node)).collect()
}
