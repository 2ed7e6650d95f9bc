//! The printable forms of a stage.

use clap::ValueEnum;

/// The forms of a stage on its way to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// The pipeline's graph as it was read
    Typed,
    /// The graph of one step: with data, gradients and updates
    Grad,
    /// The casts of mixed precision and their rules
    Precision,
    /// Lowered to primitives
    Primitive,
    /// After the rules
    Simplified,
    /// Fused kernels
    Kernels,
    /// Launches and memory
    Plan,
    /// The kernels that run before the first step: what no step changes
    Once,
    /// The steps of each launch on a GPU: kernels, library calls and workspaces; needs no GPU
    Programs,
    /// The kernels as CUDA C++; needs no GPU
    Source,
    /// The kernels as WGSL; needs no GPU
    Wgsl,
}
