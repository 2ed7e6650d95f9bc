//! `clamp`.

use crate::takes;
use engine_core::ir::{Attrs, E};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeIssue, TypeRule,
};

/// `min(max(x, min), max)`: `max` wins where `min` is larger. NaN in the operand or a bound is NaN in the result. A
/// bound beyond the range of an integer type saturates. The gradient is g for min ≤ x ≤ max, else 0.
pub fn clamp() -> OpForm {
    OpForm {
        name: "clamp".into(),
        family: "elementwise".into(),
        summary: "Moves each element into an interval.".into(),
        inputs: vec![InputSpec::required("x", "any shape")],
        outputs: vec!["y".into()],
        attrs: vec![
            AttrSpec::open("min", "the smallest result; integers drop its fraction", AttrKind::Bound),
            AttrSpec::open("max", "the largest result; integers drop its fraction", AttrKind::Bound),
        ],
        types: TypeRule::custom(|inputs, attrs| {
            inputs[0].expect_dtype("clamp", 0, takes::numbers, "numbers")?;
            check_bounds(attrs)?;
            Ok(inputs.to_vec())
        }),
        lower: Lower::map_with(1, |x, attrs| clamped(x[0], attrs)),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[-1.0, 1.0] },
        examples: vec![
            Example {
                title: "between two bounds",
                call: "clamp(a, min=-1.0, max=1.0)",
                inputs: vec![("f32[4]", vec![-2.0, 0.5, 3.0, f64::NAN])],
                outputs: vec![("f32[4]", vec![-1.0, 0.5, 1.0, f64::NAN])],
            },
            Example {
                title: "with one bound",
                call: "clamp(a, min=0)",
                inputs: vec![("i32[3]", vec![-2.0, 0.0, 3.0])],
                outputs: vec![("i32[3]", vec![0.0, 0.0, 3.0])],
            },
        ],
        role: Role::Plain,
    }
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
