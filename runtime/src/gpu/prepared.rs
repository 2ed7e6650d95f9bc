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

impl<K, P> Prepared<K, P> {
    /// The number of launches and calls.
    pub fn n_starts(&self) -> usize {
        self.steps.iter().map(|step| step.work.n_starts()).sum()
    }
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
        added: Option<Place>,
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
    /// Repeats steps, all on branch 0.
    Loop {
        body: Vec<PreparedStep>,
        trips: usize,
        /// The truth value that ends the loop after a trip, if it may end early.
        until: Option<Place>,
        /// The number of trips so far, which the body counts unless the device does.
        number: Place,
    },
}

impl Work {
    /// All memory that it reads or writes.
    pub fn places(&self) -> Vec<Place> {
        match self {
            Work::Kernel { arguments, .. } => arguments.clone(),
            Work::Product { factors, result, added, bias, .. } => {
                factors.iter().chain([result]).chain(added).chain(bias).copied().collect()
            }
            &Work::Copy { from, to, .. } => vec![from, to],
            &Work::Fill { to, .. } => vec![to],
            Work::Loop { body, until, number, .. } => {
                let of_body = body.iter().flat_map(|step| step.work.places());
                of_body.chain(*until).chain([*number]).collect()
            }
        }
    }

    /// The number of launches and calls.
    pub fn n_starts(&self) -> usize {
        match self {
            Work::Loop { body, trips, .. } => {
                trips.saturating_mul(body.iter().map(|step| step.work.n_starts()).sum())
            }
            _ => 1,
        }
    }
}
