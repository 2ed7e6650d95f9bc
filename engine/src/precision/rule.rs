//! The rule of a node, and the types of its results.

use crate::ir::{InputKind, Node, NodeOp, Type};
use crate::op::Rounding;

/// How a node takes part. Sums, scans and scatters are computed in `f32`; so are conditions, whose regions keep their types.
pub(super) fn rule_of(node: &Node) -> Rounding {
    match &node.op {
        NodeOp::Call(call) => call.form().rounding_rule(),
        NodeOp::Matmul(_) => Rounding::Operands,
        NodeOp::Map(_) | NodeOp::Scalar(_) | NodeOp::View(_) | NodeOp::Gather { .. } => Rounding::Follows,
        NodeOp::Input(_)
        | NodeOp::Const(_)
        | NodeOp::Iota { .. }
        | NodeOp::Check(_)
        | NodeOp::Reduce { .. }
        | NodeOp::Scan { .. }
        | NodeOp::Scatter { .. }
        | NodeOp::Random { .. }
        | NodeOp::Loop { .. }
        | NodeOp::Cond => Rounding::Never,
    }
}

/// Whether a node is a parameter, a state or a constant.
pub(super) fn is_leaf(node: &Node) -> bool {
    node.inputs.is_empty() && node.op != NodeOp::Input(InputKind::Data)
}

/// Types of the results for operands of these types, if the node takes them.
pub(super) fn result_types(node: &Node, inputs: &[Type]) -> Option<Vec<Type>> {
    let dtypes: Vec<_> = inputs.iter().map(|ty| ty.dtype).collect();
    let like_first = || node.outputs.iter().map(|output| output.ty.with_dtype(dtypes[0])).collect();
    match &node.op {
        NodeOp::Call(call) => call.op.infer(inputs, &call.attrs).ok(),
        NodeOp::Map(body) => {
            let of_body = body.dtypes(&dtypes);
            let pairs = node.outputs.iter().zip(&body.outputs);
            Some(pairs.map(|(output, &reg)| output.ty.with_dtype(of_body[reg])).collect())
        }
        NodeOp::Scalar(scalar) => Some(vec![node.outputs[0].ty.with_dtype(scalar.result(&dtypes))]),
        NodeOp::View(_) | NodeOp::Gather { .. } | NodeOp::Matmul(_) => Some(like_first()),
        _ => None,
    }
}
