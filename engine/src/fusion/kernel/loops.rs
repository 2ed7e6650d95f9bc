//! Loops whose kernels run once per trip.

use super::work::Work;
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
    /// A loop before its trip is planned: without assertions and workspace.
    pub fn new(node: NodeId, trips: usize, n_carried: usize, n_given: usize, until: bool) -> LoopBody {
        LoopBody { node, trips, n_carried, n_given, until, checks: vec![], workspace_bytes: 0 }
    }

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

/// The kernels of a trip have operations of their own.
impl Work for LoopBody {
    fn kind(&self) -> &'static str {
        "loop"
    }

    fn lines(&self) -> Vec<String> {
        let most = if self.until { "at most " } else { "" };
        let (n_carried, n_given) = (self.n_carried, self.n_given);
        vec![format!("{most}{} trips, {n_carried} values carried, {n_given} given", self.trips)]
    }

    fn more_assertions(&self) -> &[NodeId] {
        &self.checks
    }

    fn reads_whole(&self, _operand: usize) -> bool {
        true
    }

    fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }
}
