//! `elu` and `celu`.

use engine_core::ir::{DType, E};
use engine_core::op::{AttrSpec, OpForm, TypeIssue};

/// x for x > 0, else α·(eˣ - 1) (Clevert et al. 2015). The gradient below 0 is g·α·eˣ.
pub fn elu() -> OpForm {
    OpForm::new("elu", "Bends negative elements exponentially towards a bound.")
        .input("x", "any shape")
        .attr(AttrSpec::float("alpha", "minus the bound", 1.0))
        .takes(DType::is_float)
        .map(|x, attrs| bent(x[0], attrs.float("alpha"), 1.0))
        .avoiding(&[0.0])
        .example(
            "bounded by -2",
            "elu(a, alpha=2.0)",
            &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
            &[("f32[5]", &[-2.0, -1.5537396797031404, 0.0, 2.0, 100.0])],
        )
}

/// x for x > 0, else α·(e^(x/α) - 1): its slope is continuous for every α (Barron 2017). The gradient below 0 is
/// g·e^(x/α).
pub fn celu() -> OpForm {
    OpForm::new("celu", "Bends negative elements exponentially towards a bound, smoothly at zero.")
        .input("x", "any shape")
        .attr(AttrSpec::float("alpha", "minus the bound; not 0", 1.0))
        .types(|inputs, attrs| {
            inputs[0].expect_dtype("celu", 0, DType::is_float, "floats")?;
            match attrs.float("alpha") {
                0.0 => Err(TypeIssue::new("`celu` divides by `alpha`, which is 0").help("choose another")),
                _ => Ok(inputs.to_vec()),
            }
        })
        .map(|x, attrs| bent(x[0], attrs.float("alpha"), attrs.float("alpha")))
        .avoiding(&[0.0])
        .example(
            "bounded by -2",
            "celu(a, alpha=2.0)",
            &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
            &[("f32[5]", &[-2.0, -1.0552668945179706, 0.0, 2.0, 100.0])],
        )
}

/// x for x > 0, else `bound`·(e^(x/`width`) - 1). The unselected side is clamped before the exponential, since an
/// overflow there would make the derivative NaN.
fn bent(x: E, bound: f64, width: f64) -> E {
    E::select(x.gt(0.0), x, (x.min(0.0) / width).expm1() * bound)
}
