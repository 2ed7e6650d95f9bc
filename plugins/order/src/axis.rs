//! Shared parts of this family: the axis, and its move to the end.

use engine_core::ir::{Attrs, Builder, Combine, DType, Literal, Type, Value};
use engine_core::op::kernel::KernelCall;
use engine_core::op::{AttrKind, AttrSpec, InputSpec, TypeIssue, checked};

/// The operand.
pub fn operand() -> Vec<InputSpec> {
    vec![InputSpec::required("x", "of any element type")]
}

/// `axis`; by default, the last one.
pub fn axis_attr() -> AttrSpec {
    AttrSpec::with_default("axis", "the axis, negative from the end", AttrKind::Int, -1i64)
}

/// Refuses a scalar, and rows too long for an index of `i32`.
pub fn expect_rows(op: &str, ty: &Type) -> Result<(), TypeIssue> {
    if ty.rank() == 0 {
        return Err(TypeIssue::new(format!("`{op}` of a scalar")).at(0, format!("this is {ty}")));
    }
    Ok(())
}

/// Applies `rows`, which works along the last axis, along `axis`.
pub fn along_axis(
    b: &mut Builder,
    x: Value,
    axis: i64,
    rows: impl FnOnce(&mut Builder, Value) -> Vec<Value>,
) -> Vec<Value> {
    let rank = b.ty(x).rank();
    let axis = checked(b.ty(x).axis(axis));
    // Exchanging two axes is its own inverse.
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(axis, rank - 1);
    let moved = b.permute(x, &perm);
    let results = rows(b, moved);
    results.into_iter().map(|value| b.permute(value, &perm)).collect()
}

/// The gradient of values that were selected from `x` at `indices` along the last axis. It goes back to these elements.
pub fn scattered(b: &mut Builder, x: Value, indices: Value, grad: Value) -> Value {
    let last = b.ty(x).rank() - 1;
    let zeros = b.full(Literal::Float(0.0), b.ty(x).clone());
    b.scatter(zeros, indices, grad, last, last, Combine::Add)
}

/// The element type of a call's operand.
pub fn dtype(call: &KernelCall) -> DType {
    call.inputs[0].dtype
}

/// The results of another op.
pub fn called(b: &mut Builder, op: &str, inputs: &[Value], attrs: Attrs) -> Vec<Value> {
    checked(b.call(op, inputs, attrs))
}
