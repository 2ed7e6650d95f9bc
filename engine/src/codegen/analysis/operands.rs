//! Registers that an instruction reads.

use crate::fusion::{FusedOp, Reg};

/// The registers that an instruction reads.
pub fn operands(op: &FusedOp) -> Vec<Reg> {
    match op {
        FusedOp::Load { index, .. } => index.iter().map(|&(reg, _)| reg).collect(),
        FusedOp::Random { step, iteration, .. } => [*step].into_iter().chain(*iteration).collect(),
        FusedOp::Scalar(_, args) => args.clone(),
        FusedOp::Check { value, .. }
        | FusedOp::Reduce { value, .. }
        | FusedOp::Store { value, .. }
        | FusedOp::Fold { value } => vec![*value],
        FusedOp::Const(_) | FusedOp::Coord(_) | FusedOp::Accumulator => vec![],
    }
}
