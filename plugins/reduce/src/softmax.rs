//! `softmax` and `log_softmax`.

use crate::axes::{axis, last_axis};
use engine_core::ir::{Attrs, Builder, DType, E, Monoid, Unary, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, OpForm};

/// `exp(x - m) / Σ exp(x - m)` along an axis, with m the largest element; computed in f32 or wider. The gradient `y·(g
/// - Σ g·y)` depends on the result alone.
pub fn softmax() -> OpForm {
    form(
        "softmax",
        "Turns numbers along an axis into weights that add up to 1.",
        "are 0",
        weights,
        softmax_grad,
    )
    .example(
        "of one row",
        "softmax(a)",
        &[("f32[1, 3]", &[0., 1., 2.])],
        &[("f32[1, 3]", &[0.09003057, 0.24472847, 0.66524096])],
    )
    .example(
        "a row of -inf alone weighs nothing, if asked to",
        "softmax(a, masked_row=\"zero\")",
        &[("f32[2, 2]", &[f64::NEG_INFINITY, f64::NEG_INFINITY, 0., 0.])],
        &[("f32[2, 2]", &[0., 0., 0.5, 0.5])],
    )
}

/// `x - m - ln Σ exp(x - m)` along an axis, with m the largest element; computed in f32 or wider. The gradient
/// `g - exp(y)·Σ g` depends on the result alone.
pub fn log_softmax() -> OpForm {
    form(
        "log_softmax",
        "Computes the logarithm of softmax along an axis.",
        "are -inf",
        log_weights,
        log_softmax_grad,
    )
    .example(
        "of one row",
        "log_softmax(a)",
        &[("f32[1, 3]", &[0., 1., 2.])],
        &[("f32[1, 3]", &[-2.407606, -1.407606, -0.407606])],
    )
}

/// The common form of both. `masked` documents the result of a row without weight.
fn form(
    name: &'static str,
    summary: &str,
    masked: &str,
    forward: fn(&mut Builder, Value, &Attrs) -> Value,
    backward: fn(&mut Builder, &GradCall) -> Vec<Option<Value>>,
) -> OpForm {
    let doc = format!("results of a row that is -inf throughout: `nan`, or `zero` if its weights {masked}");
    OpForm::new(name, summary)
        .input("x", "logits")
        .attr(last_axis("axis along which weights add up to 1"))
        .attr(AttrSpec::choice("masked_row", &doc, &["nan", "zero"]))
        .types(move |types, attrs| {
            types[0].expect_dtype(name, 0, DType::is_float, "floats")?;
            types[0].axis(attrs.int("axis"))?;
            Ok(vec![types[0].clone()])
        })
        .expand(move |b, call| vec![forward(b, call.inputs[0], call.attrs)])
        .grad(Grad::rule(backward))
}

/// An empty row has no largest element, and its result is empty.
fn is_empty(b: &Builder, x: Value) -> bool {
    b.ty(x).numel() == 0
}

fn zero_if_masked(attrs: &Attrs) -> bool {
    attrs.str("masked_row") == "zero"
}

fn weights(b: &mut Builder, given: Value, attrs: &Attrs) -> Value {
    if is_empty(b, given) {
        return given;
    }
    let x = b.widen(given);
    let axis = axis(b, x, attrs.int("axis"));
    let shifted = shifted(b, x, axis, attrs);
    let exps = b.unary(Unary::Exp, shifted);
    let total = b.sum(exps, &[axis]);
    let total = match zero_if_masked(attrs) {
        // The total of a row that counts is at least 1, since its largest element contributes exp 0.
        true => b.map(&[total], |t| E::select(t[0].eq(0.0), 1.0, t[0])),
        false => total,
    };
    let total = b.unreduce(total, &[axis], x);
    let y = b.div(exps, total);
    b.cast(y, b.dtype(given))
}

fn log_weights(b: &mut Builder, given: Value, attrs: &Attrs) -> Value {
    if is_empty(b, given) {
        return given;
    }
    let x = b.widen(given);
    let axis = axis(b, x, attrs.int("axis"));
    let shifted = shifted(b, x, axis, attrs);
    let exps = b.unary(Unary::Exp, shifted);
    let total = b.sum(exps, &[axis]);
    let log = b.unary(Unary::Log, total);
    let log = match zero_if_masked(attrs) {
        true => b.map(&[log], |l| E::select(l[0].eq(f64::NEG_INFINITY), 0.0, l[0])),
        false => log,
    };
    let log = b.unreduce(log, &[axis], x);
    let y = b.sub(shifted, log);
    b.cast(y, b.dtype(given))
}

/// Subtracts the row's largest element, or 0 if that is -∞ and such rows count as masked.
fn shifted(b: &mut Builder, x: Value, axis: usize, attrs: &Attrs) -> Value {
    let largest = b.reduce(Monoid::Max, x, &[axis]);
    let reference = match zero_if_masked(attrs) {
        true => b.map(&[largest], |m| E::select(m[0].eq(f64::NEG_INFINITY), 0.0, m[0])),
        false => largest,
    };
    let reference = b.unreduce(reference, &[axis], x);
    b.sub(x, reference)
}

/// y·(g - Σ g·y)
fn softmax_grad(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(given) = call.grads[0] else { return vec![None] };
    let [g, y] = [given, call.outputs[0]].map(|v| b.widen(v));
    let axis = axis(b, y, call.attrs.int("axis"));
    let products = b.mul(g, y);
    let total = b.sum(products, &[axis]);
    let total = b.unreduce(total, &[axis], y);
    let dx = b.map(&[y, g, total], |v| v[0] * (v[1] - v[2]));
    vec![Some(b.cast(dx, b.dtype(given)))]
}

/// g - exp(y)·Σ g, and 0 for a masked row, whose result is constant.
fn log_softmax_grad(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(given) = call.grads[0] else { return vec![None] };
    let [g, y] = [given, call.outputs[0]].map(|v| b.widen(v));
    let axis = axis(b, y, call.attrs.int("axis"));
    let total = b.sum(g, &[axis]);
    let total = b.unreduce(total, &[axis], y);
    let dx = b.map(&[y, g, total], |v| v[1] - v[0].exp() * v[2]);
    let dx = match zero_if_masked(call.attrs) && !is_empty(b, y) {
        true => {
            let largest = b.reduce(Monoid::Max, y, &[axis]);
            let largest = b.unreduce(largest, &[axis], y);
            b.map(&[largest, dx], |v| E::select(v[0].eq(f64::NEG_INFINITY), 0.0, v[1]))
        }
        false => dx,
    };
    vec![Some(b.cast(dx, b.dtype(given)))]
}
