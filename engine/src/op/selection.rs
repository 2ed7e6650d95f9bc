//! Selections: the first elements of each row in some order.

use super::call::KernelCall;
use super::gpu::Order;

/// The signature of the selection of a call.
pub type SelectionFn = fn(&KernelCall) -> Selection;

/// A fold that keeps the first elements of a row in some order. GPUs have kernels for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    /// The number of elements, at least 1. In a shorter row, the rest has index -1 and the number that comes last.
    pub k: usize,
    /// Their order. Equal elements keep the order of the row.
    pub order: Order,
    /// The selected elements' part in each result.
    pub results: Vec<Selected>,
}

/// What a result holds of the selected elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selected {
    /// The elements.
    Values,
    /// Their positions in the row.
    Indices,
}
