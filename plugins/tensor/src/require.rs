//! Conditions that a graph states about its own values.

use engine_core::ir::{DType, E, Requirement};
use engine_core::op::{OpForm, TypeIssue};

/// `x`, as long as a condition holds: `bool[…]` of the first axes of `x`, one truth value for each of its parts, or for all of
/// it. An element that is false ends the step with an error (E0614), which states its position. No state is written in that
/// step. Values that nothing reads require nothing.
pub fn require() -> OpForm {
    OpForm::new("require", "Passes a tensor on as long as a condition holds; else the step ends in an error.")
        .input("x", "any tensor")
        .input("condition", "`bool`, of the first axes of x, or a scalar")
        .types(|types, _| {
            let [x, condition] = [&types[0], &types[1]];
            condition.expect_dtype("require", 1, |dtype| dtype == DType::Bool, "truth values")?;
            if !x.shape.starts_with(&condition.shape) {
                return Err(TypeIssue::new(format!("`require` of {x} under {condition}"))
                    .at(1, format!("this is {condition}"))
                    .help("a condition has the first axes of the tensor: reduce it with `all(…, axis=…)`"));
            }
            Ok(vec![x.clone()])
        })
        .expand(|b, call| {
            let [x, condition] = [call.inputs[0], call.inputs[1]];
            let condition = b.cast(condition, DType::I32);
            let held = b.check(condition, Requirement::Condition);
            let axes: Vec<usize> = (0..b.extents(held).len()).collect();
            let shape = b.ty(x).shape.clone();
            let held = b.broadcast_axes(held, &axes, &shape);
            let zeros = b.full_like(x, 0.0);
            vec![b.map(&[held, x, zeros], |v| E::select(v[0].gt(0.0), v[1], v[2]))]
        })
        .example(
            "one condition for each row",
            "require(a, b)",
            &[("f32[2, 2]", &[1.0, 2.0, 3.0, 4.0]), ("bool[2]", &[1.0, 1.0])],
            &[("f32[2, 2]", &[1.0, 2.0, 3.0, 4.0])],
        )
}
