//! The ops behind operators, and the conditional that is no op.

use crate::text::expr::{BinaryOp, UnaryOp};

/// The op behind an operator.
pub(super) fn op_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "sub",
        BinaryOp::Mul => "mul",
        BinaryOp::Div => "div",
        BinaryOp::Rem => "rem",
        BinaryOp::MatMul => "matmul",
        BinaryOp::Pow => "pow",
        BinaryOp::Lt => "lt",
        BinaryOp::Le => "le",
        BinaryOp::Gt => "gt",
        BinaryOp::Ge => "ge",
        BinaryOp::Eq => "eq",
        BinaryOp::Ne => "ne",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
    }
}

/// The op behind an operator before its operand.
pub(super) fn unary_op_name(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg => "neg",
        UnaryOp::Not => "not",
    }
}

/// Whether a call is `when(condition, a, b)`, of which the constant condition chooses one side.
pub(super) fn is_when(callee: &str, n_args: usize, n_settings: usize) -> bool {
    callee == "when" && n_args == 3 && n_settings == 0
}
