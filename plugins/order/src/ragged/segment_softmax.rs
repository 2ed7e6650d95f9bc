//! `segment_softmax`.

use super::limits::{expect_limits, inside, reduced_by, spread_over};
use engine_core::ir::{Builder, DType, E, Value};
use engine_core::op::{Grad, GradCall, OpForm};

/// `exp(x - m) / Σ exp(x - m)` over each segment, with m its largest element; 0 outside the segments. The gradient is
/// `y·(g - Σ g·y)`. A segment that is -inf throughout is NaN.
pub fn segment_softmax() -> OpForm {
    OpForm::new("segment_softmax", "Turns the numbers of each segment into weights that add up to 1.")
        .input("x", "floats `[cap, …]`")
        .input("lims", "`[R + 1]`, where each segment begins, and where the last one ends; ascending")
        .types(|types, _| {
            types[0].expect_dtype("segment_softmax", 0, DType::is_float, "floats")?;
            expect_limits("segment_softmax", types)?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| {
            let (dtype, lims) = (b.dtype(call.inputs[0]), call.inputs[1]);
            let x = b.widen(call.inputs[0]);
            let n = b.extents(x)[0];
            let largest = reduced_by(b, x, lims, "max");
            let largest = spread_over(b, largest, lims, n);
            let powers = b.map(&[x, largest], |v| (v[0] - v[1]).exp());
            let sums = reduced_by(b, powers, lims, "sum");
            let sums = spread_over(b, sums, lims, n);
            let is_inside = inside(b, sums, lims);
            let y = b.map(&[is_inside, powers, sums], |v| E::select(v[0], v[1] / v[2], 0.0));
            vec![b.cast(y, dtype)]
        })
        .grad(Grad::rule(softmax_gradient))
        .follows_operands()
        .example(
            "two segments and a rest",
            "segment_softmax(a, b)",
            &[("f32[5]", &[0., 1., 2., 7., 5.]), ("i32[3]", &[0., 3., 4.])],
            &[("f32[5]", &[0.09003057, 0.24472847, 0.66524096, 1., 0.])],
        )
}

fn softmax_gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None, None] };
    let lims = call.inputs[1];
    let [y, g] = [call.outputs[0], g].map(|value| b.widen(value));
    let n = b.extents(y)[0];
    let products = b.mul(y, g);
    let sums = reduced_by(b, products, lims, "sum");
    let sums = spread_over(b, sums, lims, n);
    let dx = b.map(&[y, g, sums], |v| v[0] * (v[1] - v[2]));
    vec![Some(b.cast(dx, b.dtype(call.inputs[0]))), None]
}
