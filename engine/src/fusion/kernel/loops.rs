//! Loops whose kernels run once per trip.

use crate::ir::NodeId;

/// A loop. The operands of its kernel are the initial carried values, the given values, and the results.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopBody {
    /// The node, by which the plan knows the kernels of a trip.
    pub node: NodeId,
    /// The number of trips, or the most of them.
    pub trips: usize,
    /// The number of carried values.
    pub n_carried: usize,
    /// The number of given values.
    pub n_given: usize,
    /// Whether it may end early. The number of trips is then the last result.
    pub until: bool,
    /// The nodes that check, in the kernels of a trip.
    pub checks: Vec<NodeId>,
    /// Bytes of all values of a trip.
    pub workspace_bytes: usize,
}

impl LoopBody {
    /// The operand that holds a carried value during the loop and after it.
    pub fn carried(&self, number: usize) -> usize {
        self.n_carried + self.n_given + number
    }

    /// The operand that holds a given value.
    pub fn given(&self, number: usize) -> usize {
        self.n_carried + number
    }

    /// The operand that holds the number of trips, if it is a result.
    pub fn n_trips(&self) -> Option<usize> {
        self.until.then(|| self.carried(self.n_carried))
    }
}
