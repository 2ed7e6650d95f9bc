//! `hardtanh`.

use crate::takes;
use engine_core::ir::{Builder, E, Value};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCall, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule,
};

/// x clipped to between `min_val` and `max_val`; NaN stays NaN. The gradient is g strictly inside, else 0.
pub fn hardtanh() -> OpForm {
    OpForm {
        name: "hardtanh".into(),
        family: "activation".into(),
        summary: "Clips each element to between two bounds.".into(),
        inputs: vec![InputSpec::required("x", "any shape")],
        outputs: vec!["y".into()],
        attrs: vec![
            AttrSpec::with_default("min_val", "the smallest result", AttrKind::Bound, -1.0),
            AttrSpec::with_default("max_val", "the largest result", AttrKind::Bound, 1.0),
        ],
        types: TypeRule::Broadcast { allowed: takes::signed },
        lower: Lower::map_with(1, |x, attrs| {
            x[0].max(attrs.literal("min_val")).min(attrs.literal("max_val"))
        }),
        grad: Grad::rule(|b, call| vec![call.grads[0].map(|g| passed_inside(b, call, g))]),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[-1.0, 1.0] },
        examples: vec![Example {
            title: "below, at the ends, inside and above",
            call: "hardtanh(a)",
            inputs: vec![("f32[5]", vec![-2.0, -1.0, 0.25, 1.0, 3.0])],
            outputs: vec![("f32[5]", vec![-1.0, -1.0, 0.25, 1.0, 1.0])],
        }],
        role: Role::Plain,
    }
}

fn passed_inside(b: &mut Builder, call: &GradCall, g: Value) -> Value {
    let (min, max) = (call.attrs.literal("min_val"), call.attrs.literal("max_val"));
    b.map(&[call.outputs[0], g], |v| E::select(v[0].gt(min) & v[0].lt(max), v[1], 0.0))
}
