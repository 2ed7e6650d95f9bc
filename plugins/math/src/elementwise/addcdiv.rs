//! `addcdiv`.

use engine_core::ir::DType;
use engine_core::ir::E;
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule,
};

/// `x + value · a / b`: the parameter update of optimizers.
pub fn addcdiv() -> OpForm {
    OpForm {
        name: "addcdiv".into(),
        family: "elementwise".into(),
        summary: "Adds a multiple of a quotient.".into(),
        inputs: vec![
            InputSpec::required("x", "the base"),
            InputSpec::required("a", "the dividend; it broadcasts with the others"),
            InputSpec::required("b", "the divisor; it broadcasts with the others"),
        ],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::with_default("value", "the factor of the quotient", AttrKind::Element, 1.0)],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower: Lower::map_with(3, |x, attrs| x[0] + x[1] / x[2] * E::lit(attrs.literal("value"))),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "twice the quotient",
            call: "addcdiv(a, b, c, value=2.0)",
            inputs: vec![("f32[2]", vec![1.0, 1.0]), ("f32[2]", vec![3.0, -3.0]), ("f32[]", vec![0.5])],
            outputs: vec![("f32[2]", vec![13.0, -11.0])],
        }],
        role: Role::Plain,
    }
}
