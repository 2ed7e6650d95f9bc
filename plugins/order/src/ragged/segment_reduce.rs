//! `segment_reduce`.

use super::limits::{expect_limits, lengths, reduced_by, spread_over};
use super::reduction::reduced;
use engine_core::ir::{Builder, DType, E, Monoid, Type, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, OpForm};

/// `y[r, …] = op x[i, …]` over `lims[r] <= i < lims[r + 1]`: `[cap, …]` to `[R, …]`. Elements outside the segments contribute
/// nothing, also if they are NaN. Limits ascend; one outside `0..=cap` is an index error. The sum of an empty segment is 0,
/// its mean NaN, its largest element -inf or the least integer, its smallest inf or the largest integer.
///
/// The order of a sum depends on `cap` and on the limits alone: elements at both ends, and blocks of 32 elements, of 32 such
/// blocks and so on between them. Floats are summed in f32 or wider. The gradients of extremes are shared evenly by ties.
pub fn segment_reduce() -> OpForm {
    OpForm::new("segment_reduce", "Adds up each segment, or takes its mean or an extreme.")
        .input("x", "numbers `[cap, …]`")
        .input("lims", "`[R + 1]`, where each segment begins, and where the last one ends; ascending")
        .attr(AttrSpec::choice("by", "the reduction", &["sum", "mean", "max", "min"]))
        .types(|types, attrs| {
            let is_mean = attrs.str("by") == "mean";
            types[0].expect_dtype("segment_reduce", 0, |dtype| dtype != DType::Bool, "numbers")?;
            if is_mean {
                types[0].expect_dtype("segment_reduce", 0, DType::is_float, "floats for a mean")?;
            }
            let n_rows = expect_limits("segment_reduce", types)?;
            let mut shape = types[0].shape.clone();
            shape[0] = n_rows;
            Ok(vec![Type { dtype: types[0].dtype, shape }])
        })
        .expand(|b, call| {
            let [x, lims] = [call.inputs[0], call.inputs[1]];
            let wide = b.widen(x);
            let y = match call.attrs.str("by") {
                "max" => reduced(b, wide, lims, Monoid::Max),
                "min" => reduced(b, wide, lims, Monoid::Min),
                "sum" => reduced(b, wide, lims, Monoid::Sum),
                _ => {
                    let sums = reduced(b, wide, lims, Monoid::Sum);
                    let lengths = lengths(b, sums, lims);
                    b.div(sums, lengths)
                }
            };
            vec![b.cast(y, b.dtype(x))]
        })
        .grad(Grad::rule(gradient))
        .follows_operands()
        .example(
            "an empty segment between two others, and a rest",
            "segment_reduce(a, b)",
            &[("f32[5]", &[1., 2., 3., 4., 5.]), ("i32[4]", &[0., 3., 3., 4.])],
            &[("f32[3]", &[6., 0., 4.])],
        )
        .example(
            "the largest of each column",
            "segment_reduce(a, b, by=\"max\")",
            &[("f32[3, 2]", &[1., 6., 3., -4., 5., 2.]), ("i32[3]", &[0., 2., 3.])],
            &[("f32[2, 2]", &[3., 6., 5., 2.])],
        )
        .example(
            "means",
            "segment_reduce(a, b, by=\"mean\")",
            &[("f32[3]", &[1., 2., 4.]), ("i32[3]", &[0., 2., 3.])],
            &[("f32[2]", &[1.5, 4.])],
        )
}

fn gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None, None] };
    let [x, lims] = [call.inputs[0], call.inputs[1]];
    let n = b.extents(x)[0];
    let by = call.attrs.str("by");
    let g = b.widen(g);
    let dx = match by {
        "sum" => spread_over(b, g, lims, n),
        "mean" => {
            let lengths = lengths(b, g, lims);
            let shares = b.div(g, lengths);
            spread_over(b, shares, lims, n)
        }
        _ => {
            let extreme = spread_over(b, call.outputs[0], lims, n);
            let is_extreme = b.map(&[x, extreme], |v| v[0].eq(v[1]) | (v[0].is_nan() & v[1].is_nan()));
            let ones = b.cast(is_extreme, b.dtype(g));
            let ties = reduced_by(b, ones, lims, "sum");
            let shares = b.div(g, ties);
            let shares = spread_over(b, shares, lims, n);
            b.map(&[is_extreme, shares], |v| E::select(v[0], v[1], 0.0))
        }
    };
    vec![Some(b.cast(dx, b.dtype(x))), None]
}
