//! Bounds of the elements that kernels read and write.

use super::interp::Address;
use engine_core::fusion::{FusedBody, FusedOp, Kernel, KernelBody};

/// Asserts that a kernel's bodies stay inside their operands, because blocks are read and written through raw pointers.
/// Computed indices are checked at each use.
pub fn assert_inside(kernel: &Kernel) {
    // The body of a segmented map has slots, not operands.
    if !matches!(kernel.body, KernelBody::Segmented(_)) {
        kernel.bodies().into_iter().for_each(|body| assert_body_inside(kernel, body));
    }
}

fn assert_body_inside(kernel: &Kernel, body: &FusedBody) {
    for inst in &body.insts {
        let (FusedOp::Load { operand, access, index: None }
        | FusedOp::Store { operand, access, index: None, .. }) = &inst.op
        else {
            continue;
        };
        let is_visited = body.domain.points(inst.class) > 0;
        let (low, high) = Address::new(access).bounds().unwrap_or((0, -1));
        let n_elements = kernel.operands[*operand].ty.numel() as i64;
        assert!(
            !is_visited || low >= 0 && high < n_elements,
            "bug: `{}` reaches out of @{operand}",
            kernel.name
        );
    }
}
