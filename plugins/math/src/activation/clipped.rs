//! Activations of straight lines.

use crate::takes;
use engine_core::ir::{Builder, DType, E, Value};
use engine_core::op::{AttrKind, AttrSpec, Grad, GradCall, OpForm};

/// max(x, 0); NaN stays NaN. The gradient is g where y > 0, else 0. It depends on the result alone, so the backward
/// pass does not need the operand.
pub fn relu() -> OpForm {
    OpForm::unary("relu", "Replaces negative elements by zero.", takes::numbers, |x| x.max(0.0))
        .grad(Grad::by_result(|y, g| E::select(y.gt(0.0), g, 0.0)))
        .avoiding(&[0.0])
        .example(
            "zero and NaN stay",
            "relu(a)",
            &[("f32[4]", &[-1.0, 0.0, 2.0, f64::NAN])],
            &[("f32[4]", &[0.0, 0.0, 2.0, f64::NAN])],
        )
}

/// min(max(x, 0), 6); NaN stays NaN. The gradient is g strictly inside, else 0.
pub fn relu6() -> OpForm {
    OpForm::unary("relu6", "Clips each element to between 0 and 6.", takes::numbers, |x| x.max(0.0).min(6.0))
        .grad(Grad::by_result(|y, g| E::select(y.gt(0.0) & y.lt(6.0), g, 0.0)))
        .tested_on(-2.0, 8.0)
        .avoiding(&[0.0, 6.0])
        .example(
            "below, at the ends, inside and above",
            "relu6(a)",
            &[("f32[5]", &[-1.0, 0.0, 2.5, 6.0, 7.0])],
            &[("f32[5]", &[0.0, 0.0, 2.5, 6.0, 6.0])],
        )
}

/// max(x, 0)². The gradient is 2·max(x, 0)·g.
pub fn relu_squared() -> OpForm {
    OpForm::unary("relu_squared", "Squares the positive part of each element.", takes::numbers, |x| {
        x.max(0.0) * x.max(0.0)
    })
    .example(
        "of both signs",
        "relu_squared(a)",
        &[("f32[4]", &[-1.0, 0.0, 1.5, 3.0])],
        &[("f32[4]", &[0.0, 0.0, 2.25, 9.0])],
    )
}

/// x/6 + ½, clipped to between 0 and 1. The gradient is g/6 for x strictly between -3 and 3, else 0.
pub fn hardsigmoid() -> OpForm {
    OpForm::unary("hardsigmoid", "Approximates the sigmoid by three straight lines.", DType::is_float, |x| {
        (x / 6.0 + 0.5).max(0.0).min(1.0)
    })
    .grad(Grad::by_operand(|x, g| E::select(x.gt(-3.0) & x.lt(3.0), g / 6.0, 0.0)))
    .tested_on(-4.0, 4.0)
    .avoiding(&[-3.0, 3.0])
    .example(
        "outside, at the ends and inside",
        "hardsigmoid(a)",
        &[("f32[6]", &[-4.0, -3.0, 0.0, 1.5, 3.0, 4.0])],
        &[("f32[6]", &[0.0, 0.0, 0.5, 0.75, 1.0, 1.0])],
    )
}

/// x clipped to between `min_val` and `max_val`; NaN stays NaN. The gradient is g strictly inside, else 0.
pub fn hardtanh() -> OpForm {
    OpForm::new("hardtanh", "Clips each element to between two bounds.")
        .input("x", "any shape")
        .attr(AttrSpec::with_default("min_val", "the smallest result", AttrKind::Bound, -1.0))
        .attr(AttrSpec::with_default("max_val", "the largest result", AttrKind::Bound, 1.0))
        .takes(takes::signed)
        .map(|x, attrs| x[0].max(attrs.literal("min_val")).min(attrs.literal("max_val")))
        .grad(Grad::rule(|b, call| vec![call.grads[0].map(|g| passed_inside(b, call, g))]))
        .avoiding(&[-1.0, 1.0])
        .example(
            "below, at the ends, inside and above",
            "hardtanh(a)",
            &[("f32[5]", &[-2.0, -1.0, 0.25, 1.0, 3.0])],
            &[("f32[5]", &[-1.0, -1.0, 0.25, 1.0, 1.0])],
        )
}

fn passed_inside(b: &mut Builder, call: &GradCall, g: Value) -> Value {
    let (min, max) = (call.attrs.literal("min_val"), call.attrs.literal("max_val"));
    b.map(&[call.outputs[0], g], |v| E::select(v[0].gt(min) & v[0].lt(max), v[1], 0.0))
}
