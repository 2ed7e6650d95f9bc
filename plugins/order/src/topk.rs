//! `topk`.

use crate::axis::{along_axis, axis_attr, called, expect_rows, operand};
use crate::topk_rows;
use engine_core::ir::{Attrs, Builder, Value};
use engine_core::op::{Example, Grad, GradCheck, Lower, Lowering, OpForm, Role, Rounding, TypeRule};

/// The first k along an axis, in order: values and indices.
pub fn topk() -> OpForm {
    OpForm {
        name: "topk".into(),
        family: "order".into(),
        summary: "Takes the k largest or smallest elements along an axis, in order.".into(),
        inputs: operand(),
        outputs: vec!["values".into(), "indices".into()],
        attrs: [axis_attr()].into_iter().chain(topk_rows::attrs()).collect(),
        types: TypeRule::custom(|inputs, attrs| {
            expect_rows("topk", &inputs[0])?;
            topk_rows::types("topk", &inputs[0], inputs[0].axis(attrs.int("axis"))?, attrs)
        }),
        lower: Lower::expand(expansion),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example::new(
                "the two largest",
                "topk(a, k=2)",
                &[("f32[5]", &[1.0, 4.0, -2.0, 4.0, 3.0])],
                &[("f32[2]", &[4.0, 4.0]), ("i32[2]", &[1.0, 3.0])],
            ),
            Example::new(
                "the smallest of each column",
                "topk(a, k=1, axis=0, largest=false)",
                &[("i32[2, 3]", &[1.0, 5.0, 3.0, 4.0, 2.0, 3.0])],
                &[("i32[1, 3]", &[1.0, 2.0, 3.0]), ("i32[1, 3]", &[0.0, 1.0, 0.0])],
            ),
        ],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let mut attrs: Attrs = call.attrs.clone();
    attrs.0.remove("axis");
    along_axis(b, call.inputs[0], call.attrs.int("axis"), |b, x| called(b, "topk_rows", &[x], attrs))
}
