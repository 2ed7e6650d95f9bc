//! Fusion: from a simplified primitive graph to kernels.
//!
//! Decisions follow kinds and properties (how many points, which elements each point reads, what a library GEMM can
//! absorb), never op names.

mod access;
mod attend;
mod build;
mod cluster;
mod edges;
mod kernel;
#[cfg(test)]
mod tests;
mod text;
mod tile;

pub use access::{Access, Axis, Guard, Level};
pub use attend::separate_scores;
pub use cluster::NotFused;
pub use kernel::{
    AttendBody, Class, ContractBody, Domain, Kernel, KernelBody, MatrixOperand, OpaqueBody, Operand, Reg,
    RowConsumer, RowsBody, ScatterBody, Segment, Side, SideSum, Source, Tile, TileInst, TileOp, Use, Window,
};

use crate::ir::Graph;

/// Kernels in dependency order, and every edge between two of them with the reason why it stayed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// What was not fused, and why.
    pub not_fused: Vec<NotFused>,
}

/// Groups the nodes of a simplified primitive graph into kernels. With `fuse: false` every node that has work to do
/// becomes a kernel of its own.
pub fn fuse(graph: &Graph, fuse: bool) -> Fused {
    let real = edges::RealGraph::new(graph, fuse);
    let mut clusters = cluster::Clusters::new(&real);
    if fuse {
        clusters.fuse();
    }
    Fused { kernels: build::kernels(&real, &clusters, fuse), not_fused: clusters.not_fused() }
}
