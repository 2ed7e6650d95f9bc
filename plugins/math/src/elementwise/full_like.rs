//! `full_like`.

use engine_core::op::{AttrKind, AttrSpec, OpForm};

/// One number everywhere, in the type and shape of the operand, whose elements are ignored. NaN, infinities and -0 are
/// kept exactly.
pub fn full_like() -> OpForm {
    OpForm::new("full_like", "Fills a tensor of the operand's type and shape with one number.")
        .input("x", "gives type and shape")
        .attr(AttrSpec::must("value", "the number", AttrKind::Element))
        .types(|inputs, _| Ok(vec![inputs[0].clone()]))
        .expand(|b, call| {
            let ty = b.ty(call.inputs[0]).clone();
            vec![b.full(call.attrs.literal("value"), ty)]
        })
        .example(
            "any elements",
            "full_like(a, value=-1.5)",
            &[("f32[2]", &[3.0, f64::NAN])],
            &[("f32[2]", &[-1.5, -1.5])],
        )
}
