//! `flip`.

use crate::conv::reversed;
use engine_core::ir::{Attrs, Type};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// The elements from the end to the start along axes.
pub fn flip() -> OpForm {
    OpForm::new("flip", "Reverses the order of elements along axes.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::must("axis", "the axis, or a list of axes", AttrKind::Ints))
        .types(|types, attrs| axes(&types[0], attrs).map(|_| vec![types[0].clone()]))
        .expand(|b, call| {
            let axes = checked(axes(b.ty(call.inputs[0]), call.attrs));
            vec![reversed(b, call.inputs[0], &axes)]
        })
        .example(
            "rows from right to left",
            "flip(a, axis=-1)",
            &[("i32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
            &[("i32[2, 3]", &[3., 2., 1., 6., 5., 4.])],
        )
        .example(
            "both axes",
            "flip(a, axis=[0, 1])",
            &[("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[2, 2]", &[4., 3., 2., 1.])],
        )
}

fn axes(x: &Type, attrs: &Attrs) -> Result<Vec<usize>, TypeIssue> {
    let axes: Result<Vec<usize>, TypeIssue> =
        attrs.ints("axis").into_iter().map(|axis| x.axis(axis)).collect();
    let axes = axes?;
    match axes.iter().enumerate().find(|(i, axis)| axes[..*i].contains(axis)) {
        None => Ok(axes),
        Some((_, axis)) => Err(TypeIssue::new(format!("axis {axis} is named twice")).at_setting("axis")),
    }
}
