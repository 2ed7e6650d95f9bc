//! Slots of scratch for the results of blocks.

use super::super::program::{Dest, Inst, Op, Pass, Program};
use engine_core::fusion::Reg;
use std::collections::HashMap;

/// Gives each result of a pass a slot until its last use. Slots outlive a pass if blocks are resident.
pub(super) fn assign(program: &mut Program, is_resident: bool) {
    let mut slots = Slots::default();
    if is_resident {
        let last = last_uses(&program.passes);
        let mut at = 0;
        for pass in &mut program.passes {
            at = slots.assign(&mut pass.element, &last, at);
        }
    } else {
        for pass in &mut program.passes {
            let last = last_uses(std::slice::from_ref(pass));
            slots.free_all();
            slots.assign(&mut pass.element, &last, 0);
        }
    }
    program.n_slots = slots.n_slots;
}

/// The number of the last instruction that sets or reads each register.
fn last_uses(passes: &[Pass]) -> HashMap<Reg, usize> {
    let mut last = HashMap::new();
    for (at, inst) in passes.iter().flat_map(|pass| &pass.element).enumerate() {
        last.insert(inst.reg, at);
        inst.op.args().for_each(|arg| _ = last.insert(arg, at));
    }
    last
}

/// Slots, in the order of instructions.
#[derive(Default)]
struct Slots {
    n_slots: usize,
    free: Vec<usize>,
    held: HashMap<Reg, usize>,
}

impl Slots {
    /// Assigns slots in a list; `at` counts instructions over lists.
    fn assign(&mut self, insts: &mut [Inst], last: &HashMap<Reg, usize>, mut at: usize) -> usize {
        for inst in insts {
            // A result gets its slot before those of its arguments are free, because it may not overwrite them.
            let needs_slot = inst.dest == Dest::None
                && !matches!(inst.op, Op::Store { .. } | Op::Fold(_) | Op::Accumulator { .. });
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

    fn free_all(&mut self) {
        self.held.clear();
        self.free = (0..self.n_slots).rev().collect();
    }
}
