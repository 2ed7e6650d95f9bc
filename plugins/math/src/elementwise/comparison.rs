//! Comparisons: `eq`, `ne`, `lt`, `le`, `gt`, `ge`.

use engine_core::ir::E;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// The six comparisons. All except `ne` are false where an operand is NaN.
pub fn comparisons() -> Vec<OpForm> {
    vec![
        comparison("eq", "eq(a, b)", "Tells where two tensors are equal.", |a, b| a.eq(b), [0., 1., 0., 0.]),
        comparison("ne", "ne(a, b)", "Tells where two tensors differ.", |a, b| a.ne(b), [1., 0., 1., 1.]),
        comparison(
            "lt",
            "lt(a, b)",
            "Tells where the first tensor is smaller.",
            |a, b| a.lt(b),
            [1., 0., 0., 0.],
        ),
        comparison(
            "le",
            "le(a, b)",
            "Tells where the first tensor is not larger.",
            |a, b| a.le(b),
            [1., 1., 0., 0.],
        ),
        comparison(
            "gt",
            "gt(a, b)",
            "Tells where the first tensor is larger.",
            |a, b| a.gt(b),
            [0., 0., 1., 0.],
        ),
        comparison(
            "ge",
            "ge(a, b)",
            "Tells where the first tensor is not smaller.",
            |a, b| a.ge(b),
            [0., 1., 1., 0.],
        ),
    ]
}

/// One comparison. `outcome` holds its results for 1 with 2, 2 with 2, 3 with 2 and NaN with 2.
fn comparison(
    name: &'static str,
    call: &'static str,
    summary: &'static str,
    formula: fn(E, E) -> E,
    outcome: [f64; 4],
) -> OpForm {
    Binary {
        name,
        summary,
        types: TypeRule::Compare,
        formula,
        grad: Grad::None { why: "a truth value has no derivative" },
        check: GradCheck::None { why: "the result is a truth value" },
        examples: vec![Example {
            title: "smaller, equal, larger and NaN",
            call,
            inputs: vec![("f32[4]", vec![1.0, 2.0, 3.0, f64::NAN]), ("f32[]", vec![2.0])],
            outputs: vec![("bool[4]", outcome.to_vec())],
        }],
    }
    .form("elementwise")
}
