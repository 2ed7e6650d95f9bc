//! p-norms.

use crate::axes::{axes, expect_some, keep, over_axes, reduced};
use engine_core::ir::{Attrs, Builder, DType, E, Monoid, Type, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, Lowering, OpForm, TypeIssue};

/// `(Σ |x|ᵖ)^(1/p)` over axes, accumulated in f32 or wider. For p = ∞ and -∞ it is the largest and the smallest magnitude,
/// for p = 0 the number of elements other than 0. The gradient is `g·sign x·(|x|/‖x‖)ᵖ⁻¹`, and 0 where the norm or x is
/// 0; of extremes, it is split evenly over ties.
pub fn norm() -> OpForm {
    over_axes("norm", "Computes the p-norm along axes, by default the Euclidean norm.")
        .attr(AttrSpec::float("p", "the exponent; also `inf`, `-inf` or 0", 2.0))
        .types(|types, attrs| Ok(vec![norm_type(&types[0], attrs)?]))
        .expand(|b, call| vec![taken(b, call)])
        .grad(Grad::rule(gradient))
        .avoiding(&[0.0])
        .example(
            "of each row",
            "norm(a, axis=1)",
            &[("f32[2, 2]", &[3., -4., 0.5, 1.2])],
            &[("f32[2]", &[5., 1.3])],
        )
        .example(
            "the largest magnitude",
            "norm(a, p=inf, keepdim=true)",
            &[("f32[1, 3]", &[3., -4., 0.])],
            &[("f32[1, 1]", &[4.])],
        )
}

fn norm_type(x: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    x.expect_dtype("norm", 0, DType::is_float, "floats")?;
    let (axes, p) = (x.axes(attrs)?, attrs.float("p"));
    if p.is_nan() {
        return Err(TypeIssue::new("there is no norm of the exponent NaN").at_setting("p"));
    }
    if p == f64::INFINITY || p < 0.0 {
        expect_some("norm", x, &axes)?;
    }
    Ok(reduced(x, x.dtype, &axes, attrs.bool("keepdim")))
}

fn taken(b: &mut Builder, call: &Lowering) -> Value {
    let (x, p) = (b.widen(call.inputs[0]), call.attrs.float("p"));
    let axes = axes(b, x, call.attrs);
    let dtype = b.dtype(x);
    let term = |x: E| match p {
        0.0 => x.ne(0.0).cast(dtype),
        1.0 => x.abs(),
        2.0 => x * x,
        _ if p.is_infinite() => x.abs(),
        _ => x.abs().pow(p),
    };
    let terms = b.map(&[x], |x| term(x[0]));
    let monoid = if p.is_finite() {
        Monoid::Sum
    } else if p > 0.0 {
        Monoid::Max
    } else {
        Monoid::Min
    };
    let total = b.reduce(monoid, terms, &axes);
    let y = match p {
        2.0 => b.map(&[total], |y| y[0].sqrt()),
        _ if p == 0.0 || p == 1.0 || p.is_infinite() => total,
        _ => b.map(&[total], |y| y[0].pow(1.0 / p)),
    };
    let y = b.cast(y, b.dtype(call.inputs[0]));
    keep(b, y, call.inputs[0], &axes, call.attrs.bool("keepdim"))
}

fn gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let (x, p) = (b.widen(call.inputs[0]), call.attrs.float("p"));
    let axes = axes(b, x, call.attrs);
    let kept = reduced(b.ty(x), b.dtype(x), &axes, true).extents();
    let [g, y] = [g, call.outputs[0]].map(|value| {
        let wide = b.widen(value);
        b.reshape(wide, &kept)
    });
    let dx = match p {
        0.0 => b.full_like(x, 0.0),
        1.0 => b.map(&[x, g], |v| v[1] * v[0].sign()),
        _ if p.is_infinite() => to_extremes(b, [x, y, g], &axes, &kept),
        _ => b.map(&[x, y, g], |v| {
            let ratio = v[0].abs() / v[1];
            let slope = if p == 2.0 { ratio } else { ratio.pow(p - 1.0) };
            E::select(v[0].eq(0.0) | v[1].eq(0.0), 0.0, v[2] * v[0].sign() * slope)
        }),
    };
    vec![Some(b.cast(dx, b.dtype(call.inputs[0])))]
}

/// The gradient of the largest or smallest magnitude.
fn to_extremes(b: &mut Builder, [x, y, g]: [Value; 3], axes: &[usize], kept: &[usize]) -> Value {
    let is_hit = b.map(&[x, y], |v| v[0].abs().eq(v[1]));
    let dtype = b.dtype(x);
    let hits = b.cast(is_hit, dtype);
    let count = b.sum(hits, axes);
    let count = b.reshape(count, kept);
    b.map(&[x, is_hit, g, count], |v| E::select(v[1], v[2] * v[0].sign() / v[3], 0.0))
}
