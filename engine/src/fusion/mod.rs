//! Fusion: from a simplified primitive graph to kernels.
//!
//! Decisions follow kinds and properties (numbers of points, access maps, the limits of a library matmul), never op names.

mod access;
mod attention;
mod attention_gradient;
mod build;
mod convolution;
mod copy_once;
mod cost;
mod cut_rows;
mod domain;
mod explain;
mod few_windows;
mod graph;
mod groups;
mod join_products;
mod kernel;
mod legality;
mod moved;
mod order;
mod passes;
mod place;
mod remade;
mod rewrite;
mod separate_scores;
mod settings;
mod shapes;
mod share_copies;
mod softmax_gradients;
mod split_columns;
mod split_scans;
mod stacks;
#[cfg(test)]
mod tests;
mod text;
mod verify;

pub use access::{Access, Axis, Guard, Level};
pub use build::names::op_name;
pub use convolution::{Computed, Convolution, TensorLayout};
pub use copy_once::copy_once;
pub use cost::MAX_DEPTH;
pub use domain::{Class, Domain};
pub use explain::NotFused;
pub use few_windows::FewWindows;
pub use join_products::{JOIN_PRODUCTS, join_products};
pub use kernel::*;
pub use passes::{Example, FusionPass, PASSES};
pub use separate_scores::separate_scores;
pub use settings::{Settings, SharedAttention};
pub use share_copies::share_copies;
pub use split_columns::split_columns;
pub use split_scans::split_scans;
pub use verify::verify;

use crate::ir::{Graph, NodeId};
use std::collections::BTreeSet;

/// Kernels in dependency order, and the edges between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// Every edge between two kernels, with its reason.
    pub not_fused: Vec<NotFused>,
}

/// Fuses the nodes of a simplified primitive graph into kernels. With `fuse: false`, every node that computes something
/// becomes a kernel of its own.
pub fn fuse(graph: &Graph, fuse: bool) -> Fused {
    fuse_with(graph, &Settings { fuse, ..Settings::default() })
}

/// Fuses the nodes of a simplified primitive graph into kernels, as far as the settings allow.
pub fn fuse_with(graph: &Graph, settings: &Settings) -> Fused {
    let mut stacks = stacks::readable(graph, settings);
    loop {
        match fuse_reading(graph, settings, &stacks) {
            Ok(fused) => return fused,
            Err(copied) => stacks.retain(|node| !copied.contains(node)),
        }
    }
}

/// Fuses while some matmuls read stacks of matrices where they lie.
///
/// # Errors
/// The matmuls that read stacks and are no attention.
fn fuse_reading(
    graph: &Graph,
    settings: &Settings,
    stacks: &BTreeSet<NodeId>,
) -> Result<Fused, BTreeSet<NodeId>> {
    let graph = graph::FusionGraph::reading(graph, settings, stacks);
    let passes: Vec<_> =
        PASSES.iter().filter(|pass| settings.runs(pass.name()) && pass.pays_on(settings)).collect();
    let mut groups = groups::FusionGroups::new(&graph, settings);
    for pass in &passes {
        if groups.fuel > 0 {
            pass.grow(&mut groups);
        }
    }
    let copied = stacks::unread(&groups, stacks);
    if !copied.is_empty() {
        return Err(copied);
    }
    let kernels = build::kernels(&groups);
    let join = |kernels, pass: &&&dyn FusionPass| pass.join_kernels(&graph, settings, kernels);
    let kernels = build::sequence::finish(&graph, passes.iter().fold(kernels, join));
    Ok(Fused { not_fused: explain::not_fused(&groups, &kernels), kernels })
}
