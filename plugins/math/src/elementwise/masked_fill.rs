//! `masked_fill`.

use engine_core::ir::{DType, E, Type, broadcast_shapes};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue};

/// `value` where the mask holds, else x. The mask broadcasts to the shape of x. The gradient is 0 where the mask holds.
pub fn masked_fill() -> OpForm {
    OpForm::new("masked_fill", "Replaces elements by a number where a mask holds.")
        .input("x", "any tensor")
        .input("mask", "truth values; it broadcasts to the shape of `x`")
        .attr(AttrSpec::must("value", "the replacement", AttrKind::Element))
        .types(|inputs, _| Ok(vec![filled(&inputs[0], &inputs[1])?]))
        .map(|x, attrs| E::select(x[1], attrs.literal("value"), x[0]))
        .example(
            "a column",
            "masked_fill(a, b, value=-1)",
            &[("f32[2, 2]", &[1.0, 2.0, 3.0, 4.0]), ("bool[2]", &[0.0, 1.0])],
            &[("f32[2, 2]", &[1.0, -1.0, 3.0, -1.0])],
        )
}

fn filled(x: &Type, mask: &Type) -> Result<Type, TypeIssue> {
    if mask.dtype != DType::Bool {
        return Err(TypeIssue::new(format!("the mask of `masked_fill` is {mask}"))
            .at(1, format!("this is {mask}"))
            .help("compare it: `mask != 0`"));
    }
    match broadcast_shapes(&[x.clone(), mask.clone()]) {
        Some(shape) if shape == x.shape => Ok(x.clone()),
        _ => Err(TypeIssue::new(format!("the mask {mask} does not broadcast to {x}"))
            .at(1, format!("this is {mask}"))
            .help("its trailing axes must agree or be 1")),
    }
}
