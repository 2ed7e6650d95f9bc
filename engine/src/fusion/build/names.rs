//! The names of primitives for users.

use crate::ir::NodeOp;

/// The name of a primitive for users.
pub fn op_name(op: &NodeOp) -> String {
    match op {
        NodeOp::Input(_) => "input".into(),
        NodeOp::Const(_) => "fill".into(),
        NodeOp::Call(call) => call.form().name.clone(),
        NodeOp::Map(_) => "map".into(),
        NodeOp::Scalar(scalar) => scalar.name().into(),
        NodeOp::Iota { .. } => "iota".into(),
        NodeOp::Check(_) => "check".into(),
        NodeOp::View(_) => "copy".into(),
        NodeOp::Reduce { monoid, .. } => format!("reduce_{}", monoid.name()),
        NodeOp::Scan { monoid, .. } => format!("scan_{}", monoid.name()),
        NodeOp::Gather { .. } => "gather".into(),
        NodeOp::Scatter { .. } => "scatter".into(),
        NodeOp::Matmul(_) => "gemm".into(),
        NodeOp::Random { .. } => "random".into(),
        NodeOp::Loop { .. } => "loop".into(),
        NodeOp::Cond => "cond".into(),
    }
}
