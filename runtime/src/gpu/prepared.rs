//! Programs ready to run: steps with compiled kernels and described library calls.

use engine_core::program::Place;
use std::sync::Arc;

/// A program ready to run.
pub struct Prepared<K, P> {
    /// The compiled kernels.
    pub kernels: Vec<Arc<K>>,
    /// The matmuls of a library.
    pub products: Vec<P>,
    /// In the order of the program.
    pub steps: Vec<PreparedStep>,
}

/// A step with its place in the program.
pub struct PreparedStep {
    pub work: Work,
    /// As [`engine_core::program::Step::branch`].
    pub branch: usize,
    /// As [`engine_core::program::Step::waits`].
    pub waits: Vec<usize>,
}

/// The work of a step.
pub enum Work {
    /// Launches a kernel, given by its position in [`Prepared::kernels`]. `info` are the scalars in their memory layout.
    Kernel {
        kernel: usize,
        arguments: Vec<Place>,
        grid: [u32; 3],
        info: Vec<u64>,
    },
    /// Calls a library with a matmul, given by its position in [`Prepared::products`].
    Product {
        product: usize,
        factors: [Place; 2],
        result: Place,
        bias: Option<Place>,
    },
    Copy {
        from: Place,
        to: Place,
        bytes: usize,
    },
    Fill {
        to: Place,
        bytes: usize,
        byte: u8,
    },
}

impl Work {
    /// All memory that it reads or writes.
    pub fn places(&self) -> Vec<Place> {
        match self {
            Work::Kernel { arguments, .. } => arguments.clone(),
            Work::Product { factors, result, bias, .. } => {
                factors.iter().chain([result]).chain(bias).copied().collect()
            }
            &Work::Copy { from, to, .. } => vec![from, to],
            &Work::Fill { to, .. } => vec![to],
        }
    }
}
