//! `threshold` and `threshold_backward`.

use crate::takes;
use engine_core::ir::{DType, E};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule,
};

/// `x` where x > threshold, else `value`; NaN stays NaN. The gradient is g where x > threshold, else 0.
pub fn threshold() -> OpForm {
    OpForm {
        name: "threshold".into(),
        family: "elementwise".into(),
        summary: "Replaces elements that are not above a threshold.".into(),
        inputs: vec![InputSpec::required("x", "any shape")],
        outputs: vec!["y".into()],
        attrs: vec![
            AttrSpec::with_default(
                "threshold",
                "the threshold; elements above it stay",
                AttrKind::Element,
                0.0,
            ),
            AttrSpec::with_default("value", "the replacement of all others", AttrKind::Element, 0.0),
        ],
        types: TypeRule::Broadcast { allowed: takes::numbers },
        lower: Lower::map_with(1, |x, attrs| {
            E::select(x[0].le(attrs.literal("threshold")), attrs.literal("value"), x[0])
        }),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0, 1.0] },
        examples: vec![Example {
            title: "the threshold itself is replaced",
            call: "threshold(a, threshold=1.0, value=-5.0)",
            inputs: vec![("f32[4]", vec![0.5, 1.0, 1.5, f64::NAN])],
            outputs: vec![("f32[4]", vec![-5.0, -5.0, 1.5, f64::NAN])],
        }],
        role: Role::Plain,
    }
}

/// `grad` where x > threshold, else 0: the gradient of `threshold`, and with 0 that of `relu`, as an op.
pub fn threshold_backward() -> OpForm {
    OpForm {
        name: "threshold_backward".into(),
        family: "elementwise".into(),
        summary: "Lets a gradient pass where an operand is above a threshold.".into(),
        inputs: vec![
            InputSpec::required("grad", "the upstream gradient"),
            InputSpec::required("x", "the compared operand; it broadcasts with `grad`"),
        ],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::with_default(
            "threshold",
            "the threshold, which elements must exceed",
            AttrKind::Element,
            0.0,
        )],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower: Lower::map_with(2, |x, attrs| E::select(x[1].gt(attrs.literal("threshold")), x[0], 0.0)),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example {
            title: "nothing passes at the threshold",
            call: "threshold_backward(a, b)",
            inputs: vec![("f32[3]", vec![10.0, 20.0, 30.0]), ("f32[3]", vec![-1.0, 0.0, 1.0])],
            outputs: vec![("f32[3]", vec![0.0, 0.0, 30.0])],
        }],
        role: Role::Plain,
    }
}
