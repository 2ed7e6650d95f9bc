//! Explicit broadcasting.

use engine_core::ir::{Type, broadcast_shapes};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue};

/// Repeats a tensor by the numpy rule: trailing axes align, axes of extent 1 and missing leading ones repeat.
pub fn broadcast_to() -> OpForm {
    OpForm::new("broadcast_to", "Repeats a tensor along missing axes and axes of extent 1.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::must("shape", "the new extents", AttrKind::Shape))
        .types(|types, attrs| {
            let wanted = Type { dtype: types[0].dtype, shape: attrs.shape("shape") };
            if broadcast_shapes(&[types[0].clone(), wanted.clone()]).as_ref() == Some(&wanted.shape) {
                return Ok(vec![wanted]);
            }
            Err(TypeIssue::new(format!("{} does not broadcast to {wanted}", types[0]))
                .at(0, format!("this is {}", types[0]))
                .help("trailing axes must agree or be 1"))
        })
        .expand(|b, call| vec![b.broadcast_dims(call.inputs[0], &call.attrs.shape("shape"))])
        .example(
            "a row twice",
            "broadcast_to(a, shape=[2, 2])",
            &[("f32[2]", &[1., 2.])],
            &[("f32[2, 2]", &[1., 2., 1., 2.])],
        )
}
