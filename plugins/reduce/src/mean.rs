//! The mean.

use crate::axes::{axes, keep, many_axes, operand, reduced};
use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, Lower, OpForm, Role, TypeRule};

/// `Σ x / n` over axes; NaN for an empty axis. Floats keep their type and accumulate in f32 or wider. Integers and
/// truth values are averaged as `f32`, so that `mean(a == b)` is an accuracy.
pub fn mean() -> OpForm {
    OpForm {
        name: "mean".into(),
        family: "reduce".into(),
        summary:
            "Averages along axes; integers and truth values are averaged as f32, the mean of nothing is NaN."
                .into(),
        inputs: operand(),
        outputs: vec!["y".into()],
        attrs: many_axes(),
        types: TypeRule::custom(|types, attrs| {
            let axes = types[0].axes(attrs)?;
            Ok(vec![reduced(&types[0], result_dtype(types[0].dtype), &axes, attrs.bool("keepdim"))])
        }),
        lower: Lower::expand(|b, call| {
            let axes = axes(b, call.inputs[0], call.attrs);
            let dtype = result_dtype(b.dtype(call.inputs[0]));
            let x = b.cast(call.inputs[0], dtype.accumulator());
            let y = b.mean(x, &axes);
            let y = b.cast(y, dtype);
            vec![keep(b, y, x, &axes, call.attrs.bool("keepdim"))]
        }),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example::new(
                "along columns",
                "mean(a, axis=0)",
                &[("f32[2, 2]", &[1., 2., 3., 5.])],
                &[("f32[2]", &[2., 3.5])],
            ),
            Example::new(
                "the share of true elements",
                "mean(a)",
                &[("bool[4]", &[1., 0., 1., 1.])],
                &[("f32[]", &[0.75])],
            ),
            Example::new("of nothing", "mean(a)", &[("f32[0]", &[])], &[("f32[]", &[f64::NAN])]),
        ],
        role: Role::Plain,
    }
}

fn result_dtype(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}
