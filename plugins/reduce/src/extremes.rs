//! `max` and `min`: the value with its index.

use crate::axes::{axis, expect_some, keep, over_one_axis, reduced};
use engine_core::ir::{Attrs, Builder, DType, Monoid, Type, Value};
use engine_core::op::{Grad, GradCall, OpForm, TypeIssue};

/// The largest element along an axis and the index of the first one, `i32`. NaN counts as largest. The gradient goes to
/// that index alone.
pub fn max() -> OpForm {
    extreme(
        "max",
        (Monoid::Max, Monoid::ArgMax),
        "Takes the largest element along an axis and the index of the first one; NaN counts as largest.",
    )
    .example(
        "a tie goes to the first",
        "max(a, axis=1)",
        &[("f32[2, 3]", &[1., 5., 5., -1., -2., -3.])],
        &[("f32[2]", &[5., -1.]), ("i32[2]", &[1., 0.])],
    )
}

/// The smallest element along an axis and the index of the first one, `i32`. NaN counts as smallest. The gradient goes
/// to that index alone.
pub fn min() -> OpForm {
    extreme(
        "min",
        (Monoid::Min, Monoid::ArgMin),
        "Takes the smallest element along an axis and the index of the first one; NaN counts as smallest.",
    )
    .example(
        "of all elements",
        "min(a)",
        &[("f32[2, 2]", &[1., 0.5, 0.5, 2.])],
        &[("f32[]", &[0.5]), ("i32[]", &[1.])],
    )
}

fn extreme(name: &'static str, monoids: (Monoid, Monoid), summary: &str) -> OpForm {
    over_one_axis(name, summary)
        .results(&["values", "indices"])
        .types(move |types, attrs| extreme_types(name, &types[0], attrs))
        .expand(move |b, call| {
            let x = call.inputs[0];
            let (along, axis) = lane(b, x, call.attrs);
            let value = b.reduce(monoids.0, along, &[axis]);
            let index = b.reduce(monoids.1, along, &[axis]);
            [value, index].map(|y| shaped(b, y, x, call.attrs)).to_vec()
        })
        .grad(Grad::rule(to_the_index))
}

/// Types of the extreme and of its index.
fn extreme_types(name: &str, ty: &Type, attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let values = index_type(name, ty, attrs)?.with_dtype(ty.dtype);
    let indices = values.with_dtype(DType::I32);
    Ok(vec![values, indices])
}

/// The type of an index along `axis`.
pub fn index_type(name: &str, ty: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let axes = match attrs.opt_int("axis") {
        Some(axis) => vec![ty.axis(axis)?],
        None => (0..ty.rank()).collect(),
    };
    expect_some(name, ty, &axes)?;
    Ok(reduced(ty, DType::I32, &axes, attrs.bool("keepdim")))
}

/// The operand and the axis of an index. Without an axis, the operand is flattened.
pub fn lane(b: &mut Builder, x: Value, attrs: &Attrs) -> (Value, usize) {
    match attrs.opt_int("axis") {
        Some(given) => (x, axis(b, x, given)),
        None => {
            let n_elements = b.ty(x).numel();
            (b.reshape(x, &[n_elements]), 0)
        }
    }
}

/// A result along a lane in the shape that the call requires.
pub fn shaped(b: &mut Builder, y: Value, x: Value, attrs: &Attrs) -> Value {
    let axes: Vec<usize> = match attrs.opt_int("axis") {
        Some(given) => vec![axis(b, x, given)],
        None => (0..b.ty(x).rank()).collect(),
    };
    keep(b, y, x, &axes, attrs.bool("keepdim"))
}

fn to_the_index(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let x = call.inputs[0];
    let (along, axis) = lane(b, x, call.attrs);
    let lane_ty = b.ty(along).clone();
    let kept = reduced(&lane_ty, lane_ty.dtype, &[axis], true).extents();
    let index = b.reshape(call.outputs[1], &kept);
    let g = b.reshape(g, &kept);
    let position = b.iota(axis, lane_ty.with_dtype(DType::I32));
    let dx = b.map(&[position, index, g], |v| engine_core::ir::E::select(v[0].eq(v[1]), v[2], 0.0));
    let extents = b.extents(x);
    vec![Some(b.reshape(dx, &extents))]
}
