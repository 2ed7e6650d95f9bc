//! Operands that share memory.

use super::interp::Sharing;
use engine_core::fusion::{Kernel, Use};
use engine_core::plan::{BufferId, Launch, Place, Plan};

/// For each operand that is written, the memory that it shares with the others.
pub fn of_operands(plan: &Plan, launch: &Launch, kernel: &Kernel) -> Vec<Sharing> {
    let buffers = &launch.buffers;
    let sharing = |i: usize| {
        let meets =
            |&j: &usize| j != i && (buffers[i] == buffers[j] || arena_overlap(plan, buffers[i], buffers[j]));
        let mut others = (0..buffers.len()).filter(meets);
        match (others.next(), others.next()) {
            (None, _) => Sharing::Alone,
            (Some(read), None) if is_in_place(plan, kernel, launch, i, read) => Sharing::InPlace(read),
            _ => Sharing::Overlaps,
        }
    };
    let operands = kernel.operands.iter().enumerate();
    operands
        .map(|(i, operand)| if operand.usage == Use::Write { sharing(i) } else { Sharing::Alone })
        .collect()
}

/// Whether operand `read` is read and has exactly the elements of operand `written`.
fn is_in_place(plan: &Plan, kernel: &Kernel, launch: &Launch, written: usize, read: usize) -> bool {
    let [a, b] = [written, read].map(|operand| launch.buffers[operand]);
    let is_same_place = match (&plan.buffers[a].place, &plan.buffers[b].place) {
        (Place::Arena(a), Place::Arena(b)) => a == b,
        _ => a == b,
    };
    let [a, b] = [written, read].map(|operand| &kernel.operands[operand].ty);
    kernel.operands[read].usage == Use::Read && is_same_place && a.dtype == b.dtype && a.numel() == b.numel()
}

fn arena_overlap(plan: &Plan, a: BufferId, b: BufferId) -> bool {
    let range = |id: BufferId| match plan.buffers[id].place {
        Place::Arena(offset) => Some(offset..offset + plan.buffers[id].ty.bytes()),
        Place::Input(_) => None,
    };
    match (range(a), range(b)) {
        (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
        _ => false,
    }
}

/// Whether a launch writes state.
pub fn writes_state(plan: &Plan, launch: &Launch, kernel: &Kernel) -> bool {
    let is_state = |id: BufferId| matches!(plan.buffers[id].place, Place::Input(_));
    launch
        .buffers
        .iter()
        .zip(&kernel.operands)
        .any(|(&id, operand)| operand.usage == Use::Write && is_state(id))
}
