//! The kernels of loops, as plans within a plan.

use super::{ALIGNMENT, BufferId, LoopPlan, Place, TripPlace};
use crate::fusion::LoopBody;
use crate::ir::Symbol;

impl LoopPlan {
    /// Bytes of workspace before the values of a trip: they hold the numbers of as many trips as a device enqueues at once.
    pub const HEAD_BYTES: usize = 16 * ALIGNMENT;

    /// Bytes of workspace of the loop.
    pub fn workspace_bytes(&self) -> usize {
        LoopPlan::HEAD_BYTES + self.step.arena_bytes.next_multiple_of(ALIGNMENT)
    }

    /// The memory of a buffer of the plan of a trip.
    pub fn place(&self, body: &LoopBody, buffer: BufferId) -> TripPlace {
        let buffer = &self.step.buffers[buffer];
        if let Place::Arena(offset) = buffer.place {
            return TripPlace::Workspace(LoopPlan::HEAD_BYTES + offset);
        }
        let position = |names: &[Symbol]| names.iter().position(|name| *name == buffer.name);
        let carried = position(&self.carried).map(|number| TripPlace::Operand(body.carried(number)));
        let given = || position(&self.given).map(|number| TripPlace::Operand(body.given(number)));
        carried.or_else(given).unwrap_or_else(|| self.number_place(body))
    }

    /// The memory of the number of the trip.
    pub fn number_place(&self, body: &LoopBody) -> TripPlace {
        body.n_trips().map_or(TripPlace::Workspace(0), TripPlace::Operand)
    }

    /// The memory of the value that ends the loop.
    pub fn ends_place(&self, body: &LoopBody) -> Option<TripPlace> {
        let ends = self.ends.as_ref()?;
        let (_, buffer) = self.step.outputs.iter().find(|(name, _)| name == ends)?;
        Some(self.place(body, *buffer))
    }
}
