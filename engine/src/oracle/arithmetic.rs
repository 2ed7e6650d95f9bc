//! Which primitives round, and which add up.

use super::tensor::Precision;
use crate::ir::{Combine, Monoid, NodeOp};
use crate::op::reference::OracleTensor;
use std::borrow::Cow;

/// Operand `number` of an op. The terms of a sum are moved if results of arithmetic are: they may cancel.
pub(super) fn operand<'t>(
    op: &NodeOp,
    number: usize,
    value: &'t OracleTensor,
    precision: Precision,
) -> Cow<'t, OracleTensor> {
    match precision {
        Precision::Perturbed(seed) if adds_up(op) => {
            let seed = seed.wrapping_add(number as u64);
            Cow::Owned(value.clone().perturbed(value.dtype.accumulator(), seed))
        }
        _ => Cow::Borrowed(value),
    }
}

/// Whether results are sums of operands or of their products.
fn adds_up(op: &NodeOp) -> bool {
    matches!(
        op,
        NodeOp::Matmul(_)
            | NodeOp::Reduce { monoid: Monoid::Sum, .. }
            | NodeOp::Scan { monoid: Monoid::Sum, .. }
            | NodeOp::Scatter { combine: Combine::Add, .. }
    )
}

/// Whether a node computes new numbers, which devices round. All other nodes move or select numbers.
pub(super) fn is_arithmetic(op: &NodeOp) -> bool {
    match op {
        NodeOp::Matmul(_) => true,
        NodeOp::Reduce { monoid, .. } | NodeOp::Scan { monoid, .. } => {
            matches!(monoid, Monoid::Sum | Monoid::Prod)
        }
        NodeOp::Scatter { combine, .. } => *combine == Combine::Add,
        NodeOp::Scalar(op) => op.is_rounded(),
        _ => false,
    }
}
