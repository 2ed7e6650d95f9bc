//! `cast`.

use engine_core::ir::{Builder, Value};
use engine_core::op::{AttrKind, AttrSpec, Grad, GradCall, Lowering, OpForm};

/// Conversion to another element type. Floats round to nearest, ties to even, and overflow to infinity. With `saturate`
/// they stop at the largest finite number instead. Floats become integers by dropping the fraction; they saturate, and
/// NaN becomes 0. Any type becomes a truth value by `x != 0`.
pub fn cast() -> OpForm {
    OpForm::new("cast", "Converts to another element type.")
        .follows_operands()
        .input("x", "any shape and element type")
        .attr(AttrSpec::must("dtype", "the element type of the result", AttrKind::DType))
        .attr(AttrSpec::flag(
            "saturate",
            "whether floats beyond the range stop at its end instead of becoming infinite",
            false,
        ))
        .types(|inputs, attrs| Ok(vec![inputs[0].with_dtype(attrs.dtype("dtype"))]))
        .expand(|b, call| vec![converted(b, call)])
        .grad(Grad::rule(|b, call| vec![converted_back(b, call)]))
        .example(
            "integers drop the fraction and have no NaN",
            "cast(a, dtype=i32)",
            &[("f32[4]", &[1.9, -1.9, 1e10, f64::NAN])],
            &[("i32[4]", &[1.0, -1.0, 2147483647.0, 0.0])],
        )
        .example(
            "f16 overflows to infinity",
            "cast(a, dtype=f16)",
            &[("f32[3]", &[1.0, 65520.0, -1e6])],
            &[("f16[3]", &[1.0, f64::INFINITY, f64::NEG_INFINITY])],
        )
        .example(
            "without saturation",
            "cast(a, dtype=f16, saturate=true)",
            &[("f32[3]", &[1.0, 65520.0, -1e6])],
            &[("f16[3]", &[1.0, 65504.0, -65504.0])],
        )
}

fn converted(b: &mut Builder, call: &Lowering) -> Value {
    let dtype = call.attrs.dtype("dtype");
    let y = b.cast(call.inputs[0], dtype);
    let largest = dtype.largest();
    match dtype.is_float() && call.attrs.bool("saturate") {
        true => b.map(&[y], |v| v[0].max(-largest).min(largest)),
        false => y,
    }
}

/// Between floats the gradient is cast back, whether or not the value saturated.
fn converted_back(b: &mut Builder, call: &GradCall) -> Option<Value> {
    let (from, to) = (b.dtype(call.inputs[0]), b.dtype(call.outputs[0]));
    call.grads[0].filter(|_| from.is_float() && to.is_float()).map(|g| b.cast(g, from))
}
