//! Parts of bodies.

use engine_core::codegen::{operands, with_registers};
use engine_core::fusion::{FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::DType;

/// The checks of a body and the instructions that they need.
pub fn checks_only(body: &FusedBody) -> FusedBody {
    needed_only(body, |reg| matches!(body.insts[reg].op, FusedOp::Check { .. })).0
}

/// The stores and checks of a body and the instructions that they need.
pub fn stores_only(body: &FusedBody) -> FusedBody {
    let is_effect = |op: &FusedOp| matches!(op, FusedOp::Store { .. } | FusedOp::Check { .. });
    needed_only(body, |reg| is_effect(&body.insts[reg].op)).0
}

/// The instructions that keep values for the launch, and those that they need.
pub fn folds_only(body: &FusedBody) -> FusedBody {
    needed_only(body, |reg| matches!(body.insts[reg].op, FusedOp::Fold { .. })).0
}

/// The part of a body that computes a register, and the register in that part.
pub fn value_only(body: &FusedBody, value: Reg) -> (FusedBody, Reg) {
    let (body, renamed) = needed_only(body, |reg| reg == value);
    (body, renamed[value])
}

/// The wanted instructions of a body and all that they need, and the new numbers of the registers.
fn needed_only(body: &FusedBody, is_wanted: impl Fn(Reg) -> bool) -> (FusedBody, Vec<Reg>) {
    let mut needed = vec![false; body.insts.len()];
    for (reg, inst) in body.insts.iter().enumerate().rev() {
        needed[reg] |= is_wanted(reg);
        if needed[reg] {
            operands(&inst.op).into_iter().for_each(|arg| needed[arg] = true);
        }
    }
    let mut insts = vec![];
    let mut renamed = vec![0; body.insts.len()];
    for (reg, inst) in body.insts.iter().enumerate().filter(|(reg, _)| needed[*reg]) {
        renamed[reg] = insts.len();
        insts.push(FusedInst { op: with_registers(&inst.op, |arg| renamed[arg]), ..inst.clone() });
    }
    (FusedBody { insts, ..body.clone() }, renamed)
}

/// The operand that an epilogue stores the bare accumulator to, if it does nothing else.
pub fn plain_store(epilogue: &FusedBody, dtype: DType) -> Option<usize> {
    let [first, second] = &epilogue.insts[..] else { return None };
    match (&first.op, &second.op) {
        (FusedOp::Accumulator, FusedOp::Store { operand, access, value: 0, index: None })
            if first.dtype == dtype =>
        {
            access.is_identity(epilogue.domain.points(second.class)).then_some(*operand)
        }
        _ => None,
    }
}
