//! Where a training stands that takes turns with others.

use engine_core::ir::Symbol;

/// Where a training stands between and within trips.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The step at which the trip ends; none between trips.
    pub(super) goal: Option<u64>,
    /// Between trips: the states of one element that other trainings use under the same names.
    pub(super) parked: Vec<(Symbol, [u8; 4])>,
}
