//! `isnan`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule};

/// True where x is NaN, like `x != x`.
pub fn isnan() -> OpForm {
    OpForm {
        name: "isnan".into(),
        family: "elementwise".into(),
        summary: "Marks the elements that are NaN.".into(),
        inputs: vec![InputSpec::required("x", "floats of any shape")],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::custom(|inputs, _| {
            inputs[0].expect_dtype("isnan", 0, DType::is_float, "floats")?;
            Ok(vec![inputs[0].with_dtype(DType::Bool)])
        }),
        lower: Lower::map(1, |x| x[0].is_nan()),
        grad: Grad::None { why: "a truth value has no derivative" },
        check: GradCheck::None { why: "the result is a truth value" },
        examples: vec![Example {
            title: "infinities are numbers",
            call: "isnan(a)",
            inputs: vec![("f32[3]", vec![1.0, f64::NAN, f64::INFINITY])],
            outputs: vec![("bool[3]", vec![0.0, 1.0, 0.0])],
        }],
        role: Role::Plain,
    }
}
