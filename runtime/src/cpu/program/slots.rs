//! Scratch for what a block computes.

use super::{Dest, Inst, Op};
use engine_core::fusion::Reg;
use std::collections::HashMap;

/// Slots of scratch, in the order of instructions.
#[derive(Default)]
pub(super) struct Slots {
    /// How many there are.
    pub n_slots: usize,
    free: Vec<usize>,
    held: HashMap<Reg, usize>,
}

impl Slots {
    /// Gives each result of a list a slot, and takes it back after the last use; `at` counts instructions over lists.
    pub fn assign(&mut self, insts: &mut [Inst], last: &HashMap<Reg, usize>, mut at: usize) -> usize {
        for inst in insts {
            // A result must not lie where an argument does, so it gets its slot before theirs are free.
            let needs_slot = inst.dest == Dest::None
                && !matches!(inst.op, Op::Store { .. } | Op::Fold(_) | Op::Accumulator);
            let is_reduce = matches!(inst.op, Op::Reduce { .. });
            if needs_slot {
                let slot = self.take();
                inst.dest = Dest::Slot(slot);
                self.held.insert(inst.reg, slot);
            }
            let dead = inst
                .op
                .args()
                .chain((!is_reduce).then_some(inst.reg))
                .filter(|reg| last.get(reg) == Some(&at));
            for reg in dead {
                self.free.extend(self.held.remove(&reg));
            }
            at += 1;
        }
        at
    }

    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.n_slots += 1;
            self.n_slots - 1
        })
    }

    /// Forgets what is held.
    pub fn free_all(&mut self) {
        self.held.clear();
        self.free = (0..self.n_slots).rev().collect();
    }
}
