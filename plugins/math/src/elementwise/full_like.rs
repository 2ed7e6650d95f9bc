//! `full_like`.

use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule,
};

/// One number everywhere, in the type and shape of the operand, whose elements are ignored. NaN, infinities and -0 are
/// kept exactly.
pub fn full_like() -> OpForm {
    OpForm {
        name: "full_like".into(),
        family: "elementwise".into(),
        summary: "Fills a tensor of the operand's type and shape with one number.".into(),
        inputs: vec![InputSpec::required("x", "gives type and shape")],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::must("value", "the number", AttrKind::Element)],
        types: TypeRule::custom(|inputs, _| Ok(vec![inputs[0].clone()])),
        lower: Lower::expand(|b, call| {
            let ty = b.ty(call.inputs[0]).clone();
            vec![b.full(call.attrs.literal("value"), ty)]
        }),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "any elements",
            call: "full_like(a, value=-1.5)",
            inputs: vec![("f32[2]", vec![3.0, f64::NAN])],
            outputs: vec![("f32[2]", vec![-1.5, -1.5])],
        }],
        role: Role::Plain,
    }
}
