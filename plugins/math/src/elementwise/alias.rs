//! Other names of ops.

use super::{add, lerp, mul, select};
use engine_core::bug;
use engine_core::ir::{Attrs, Builder, Value};
use engine_core::op::{
    Example, Grad, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, TypeIssue, TypeRule,
};

/// Names under which other systems know these ops.
pub fn aliases() -> Vec<OpForm> {
    vec![
        alias("elementwise_add", "elementwise_add(a, b)", add::add()),
        alias("elementwise_mul", "elementwise_mul(a, b)", mul::mul()),
        alias("hadamard", "hadamard(a, b)", mul::mul()),
        alias("elementwise_where", "elementwise_where(a, b, c)", select::select()),
        alias("elementwise_lerp", "elementwise_lerp(a, b, c)", lerp::lerp()),
    ]
}

/// `of` under another name; `call` is how its example is called.
fn alias(name: &str, call: &'static str, of: OpForm) -> OpForm {
    let target = of.name.clone();
    OpForm {
        name: name.into(),
        family: of.family,
        summary: format!("Another name of `{target}`."),
        inputs: of.inputs,
        outputs: of.outputs,
        attrs: of.attrs,
        types: of.types,
        lower: Lower::expand(move |b, alias| forwarded(b, alias, &target)),
        grad: Grad::Derive,
        check: of.check,
        examples: of.examples.into_iter().map(|example| Example { call, ..example }).collect(),
        role: Role::Plain,
    }
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
        lower: Lower::expand(|b, call| forwarded(b, call, "add")),
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

fn forwarded(b: &mut Builder, call: &Lowering, target: &str) -> Vec<Value> {
    b.call(target, call.inputs, Attrs::default())
        .unwrap_or_else(|issue| bug!("an alias of `{target}` let pass: {}", issue.message))
}
