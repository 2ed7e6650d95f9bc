//! Comparisons: `eq`, `ne`, `lt`, `le`, `gt`, `ge`.

use crate::takes;
use engine_core::ir::E;
use engine_core::op::{OpForm, TypeRule};

/// The six comparisons. All except `ne` are false where an operand is NaN.
pub fn comparisons() -> Vec<OpForm> {
    vec![
        comparison("eq(a, b)", "Tells where two tensors are equal.", |a, b| a.eq(b), [0., 1., 0., 0.]),
        comparison("ne(a, b)", "Tells where two tensors differ.", |a, b| a.ne(b), [1., 0., 1., 1.]),
        comparison("lt(a, b)", "Tells where the first tensor is smaller.", |a, b| a.lt(b), [1., 0., 0., 0.]),
        comparison(
            "le(a, b)",
            "Tells where the first tensor is not larger.",
            |a, b| a.le(b),
            [1., 1., 0., 0.],
        ),
        comparison("gt(a, b)", "Tells where the first tensor is larger.", |a, b| a.gt(b), [0., 0., 1., 0.]),
        comparison(
            "ge(a, b)",
            "Tells where the first tensor is not smaller.",
            |a, b| a.ge(b),
            [0., 1., 1., 0.],
        ),
    ]
}

/// The op of a `call`. `outcome` holds its results for 1 with 2, 2 with 2, 3 with 2 and NaN with 2.
fn comparison(call: &'static str, summary: &str, formula: fn(E, E) -> E, outcome: [f64; 4]) -> OpForm {
    OpForm::binary(&call[..2], summary, takes::anything, formula)
        .type_rule(TypeRule::Compare)
        .no_grad("a truth value has no derivative")
        .example(
            "smaller, equal, larger and NaN",
            call,
            &[("f32[4]", &[1., 2., 3., f64::NAN]), ("f32[]", &[2.])],
            &[("bool[4]", &outcome)],
        )
}
