//! `isnan`.

use engine_core::ir::DType;
use engine_core::op::OpForm;

/// True where x is NaN, like `x != x`.
pub fn isnan() -> OpForm {
    OpForm::new("isnan", "Marks the elements that are NaN.")
        .input("x", "floats of any shape")
        .types(|inputs, _| {
            inputs[0].expect_dtype("isnan", 0, DType::is_float, "floats")?;
            Ok(vec![inputs[0].with_dtype(DType::Bool)])
        })
        .map(|x, _| x[0].is_nan())
        .no_grad("a truth value has no derivative")
        .example(
            "infinities are numbers",
            "isnan(a)",
            &[("f32[3]", &[1.0, f64::NAN, f64::INFINITY])],
            &[("bool[3]", &[0.0, 1.0, 0.0])],
        )
}
