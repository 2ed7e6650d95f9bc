//! Explicit broadcasting.

use engine_core::ir::{Type, broadcast_shapes};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeIssue, TypeRule,
};

/// Repeats a tensor by the numpy rule: trailing axes align, axes of extent 1 and missing leading ones repeat.
pub fn broadcast_to() -> OpForm {
    OpForm {
        name: "broadcast_to".into(),
        family: "tensor".into(),
        summary: "Repeats a tensor along missing axes and axes of extent 1.".into(),
        inputs: vec![InputSpec::required("x", "any tensor")],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::must("shape", "the new extents", AttrKind::Shape)],
        types: TypeRule::custom(|types, attrs| {
            let wanted = Type { dtype: types[0].dtype, shape: attrs.shape("shape") };
            if broadcast_shapes(&[types[0].clone(), wanted.clone()]).as_ref() == Some(&wanted.shape) {
                return Ok(vec![wanted]);
            }
            Err(TypeIssue::new(format!("{} does not broadcast to {wanted}", types[0]))
                .at(0, format!("this is {}", types[0]))
                .help("trailing axes must agree or be 1"))
        }),
        lower: Lower::expand(|b, call| vec![b.broadcast_dims(call.inputs[0], &call.attrs.shape("shape"))]),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example::new(
            "a row twice",
            "broadcast_to(a, shape=[2, 2])",
            &[("f32[2]", &[1., 2.])],
            &[("f32[2, 2]", &[1., 2., 1., 2.])],
        )],
        role: Role::Plain,
    }
}
