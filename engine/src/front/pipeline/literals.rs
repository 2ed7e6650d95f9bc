//! Numbers without a type: their arithmetic, and their type beside a typed tensor.

use crate::ir::{DType, Literal};
use crate::text::expr::{BinaryOp, UnaryOp};

/// The element type of numbers that stand alone: `bool` for truth values, `f32` if one has a fraction, else `i32`.
pub(super) fn default_dtype(literals: impl IntoIterator<Item = Literal>) -> DType {
    let rank = |literal| match literal {
        Literal::Bool(_) => (0, DType::Bool),
        Literal::Int(_) => (1, DType::I32),
        Literal::Float(_) => (2, DType::F32),
    };
    literals.into_iter().map(rank).max_by_key(|(rank, _)| *rank).map_or(DType::F32, |(_, dtype)| dtype)
}

/// The number as an element of that type, or why it is none.
pub(super) fn fit(literal: Literal, dtype: DType) -> Result<Literal, String> {
    // In an expression the spelling tells the kind: `i * 2.0` of integers is no product of integers.
    let is_kind = match literal {
        Literal::Bool(_) => dtype == DType::Bool,
        Literal::Int(_) => dtype != DType::Bool,
        Literal::Float(_) => dtype.is_float(),
    };
    let element = literal.element(dtype).filter(|_| is_kind);
    element.ok_or_else(|| format!("`{literal}` is no element of {dtype}"))
}

/// The value of an operator before a number; nothing if it has none among untyped numbers.
pub(super) fn fold_unary(op: UnaryOp, x: Literal) -> Option<Literal> {
    match (op, x) {
        (UnaryOp::Neg, Literal::Int(n)) => n.checked_neg().map(Literal::Int),
        (UnaryOp::Neg, Literal::Float(x)) => Some(Literal::Float(-x)),
        (UnaryOp::Not, Literal::Bool(b)) => Some(Literal::Bool(!b)),
        _ => None,
    }
}

/// The value of an operator between two numbers; nothing if it has none among untyped numbers. A quotient of integers
/// that leaves a remainder is a fraction: `1 / 2` is 0.5.
pub(super) fn fold_binary(op: BinaryOp, a: Literal, b: Literal) -> Option<Literal> {
    match (a, b) {
        (Literal::Bool(a), Literal::Bool(b)) => fold_truths(op, a, b),
        (Literal::Bool(_), _) | (_, Literal::Bool(_)) => None,
        (Literal::Int(a), Literal::Int(b)) => fold_comparison(op, a, b)
            .or_else(|| fold_ints(op, a, b))
            .or_else(|| fold_floats(op, a as f64, b as f64)),
        _ => fold_comparison(op, a.as_f64(), b.as_f64()).or_else(|| fold_floats(op, a.as_f64(), b.as_f64())),
    }
}

/// Whether a result is finite as far as the numbers that it is of are: `1 / 0` is not.
pub(super) fn is_sound(operands: [Literal; 2], result: Literal) -> bool {
    result.as_f64().is_finite() || operands.iter().any(|operand| !operand.as_f64().is_finite())
}

fn fold_comparison<T: PartialOrd>(op: BinaryOp, a: T, b: T) -> Option<Literal> {
    let truth = match op {
        BinaryOp::Lt => a < b,
        BinaryOp::Le => a <= b,
        BinaryOp::Gt => a > b,
        BinaryOp::Ge => a >= b,
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        _ => return None,
    };
    Some(Literal::Bool(truth))
}

fn fold_truths(op: BinaryOp, a: bool, b: bool) -> Option<Literal> {
    let value = match op {
        BinaryOp::And => a && b,
        BinaryOp::Or => a || b,
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        _ => return None,
    };
    Some(Literal::Bool(value))
}

fn fold_ints(op: BinaryOp, a: i64, b: i64) -> Option<Literal> {
    let value = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_rem(b).filter(|&rest| rest == 0).and_then(|_| a.checked_div(b)),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::Pow => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        _ => None,
    };
    value.map(Literal::Int)
}

fn fold_floats(op: BinaryOp, a: f64, b: f64) -> Option<Literal> {
    let value = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Rem => a % b,
        BinaryOp::Pow => a.powf(b),
        _ => return None,
    };
    Some(Literal::Float(value))
}
