//! Cost of a body's instructions, and whether a kernel is compute-bound.

use crate::device_model::DeviceModel;
use crate::fusion::{Class, FusedBody, FusedInst, FusedOp};
use crate::ir::{Scalar, Unary};

/// The time of one byte of memory traffic, in additions.
const COST_OF_BYTE: usize = 4;
/// The cost of a hardware function or of a random number, in additions.
const COST_OF_FUNCTION: usize = 12;
/// The cost of a function computed from sums and products, in additions.
const COST_OF_COMPUTED: usize = 30;

/// Whether a kernel is compute-bound: its additions per point are compared with the bytes per point.
pub fn is_compute_bound(body: &FusedBody, device: DeviceModel) -> bool {
    let elements = || body.insts.iter().filter(|inst| inst.class == Class::Element);
    let cost: usize = elements().map(|inst| cost(inst, device)).sum();
    let n_sums = body.insts.iter().filter(|inst| matches!(inst.op, FusedOp::Reduce { .. })).count();
    let bytes: usize = elements().filter(|inst| is_memory(&inst.op)).map(|inst| inst.dtype.size()).sum();
    cost + n_sums > COST_OF_BYTE * bytes
}

fn is_memory(op: &FusedOp) -> bool {
    matches!(op, FusedOp::Load { .. } | FusedOp::Store { .. })
}

/// The cost of an instruction, in additions.
pub fn cost(inst: &FusedInst, device: DeviceModel) -> usize {
    use Unary::{Abs, Neg, Not, Recip, Sqrt};
    match &inst.op {
        FusedOp::Random { .. } => COST_OF_FUNCTION,
        FusedOp::Scalar(Scalar::Unary(Abs | Neg | Not | Recip | Sqrt), _) => 1,
        FusedOp::Scalar(Scalar::Unary(_) | Scalar::Foreign(_), _) => match device.has_exact_functions {
            true => COST_OF_FUNCTION,
            false => COST_OF_COMPUTED,
        },
        FusedOp::Const(_) => 0,
        _ => 1,
    }
}
