//! `cast`.

use engine_core::ir::{Builder, Value};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCall, GradCheck, InputSpec, Lower, Lowering, OpForm, Role,
    TypeRule,
};

/// Conversion to another element type. Floats round to nearest, ties to even, and overflow to infinity. With `saturate`
/// they stop at the largest finite number instead. Floats become integers by dropping the fraction; they saturate, and
/// NaN becomes 0. Any type becomes a truth value by `x != 0`.
pub fn cast() -> OpForm {
    OpForm {
        name: "cast".into(),
        family: "elementwise".into(),
        summary: "Converts to another element type.".into(),
        inputs: vec![InputSpec::required("x", "any shape and element type")],
        outputs: vec!["y".into()],
        attrs: vec![
            AttrSpec::must("dtype", "the element type of the result", AttrKind::DType),
            AttrSpec::with_default(
                "saturate",
                "whether floats beyond the range stop at its end instead of becoming infinite",
                AttrKind::Bool,
                false,
            ),
        ],
        types: TypeRule::custom(|inputs, attrs| Ok(vec![inputs[0].with_dtype(attrs.dtype("dtype"))])),
        lower: Lower::expand(|b, call| vec![converted(b, call)]),
        grad: Grad::rule(|b, call| vec![converted_back(b, call)]),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example {
                title: "integers drop the fraction and have no NaN",
                call: "cast(a, dtype=i32)",
                inputs: vec![("f32[4]", vec![1.9, -1.9, 1e10, f64::NAN])],
                outputs: vec![("i32[4]", vec![1.0, -1.0, 2147483647.0, 0.0])],
            },
            Example {
                title: "f16 overflows to infinity",
                call: "cast(a, dtype=f16)",
                inputs: vec![("f32[3]", vec![1.0, 65520.0, -1e6])],
                outputs: vec![("f16[3]", vec![1.0, f64::INFINITY, f64::NEG_INFINITY])],
            },
            Example {
                title: "without saturation",
                call: "cast(a, dtype=f16, saturate=true)",
                inputs: vec![("f32[3]", vec![1.0, 65520.0, -1e6])],
                outputs: vec![("f16[3]", vec![1.0, 65504.0, -65504.0])],
            },
        ],
        role: Role::Plain,
    }
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
