//! Variance and standard deviation.

use crate::axes::{axes, keep, over_axes, reduced};
use engine_core::ir::{Attrs, Builder, DType, E, Unary, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, OpForm};

/// `Σ (x - mean)² / (n - correction)` over axes; of the population unless `correction` is 1. NaN for an empty axis.
pub fn var() -> OpForm {
    spread("var", "Computes the variance along axes, of the population unless corrected.")
        .expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let (variance, axes) = variance(b, x, call.attrs);
            let y = b.cast(variance, b.dtype(call.inputs[0]));
            vec![keep(b, y, x, &axes, call.attrs.bool("keepdim"))]
        })
        .example("of a population", "var(a)", &[("f32[4]", &[1., 2., 3., 6.])], &[("f32[]", &[3.5])])
        .example(
            "of a sample, along rows",
            "var(a, axis=1, correction=1)",
            &[("f32[2, 2]", &[1., 3., 5., 5.])],
            &[("f32[2]", &[2., 0.])],
        )
}

/// The square root of [`var`]. Its gradient is 0 where the deviation is 0.
pub fn std() -> OpForm {
    spread("std", "Computes the standard deviation along axes, of the population unless corrected.")
        .expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let (variance, axes) = variance(b, x, call.attrs);
            let deviation = b.unary(Unary::Sqrt, variance);
            let y = b.cast(deviation, b.dtype(call.inputs[0]));
            vec![keep(b, y, x, &axes, call.attrs.bool("keepdim"))]
        })
        .grad(Grad::rule(std_grad))
        .example(
            "along rows",
            "std(a, axis=1)",
            &[("f32[2, 2]", &[1., 3., 5., 5.])],
            &[("f32[2]", &[1., 0.])],
        )
}

/// The common part of both forms: a reduction of floats with a correction.
fn spread(name: &'static str, summary: &str) -> OpForm {
    let doc = "subtracted from the number of elements before dividing; 1 for a sample";
    over_axes(name, summary).attr(AttrSpec::int("correction", doc, 0)).types(move |types, attrs| {
        types[0].expect_dtype(name, 0, DType::is_float, "floats")?;
        let axes = types[0].axes(attrs)?;
        Ok(vec![reduced(&types[0], types[0].dtype, &axes, attrs.bool("keepdim"))])
    })
}

fn variance(b: &mut Builder, x: Value, attrs: &Attrs) -> (Value, Vec<usize>) {
    let axes = axes(b, x, attrs);
    let count = divisor(b, x, &axes, attrs);
    let variance = variance_over(b, x, &axes, count);
    (variance, axes)
}

/// The sum of squared deviations over `axes`, divided by `count`.
fn variance_over(b: &mut Builder, x: Value, axes: &[usize], count: f64) -> Value {
    let centered = centered(b, x, axes);
    let squares = b.mul(centered, centered);
    let total = b.sum(squares, axes);
    let count = b.full_like(total, count);
    b.div(total, count)
}

fn centered(b: &mut Builder, x: Value, axes: &[usize]) -> Value {
    let mean = b.mean(x, axes);
    let mean = b.unreduce(mean, axes, x);
    b.sub(x, mean)
}

fn divisor(b: &Builder, x: Value, axes: &[usize], attrs: &Attrs) -> f64 {
    let extents = b.extents(x);
    let count: usize = axes.iter().map(|&axis| extents[axis]).product();
    (count as f64 - attrs.int("correction") as f64).max(0.0)
}

/// g·(x - mean) / (count·std), and 0 where std = 0.
fn std_grad(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let x = b.widen(call.inputs[0]);
    let axes = axes(b, x, call.attrs);
    let count = divisor(b, x, &axes, call.attrs);
    let centered = centered(b, x, &axes);
    let kept = reduced(b.ty(x), b.dtype(x), &axes, true).extents();
    let [g, deviation] = [g, call.outputs[0]].map(|y| {
        let wide = b.widen(y);
        b.reshape(wide, &kept)
    });
    let dx = b.map(&[centered, deviation, g], |v| E::select(v[1].eq(0.0), 0.0, v[2] * v[0] / (v[1] * count)));
    vec![Some(b.cast(dx, b.dtype(call.inputs[0])))]
}
