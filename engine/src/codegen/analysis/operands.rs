//! Registers that an instruction or a register depends on.

use crate::fusion::{FusedBody, FusedInst, FusedOp, Reg};

/// The registers that an instruction reads.
pub fn operands(op: &FusedOp) -> Vec<Reg> {
    match op {
        FusedOp::Load { index, .. } => index.iter().map(|&(reg, _)| reg).collect(),
        FusedOp::Store { value, index, .. } => {
            [*value].into_iter().chain(index.iter().map(|&(reg, _)| reg)).collect()
        }
        FusedOp::Random { step, iteration, .. } => [*step].into_iter().chain(*iteration).collect(),
        FusedOp::Scalar(_, args) => args.clone(),
        FusedOp::Check { value, .. } | FusedOp::Reduce { value, .. } | FusedOp::Fold { value } => {
            vec![*value]
        }
        FusedOp::Const(_) | FusedOp::Coord(_) | FusedOp::Accumulator | FusedOp::SecondAccumulator => vec![],
    }
}

/// The instructions that a register depends on, and the register's number among them.
pub fn needed_by(body: &FusedBody, reg: Reg) -> (FusedBody, Reg) {
    let mut is_needed = vec![false; body.insts.len()];
    is_needed[reg] = true;
    for reg in (0..=reg).rev() {
        if is_needed[reg] {
            operands(&body.insts[reg].op).into_iter().for_each(|operand| is_needed[operand] = true);
        }
    }
    let renamed = |reg: Reg| is_needed[..reg].iter().filter(|&&is_needed| is_needed).count();
    let needed = body.insts.iter().zip(&is_needed).filter(|(_, is_needed)| **is_needed);
    let insts = needed.map(|(inst, _)| FusedInst { op: with_registers(&inst.op, renamed), ..inst.clone() });
    (FusedBody { insts: insts.collect(), ..body.clone() }, renamed(reg))
}

/// The instruction with its registers renamed.
pub fn with_registers(op: &FusedOp, renamed: impl Fn(Reg) -> Reg) -> FusedOp {
    let mut op = op.clone();
    match &mut op {
        FusedOp::Load { index, .. } => {
            if let Some((reg, _)) = index {
                *reg = renamed(*reg);
            }
        }
        FusedOp::Store { value, index, .. } => {
            *value = renamed(*value);
            if let Some((reg, _)) = index {
                *reg = renamed(*reg);
            }
        }
        FusedOp::Random { step, iteration, .. } => {
            *step = renamed(*step);
            if let Some(iteration) = iteration {
                *iteration = renamed(*iteration);
            }
        }
        FusedOp::Scalar(_, args) => args.iter_mut().for_each(|arg| *arg = renamed(*arg)),
        FusedOp::Check { value: reg, .. }
        | FusedOp::Reduce { value: reg, .. }
        | FusedOp::Fold { value: reg } => {
            *reg = renamed(*reg);
        }
        FusedOp::Const(_) | FusedOp::Coord(_) | FusedOp::Accumulator | FusedOp::SecondAccumulator => {}
    }
    op
}
