//! `sort` and `argsort`.

use crate::axis::{along_axis, axis_attr, called, operand};
use crate::sort_rows;
use engine_core::ir::{Attr, Attrs, Builder, Type, Value};
use engine_core::op::{
    AttrSpec, Example, Grad, GradCheck, Lower, Lowering, OpForm, Role, Rounding, TypeIssue, TypeRule,
};

/// A stable sort along an axis: the values in order and their former indices.
pub fn sort() -> OpForm {
    OpForm {
        name: "sort".into(),
        family: "order".into(),
        summary: "Sorts along an axis, stably, and returns the former index of each element.".into(),
        inputs: operand(),
        outputs: vec!["values".into(), "indices".into()],
        attrs: attrs(),
        types: TypeRule::custom(|inputs, attrs| types("sort", &inputs[0], attrs)),
        lower: Lower::expand(sorted),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example::new(
                "along the last axis; NaN is last",
                "sort(a)",
                &[("f32[4]", &[2.0, f64::NAN, -1.0, 2.0])],
                &[("f32[4]", &[-1.0, 2.0, 2.0, f64::NAN]), ("i32[4]", &[2.0, 0.0, 3.0, 1.0])],
            ),
            Example::new(
                "along columns",
                "sort(a, axis=0, descending=true)",
                &[("f32[2, 3]", &[1.0, 5.0, 3.0, 4.0, 2.0, 3.0])],
                &[
                    ("f32[2, 3]", &[4.0, 5.0, 3.0, 1.0, 2.0, 3.0]),
                    ("i32[2, 3]", &[1.0, 0.0, 0.0, 0.0, 1.0, 1.0]),
                ],
            ),
        ],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

/// The indices that sort along an axis.
pub fn argsort() -> OpForm {
    OpForm {
        name: "argsort".into(),
        family: "order".into(),
        summary: "Returns the indices of a stable sort along an axis.".into(),
        inputs: operand(),
        outputs: vec!["indices".into()],
        attrs: attrs(),
        types: TypeRule::custom(|inputs, attrs| Ok(types("argsort", &inputs[0], attrs)?.split_off(1))),
        lower: Lower::expand(|b, call| sorted(b, call).split_off(1)),
        grad: Grad::None { why: "an order is piecewise constant" },
        check: GradCheck::None { why: "there is no gradient" },
        examples: vec![Example::new(
            "of integers",
            "argsort(a)",
            &[("i32[4]", &[3.0, -1.0, 3.0, 0.0])],
            &[("i32[4]", &[1.0, 3.0, 0.0, 2.0])],
        )],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

fn attrs() -> Vec<AttrSpec> {
    [axis_attr()].into_iter().chain(sort_rows::attrs()).collect()
}

fn types(op: &str, x: &Type, attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let types = sort_rows::types(op, x)?;
    x.axis(attrs.int("axis"))?;
    Ok(types)
}

fn sorted(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let descending = Attrs::default().with("descending", Attr::from(call.attrs.bool("descending")));
    along_axis(b, call.inputs[0], call.attrs.int("axis"), |b, x| called(b, "sort_rows", &[x], descending))
}
