//! Aliases of ops.

use super::{add, copy, lerp, mul, select};
use engine_core::op::{Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeIssue, TypeRule};

/// Names of these ops in other systems.
pub fn aliases() -> Vec<OpForm> {
    vec![
        add::add().alias("elementwise_add", "elementwise_add(a, b)"),
        mul::mul().alias("elementwise_mul", "elementwise_mul(a, b)"),
        mul::mul().alias("hadamard", "hadamard(a, b)"),
        select::select().alias("elementwise_where", "elementwise_where(a, b, c)"),
        copy::copy().alias("clone", "clone(a)"),
        copy::copy().alias("contiguous", "contiguous(a)"),
        lerp::lerp().alias("elementwise_lerp", "elementwise_lerp(a, b, c)"),
    ]
}

/// `pred + corr`, both of one shape: predictions with their corrections applied.
pub fn apply_corrections() -> OpForm {
    OpForm {
        name: "apply_corrections".into(),
        family: "elementwise".into(),
        summary: "Adds corrections to predictions of the same shape.".into(),
        inputs: vec![
            InputSpec::required("pred", "predictions"),
            InputSpec::required("corr", "corrections of the same type"),
        ],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::custom(|inputs, _| {
            if inputs[0] == inputs[1] {
                return Ok(vec![inputs[0].clone()]);
            }
            Err(TypeIssue::new(format!("`apply_corrections` of {} and {}", inputs[0], inputs[1]))
                .at(1, format!("this is {}", inputs[1]))
                .help("both must have one type; `add` broadcasts"))
        }),
        lower: Lower::map(2, |x| x[0] + x[1]),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "one row of two numbers",
            call: "apply_corrections(a, b)",
            inputs: vec![("f32[1, 2]", vec![1.0, 2.0]), ("f32[1, 2]", vec![0.25, -0.5])],
            outputs: vec![("f32[1, 2]", vec![1.25, 1.5])],
        }],
        role: Role::Plain,
    }
}
