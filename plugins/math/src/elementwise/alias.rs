//! Aliases of ops.

use super::{arithmetic, blend, copy, select};
use engine_core::op::{OpForm, TypeIssue};

/// Names of these ops in other systems.
pub fn aliases() -> Vec<OpForm> {
    vec![
        arithmetic::add().alias("elementwise_add", "elementwise_add(a, b)"),
        arithmetic::mul().alias("elementwise_mul", "elementwise_mul(a, b)"),
        arithmetic::mul().alias("hadamard", "hadamard(a, b)"),
        select::select().alias("elementwise_where", "elementwise_where(a, b, c)"),
        copy::copy().alias("clone", "clone(a)"),
        copy::copy().alias("contiguous", "contiguous(a)"),
        blend::lerp().alias("elementwise_lerp", "elementwise_lerp(a, b, c)"),
    ]
}

/// `pred + corr`, both of one shape: predictions with their corrections applied.
pub fn apply_corrections() -> OpForm {
    OpForm::new("apply_corrections", "Adds corrections to predictions of the same shape.")
        .input("pred", "predictions")
        .input("corr", "corrections of the same type")
        .types(|inputs, _| {
            if inputs[0] == inputs[1] {
                return Ok(vec![inputs[0].clone()]);
            }
            Err(TypeIssue::new(format!("`apply_corrections` of {} and {}", inputs[0], inputs[1]))
                .at(1, format!("this is {}", inputs[1]))
                .help("both must have one type; `add` broadcasts"))
        })
        .map(|x, _| x[0] + x[1])
        .example(
            "one row of two numbers",
            "apply_corrections(a, b)",
            &[("f32[1, 2]", &[1.0, 2.0]), ("f32[1, 2]", &[0.25, -0.5])],
            &[("f32[1, 2]", &[1.25, 1.5])],
        )
}
