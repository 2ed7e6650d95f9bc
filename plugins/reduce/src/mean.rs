//! The mean.

use crate::axes::{axes, keep, over_axes, reduced};
use engine_core::ir::DType;
use engine_core::op::OpForm;

/// `Σ x / n` over axes; NaN for an empty axis. Floats keep their type and accumulate in f32 or wider. Integers and
/// truth values are averaged as `f32`, so that `mean(a == b)` is an accuracy.
pub fn mean() -> OpForm {
    over_axes(
        "mean",
        "Averages along axes; integers and truth values are averaged as f32, the mean of nothing is NaN.",
    )
    .types(|types, attrs| {
        let axes = types[0].axes(attrs)?;
        Ok(vec![reduced(&types[0], result_dtype(types[0].dtype), &axes, attrs.bool("keepdim"))])
    })
    .expand(|b, call| {
        let axes = axes(b, call.inputs[0], call.attrs);
        let dtype = result_dtype(b.dtype(call.inputs[0]));
        let x = b.cast(call.inputs[0], dtype.accumulator());
        let y = b.mean(x, &axes);
        let y = b.cast(y, dtype);
        vec![keep(b, y, x, &axes, call.attrs.bool("keepdim"))]
    })
    .example(
        "along columns",
        "mean(a, axis=0)",
        &[("f32[2, 2]", &[1., 2., 3., 5.])],
        &[("f32[2]", &[2., 3.5])],
    )
    .example(
        "the share of true elements",
        "mean(a)",
        &[("bool[4]", &[1., 0., 1., 1.])],
        &[("f32[]", &[0.75])],
    )
    .example("of nothing", "mean(a)", &[("f32[0]", &[])], &[("f32[]", &[f64::NAN])])
}

fn result_dtype(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}
