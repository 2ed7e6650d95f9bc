//! Constant folding, and removal of views that have no effect or compose with the view before.

use super::Rewriter;
use crate::ir::{Binary, DType, Literal, NodeOp, Scalar, Type, Unary, Value, View};

/// An existing value or a constant that is equal to the node, if there is one.
pub fn fold(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    match op {
        NodeOp::Scalar(scalar) => fold_scalar(r, scalar, inputs, ty),
        NodeOp::View(view) => fold_view(r, view, inputs[0], ty),
        _ => None,
    }
}

fn fold_scalar(r: &mut Rewriter, scalar: &Scalar, inputs: &[Value], ty: &Type) -> Option<Value> {
    if let Scalar::Cast(dtype) = scalar
        && r.ty(inputs[0]).dtype == *dtype
    {
        return Some(inputs[0]);
    }
    let literals: Vec<Literal> = inputs.iter().map(|&input| r.constant(input)).collect::<Option<_>>()?;
    let dtype = r.ty(inputs[inputs.len() - 1]).dtype;
    let folded = evaluate(scalar, &literals, dtype)?;
    Some(r.full(round(folded, ty.dtype), ty.clone()))
}

/// Folds operations that IEEE arithmetic determines to the last bit. Transcendental functions are left to the device,
/// which rounds in its own way.
fn evaluate(scalar: &Scalar, args: &[Literal], dtype: DType) -> Option<Literal> {
    if !dtype.is_float() {
        return evaluate_int(scalar, args, dtype);
    }
    let x: Vec<f64> = args.iter().map(|arg| round(*arg, dtype).as_f64()).collect();
    let float = |value: f64| Some(Literal::Float(value));
    let truth = |value: bool| Some(Literal::Bool(value));
    match scalar {
        Scalar::Unary(Unary::Neg) => float(-x[0]),
        Scalar::Unary(Unary::Abs) => float(x[0].abs()),
        Scalar::Unary(Unary::Sqrt) => float(x[0].sqrt()),
        Scalar::Unary(Unary::Recip) => float(1.0 / x[0]),
        Scalar::Binary(Binary::Add) => float(x[0] + x[1]),
        Scalar::Binary(Binary::Sub) => float(x[0] - x[1]),
        Scalar::Binary(Binary::Mul) => float(x[0] * x[1]),
        Scalar::Binary(Binary::Div) => float(x[0] / x[1]),
        Scalar::Binary(Binary::Eq) => truth(x[0] == x[1]),
        Scalar::Binary(Binary::Ne) => truth(x[0] != x[1]),
        Scalar::Binary(Binary::Lt) => truth(x[0] < x[1]),
        Scalar::Binary(Binary::Le) => truth(x[0] <= x[1]),
        Scalar::Binary(Binary::Gt) => truth(x[0] > x[1]),
        Scalar::Binary(Binary::Ge) => truth(x[0] >= x[1]),
        Scalar::Cast(to) if to.is_float() => float(x[0]),
        _ => None,
    }
}

/// Sums and products within the range of the type. Others wrap, which is left to the device.
fn evaluate_int(scalar: &Scalar, args: &[Literal], dtype: DType) -> Option<Literal> {
    let x: Vec<i64> = args.iter().map(Literal::as_i64).collect();
    let held = |n: i64| Literal::Int(n).element(dtype).filter(|_| dtype.is_int());
    match scalar {
        Scalar::Binary(Binary::Add) => x[0].checked_add(x[1]).and_then(held),
        Scalar::Binary(Binary::Sub) => x[0].checked_sub(x[1]).and_then(held),
        Scalar::Binary(Binary::Mul) => x[0].checked_mul(x[1]).and_then(held),
        Scalar::Cast(to) if to.is_float() => Some(Literal::Float(x[0] as f64)),
        _ => None,
    }
}

/// A literal rounded to its element type. Small floats keep excess digits, since a device's conversion rounds them
/// once.
fn round(literal: Literal, dtype: DType) -> Literal {
    match dtype {
        DType::F32 => Literal::Float(literal.as_f64() as f32 as f64),
        _ => literal.cast(dtype),
    }
}

fn fold_view(r: &mut Rewriter, view: &View, x: Value, ty: &Type) -> Option<Value> {
    if changes_nothing(r, view, x, ty) {
        return Some(x);
    }
    if let (Some(literal), false) = (r.constant(x), matches!(view, View::Pad { .. })) {
        return Some(r.full(literal, ty.clone()));
    }
    if let Some(value) = drop_ones(r, view, x, ty) {
        return Some(value);
    }
    let NodeOp::View(inner) = r.op(x).clone() else { return None };
    let base = r.operands(x)[0];
    let joined = match (&inner, view) {
        (View::Reshape, View::Reshape) => View::Reshape,
        (View::Permute { perm: first }, View::Permute { perm: second }) => {
            View::Permute { perm: second.iter().map(|&axis| first[axis]).collect() }
        }
        (View::Broadcast { axes: first }, View::Broadcast { axes: second }) => {
            View::Broadcast { axes: first.iter().map(|&axis| second[axis]).collect() }
        }
        _ => return None,
    };
    Some(r.make(NodeOp::View(joined), vec![base], ty.clone()))
}

fn changes_nothing(r: &Rewriter, view: &View, x: Value, ty: &Type) -> bool {
    r.ty(x) == ty
        && match view {
            View::Reshape => true,
            View::Permute { perm } => perm.iter().enumerate().all(|(i, &axis)| i == axis),
            View::Broadcast { axes } => axes.iter().enumerate().all(|(i, &axis)| i == axis),
            View::Slice { start, step } => start.iter().all(|&s| s == 0) && step.iter().all(|&s| s == 1),
            View::Pad { low, high, .. } => low.iter().chain(high).all(|&n| n == 0),
            View::Window { .. } => false,
        }
}

/// A broadcast that repeats an axis of extent 1 drops the axis first. Afterwards, only new axes are repeated.
fn drop_ones(r: &mut Rewriter, view: &View, x: Value, ty: &Type) -> Option<Value> {
    let View::Broadcast { axes } = view else { return None };
    let source = r.ty(x).clone();
    let stays = |i: &usize| source.shape[*i] == ty.shape[axes[*i]];
    let kept: Vec<usize> = (0..axes.len()).filter(stays).collect();
    if kept.len() == axes.len() {
        return None;
    }
    let shape = kept.iter().map(|&i| source.shape[i].clone()).collect();
    let dense = r.make(NodeOp::View(View::Reshape), vec![x], Type { dtype: source.dtype, shape });
    let axes = kept.iter().map(|&i| axes[i]).collect();
    Some(r.make(NodeOp::View(View::Broadcast { axes }), vec![dense], ty.clone()))
}
