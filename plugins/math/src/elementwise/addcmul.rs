//! `addcmul`.

use crate::takes;
use engine_core::ir::E;
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule,
};

/// `x + value · a · b`: the moment updates of optimizers.
pub fn addcmul() -> OpForm {
    OpForm {
        name: "addcmul".into(),
        family: "elementwise".into(),
        summary: "Adds a multiple of a product.".into(),
        inputs: vec![
            InputSpec::required("x", "the base"),
            InputSpec::required("a", "the first factor; it broadcasts with the others"),
            InputSpec::required("b", "the second factor; it broadcasts with the others"),
        ],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::with_default("value", "the factor of the product", AttrKind::Element, 1.0)],
        types: TypeRule::Broadcast { allowed: takes::numbers },
        lower: Lower::map_with(3, |x, attrs| x[0] + x[1] * x[2] * E::lit(attrs.literal("value"))),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "twice the product",
            call: "addcmul(a, b, c, value=2.0)",
            inputs: vec![("f32[2]", vec![1.0, 1.0]), ("f32[2]", vec![3.0, -3.0]), ("f32[]", vec![0.5])],
            outputs: vec![("f32[2]", vec![4.0, -2.0])],
        }],
        role: Role::Plain,
    }
}
