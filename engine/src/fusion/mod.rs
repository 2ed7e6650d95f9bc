//! Fusion: from a simplified primitive graph to kernels.
//!
//! Decisions follow kinds and properties (how many points, which elements each point reads, what a library GEMM can
//! absorb), never op names.

mod abilities;
mod access;
mod attention;
mod body;
mod build;
mod domain;
mod edges;
mod groups;
mod kernel;
mod order;
mod scatter;
#[cfg(test)]
mod tests;
mod text;
mod verify;

pub use abilities::{Abilities, MAX_OPERANDS, RowFolds};
pub use access::{Access, Axis, Guard, Level};
pub use attention::{MAX_DEPTH, separate_scores};
pub use build::op_name;
pub use domain::{Class, Domain};
pub use groups::NotFused;
pub use kernel::attention::{AttentionBody, Source, Window};
pub use kernel::body::{FusedBody, FusedInst, FusedOp, Reg};
pub use kernel::matmul::{MatmulBody, MatrixOperand, Side, SideSum};
pub use kernel::operand::{Operand, Use};
pub use kernel::row_fold::{RowConsumer, RowsBody};
pub use kernel::scatter::ScatterBody;
pub use kernel::{Kernel, KernelBody, OpaqueBody, Segment};
pub use verify::verify;

use crate::ir::Graph;

/// Kernels in dependency order, and every edge between two of them with the reason why it stayed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// What was not fused, and why.
    pub not_fused: Vec<NotFused>,
}

/// How far fusion goes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Off, every node that has work to do becomes a kernel of its own.
    pub fuse: bool,
    /// Names of passes, of [`PASSES`], that are switched off.
    pub without: Vec<String>,
    /// At most so many kernels grow by another: bisects a wrong fusion.
    pub fuel: usize,
    /// What the device can do.
    pub abilities: Abilities,
    /// Whether sums are taken in an order of their own on every device, at whatever price.
    pub deterministic: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let abilities = Abilities::default();
        Settings { fuse: true, without: vec![], fuel: usize::MAX, abilities, deterministic: false }
    }
}

/// What fusion does, in this order, once every node that has work to do is a kernel: maps go into the contraction whose
/// result they read, sums beside the contraction that reads what they sum, maps into the scatter that they lead to,
/// producers into their consumers, kernels over the same points beside each other, and maps that differ only in their
/// tensors into one.
pub const PASSES: [&str; 8] =
    ["attention", "epilogues", "row-folds", "side-sums", "scatters", "edges", "siblings", "segments"];

impl Settings {
    fn runs(&self, pass: &str) -> bool {
        self.fuse && self.fuel > 0 && !self.without.iter().any(|name| name == pass)
    }
}

/// Groups the nodes of a simplified primitive graph into kernels. With `fuse: false` every node that has work to do
/// becomes a kernel of its own.
pub fn fuse(graph: &Graph, fuse: bool) -> Fused {
    fuse_with(graph, &Settings { fuse, ..Settings::default() })
}

/// Groups the nodes of a simplified primitive graph into kernels, as far as the settings let it.
pub fn fuse_with(graph: &Graph, settings: &Settings) -> Fused {
    let real = edges::RealGraph::new(graph, settings.fuse, settings.abilities.most_operands);
    let mut clusters = groups::FusionGroups::new(&real, settings.clone());
    clusters.fuse();
    let kernels = build::kernels(&real, &clusters, settings);
    Fused { kernels, not_fused: clusters.not_fused() }
}
