//! `clamp`.

use crate::takes;
use engine_core::ir::{Attrs, E};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue};

/// `min(max(x, min), max)`: `max` wins where `min` is larger. NaN in the operand or a bound is NaN in the result. A
/// bound beyond the range of an integer type saturates. The gradient is g for min ≤ x ≤ max, else 0.
pub fn clamp() -> OpForm {
    OpForm::new("clamp", "Moves each element into an interval.")
        .input("x", "any shape")
        .attr(AttrSpec::open("min", "the smallest result; integers drop its fraction", AttrKind::Bound))
        .attr(AttrSpec::open("max", "the largest result; integers drop its fraction", AttrKind::Bound))
        .types(|inputs, attrs| {
            inputs[0].expect_dtype("clamp", 0, takes::numbers, "numbers")?;
            check_bounds(attrs)?;
            Ok(inputs.to_vec())
        })
        .map(|x, attrs| clamped(x[0], attrs))
        .avoiding(&[-1.0, 1.0])
        .example(
            "between two bounds",
            "clamp(a, min=-1.0, max=1.0)",
            &[("f32[4]", &[-2.0, 0.5, 3.0, f64::NAN])],
            &[("f32[4]", &[-1.0, 0.5, 1.0, f64::NAN])],
        )
        .example(
            "with one bound",
            "clamp(a, min=0)",
            &[("i32[3]", &[-2.0, 0.0, 3.0])],
            &[("i32[3]", &[0.0, 0.0, 3.0])],
        )
}

fn check_bounds(attrs: &Attrs) -> Result<(), TypeIssue> {
    if attrs.opt_literal("min").is_none() && attrs.opt_literal("max").is_none() {
        return Err(TypeIssue::new("`clamp` has no bound").help("give `min`, `max` or both"));
    }
    Ok(())
}

fn clamped(x: E, attrs: &Attrs) -> E {
    let x = attrs.opt_literal("min").map_or(x, |min| x.max(min));
    attrs.opt_literal("max").map_or(x, |max| x.min(max))
}
