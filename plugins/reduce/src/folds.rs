//! Plain folds: `sum`, `prod`, `amax`, `amin`. One operand, one result, any axes.

use crate::axes::{axes, expect_some, keep, over_axes, reduced};
use engine_core::ir::{Attrs, DType, Monoid, Type};
use engine_core::op::{OpForm, TypeIssue};

/// `Σ x` over axes. Floats accumulate in f32 or wider, integers in their own type, truth values are counted as `i32`.
/// An empty sum is 0.
pub fn sum() -> OpForm {
    fold(Monoid::Sum, "sum", "Adds up along axes; truth values are counted, nothing adds up to 0.")
        .example("a full sum", "sum(a)", &[("f32[2, 2]", &[1., 2., 3., 4.5])], &[("f32[]", &[10.5])])
        .example(
            "along one axis, which stays",
            "sum(a, axis=-1, keepdim=true)",
            &[("f32[2, 2]", &[1., 2., 3., 4.5])],
            &[("f32[2, 1]", &[3., 7.5])],
        )
        .example("truth values are counted", "sum(a)", &[("bool[3]", &[1., 0., 1.])], &[("i32[]", &[2.])])
        .example("of nothing", "sum(a, axis=0)", &[("f32[0, 2]", &[])], &[("f32[2]", &[0., 0.])])
}

/// `Π x` over axes; an empty product is 1. Its gradient is the product of all other elements, also where elements are
/// 0.
pub fn prod() -> OpForm {
    fold(Monoid::Prod, "prod", "Multiplies along axes; the product of nothing is 1.").example(
        "along rows",
        "prod(a, axis=1)",
        &[("f32[2, 2]", &[2., 3., 0., 4.])],
        &[("f32[2]", &[6., 0.])],
    )
}

/// The largest element over axes, NaN if any element is NaN. An empty axis is an error. Its gradient is split evenly
/// over ties.
pub fn amax() -> OpForm {
    fold(
        Monoid::Max,
        "amax",
        "Takes the largest element along axes, NaN if there is one; ties share the gradient evenly.",
    )
    .example(
        "along rows",
        "amax(a, axis=1)",
        &[("f32[2, 3]", &[1., 5., 5., -1., -2., -3.])],
        &[("f32[2]", &[5., -1.])],
    )
}

/// The smallest element over axes, NaN if any element is NaN. An empty axis is an error. Its gradient is split evenly
/// over ties.
pub fn amin() -> OpForm {
    fold(
        Monoid::Min,
        "amin",
        "Takes the smallest element along axes, NaN if there is one; ties share the gradient evenly.",
    )
    .example(
        "along rows",
        "amin(a, axis=1)",
        &[("f32[2, 3]", &[1., 5., 5., -1., -2., -3.])],
        &[("f32[2]", &[1., -3.])],
    )
}

fn fold(monoid: Monoid, name: &'static str, summary: &str) -> OpForm {
    over_axes(name, summary).types(move |types, attrs| folded(monoid, name, &types[0], attrs)).expand(
        move |b, call| {
            let axes = axes(b, call.inputs[0], call.attrs);
            let dtype = result_dtype(monoid, b.dtype(call.inputs[0]));
            let x = b.cast(call.inputs[0], dtype);
            let y = b.reduce(monoid, x, &axes);
            vec![keep(b, y, x, &axes, call.attrs.bool("keepdim"))]
        },
    )
}

fn folded(monoid: Monoid, name: &str, ty: &Type, attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let axes = ty.axes(attrs)?;
    if matches!(monoid, Monoid::Max | Monoid::Min) {
        expect_some(name, ty, &axes)?;
    }
    Ok(vec![reduced(ty, result_dtype(monoid, ty.dtype), &axes, attrs.bool("keepdim"))])
}

fn result_dtype(monoid: Monoid, dtype: DType) -> DType {
    match (monoid, dtype) {
        (Monoid::Sum | Monoid::Prod, DType::Bool) => DType::I32,
        _ => dtype,
    }
}
