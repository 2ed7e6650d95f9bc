//! The logarithm of a sum of exponentials.

use crate::axes::{axes, expect_some, keep, over_axes, reduced};
use engine_core::ir::{Builder, DType, E, Monoid, Unary, Value};
use engine_core::op::{Grad, GradCall, OpForm};

/// `m + ln Σ exp(x - m)` over axes, with m the largest element: no overflow, and -∞ where all are -∞. The gradient is
/// `g·exp(x - y)`, a softmax.
pub fn log_sum_exp() -> OpForm {
    over_axes("log_sum_exp", "Computes the logarithm of the sum of exponentials along axes without overflow.")
        .types(|types, attrs| {
            types[0].expect_dtype("log_sum_exp", 0, DType::is_float, "floats")?;
            let axes = types[0].axes(attrs)?;
            expect_some("log_sum_exp", &types[0], &axes)?;
            Ok(vec![reduced(&types[0], types[0].dtype, &axes, attrs.bool("keepdim"))])
        })
        .expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let axes = axes(b, x, call.attrs);
            let y = stable(b, x, &axes);
            let y = b.cast(y, b.dtype(call.inputs[0]));
            vec![keep(b, y, x, &axes, call.attrs.bool("keepdim"))]
        })
        .grad(Grad::rule(softmax_of_operand))
        .example(
            "large numbers do not overflow",
            "log_sum_exp(a, axis=1)",
            &[("f32[2, 2]", &[1000., 1000., 0., f64::NEG_INFINITY])],
            &[("f32[2]", &[1000.6931, 0.])],
        )
}

fn stable(b: &mut Builder, x: Value, axes: &[usize]) -> Value {
    let largest = b.reduce(Monoid::Max, x, axes);
    // Relative to an infinite maximum, every result would be NaN. Relative to 0 it is correct.
    let reference = b.map(&[largest], |m| E::select(m[0].abs().eq(f64::INFINITY), 0.0, m[0]));
    let repeated = b.unreduce(reference, axes, x);
    let shifted = b.sub(x, repeated);
    let exps = b.unary(Unary::Exp, shifted);
    let total = b.sum(exps, axes);
    let log = b.unary(Unary::Log, total);
    b.add(log, reference)
}

fn softmax_of_operand(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let x = b.widen(call.inputs[0]);
    let axes = axes(b, x, call.attrs);
    let kept = reduced(b.ty(x), b.dtype(x), &axes, true).extents();
    let [g, y] = [g, call.outputs[0]].map(|y| {
        let wide = b.widen(y);
        b.reshape(wide, &kept)
    });
    // A row of -∞ alone has weights 0, not exp(-∞ + ∞).
    let dx = b.map(&[x, y, g], |v| {
        let reference = E::select(v[1].eq(f64::NEG_INFINITY), 0.0, v[1]);
        v[2] * (v[0] - reference).exp()
    });
    vec![Some(b.cast(dx, b.dtype(call.inputs[0])))]
}
