//! Opaque kernels: computations of an op that bodies and primitives cannot express, such as a sort.

use super::gpu::{BlockFoldFn, GpuFn};
use super::reference::OracleTensor;
use std::sync::Arc;

pub use super::call::KernelCall;
pub use super::host::{
    Element, Elements, HostFn, HostKernel, HostRun, Lent, Memory, OneThread, Part, Plain, Share, Threads,
    words_as,
};

/// The implementations of an opaque op.
#[derive(Clone)]
pub struct KernelForm {
    /// The implementation on the CPU.
    pub host: HostFn,
    /// The oracle in double precision, against which every device is tested. It maps operands to results.
    pub oracle: OracleFn,
    /// The implementation on a GPU.
    pub gpu: GpuForm,
}

/// The signature of an oracle.
pub type OracleFn = Arc<dyn Fn(&KernelCall, &[&OracleTensor]) -> Vec<OracleTensor> + Send + Sync>;

/// The launches of an opaque op on a GPU.
#[derive(Clone)]
pub enum GpuForm {
    /// No implementation. A device that needs it reports the reason.
    None {
        /// The reason, shown to a user who runs the op on a GPU.
        why: &'static str,
    },
    /// Launches that follow from the shapes and from the block limits of the device.
    Launches(GpuFn),
    /// A block fold of the rows of the first operand. Code generation makes the launches.
    Rows(BlockFoldFn),
}
