//! `argmax` and `argmin`.

use crate::axes::over_one_axis;
use crate::extremes::{index_type, lane, shaped};
use engine_core::ir::Monoid;
use engine_core::op::OpForm;

/// The index of the largest element along an axis, `i32`; the first among equals, and NaN counts as largest.
pub fn argmax() -> OpForm {
    index_of(
        "argmax",
        Monoid::ArgMax,
        "Finds the index of the largest element along an axis; the first wins a tie, NaN counts as largest.",
    )
    .example(
        "along rows",
        "argmax(a, axis=-1)",
        &[("f32[2, 3]", &[1., 5., 5., -1., -2., -3.])],
        &[("i32[2]", &[1., 0.])],
    )
}

/// The index of the smallest element along an axis, `i32`; the first among equals, and NaN counts as smallest.
pub fn argmin() -> OpForm {
    index_of("argmin", Monoid::ArgMin, "Finds the index of the smallest element along an axis; the first wins a tie, NaN counts as smallest.")
.example("along rows", "argmin(a, axis=-1)", &[("f32[2, 3]", &[5., 1., 1., -1., -2., -3.])], &[("i32[2]", &[1., 2.])])
}

fn index_of(name: &'static str, monoid: Monoid, summary: &str) -> OpForm {
    over_one_axis(name, summary)
        .results(&["indices"])
        .types(move |types, attrs| Ok(vec![index_type(name, &types[0], attrs)?]))
        .expand(move |b, call| {
            let x = call.inputs[0];
            let (along, axis) = lane(b, x, call.attrs);
            let index = b.reduce(monoid, along, &[axis]);
            vec![shaped(b, index, x, call.attrs)]
        })
        .no_grad("an index is piecewise constant")
}
