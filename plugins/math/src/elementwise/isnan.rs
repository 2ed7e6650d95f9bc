//! `isnan`, `isinf`, `isfinite`, and `nan_to_num`.

use engine_core::ir::{Body, DType, E};
use engine_core::op::{AttrKind, AttrSpec, Lower, OpForm};
use std::sync::Arc;

/// True where x is NaN, like `x != x`.
pub fn isnan() -> OpForm {
    kind("isnan", "Marks the elements that are NaN.", |x| x.is_nan()).example(
        "infinities are numbers",
        "isnan(a)",
        &[("f32[3]", &[1.0, f64::NAN, f64::INFINITY])],
        &[("bool[3]", &[0.0, 1.0, 0.0])],
    )
}

/// True where x is infinite, of either sign.
pub fn isinf() -> OpForm {
    kind("isinf", "Marks the elements that are infinite.", |x| x.abs().eq(f64::INFINITY)).example(
        "of both signs",
        "isinf(a)",
        &[("f32[4]", &[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])],
        &[("bool[4]", &[0.0, 0.0, 1.0, 1.0])],
    )
}

/// True where x is neither infinite nor NaN.
pub fn isfinite() -> OpForm {
    kind("isfinite", "Marks the elements that are neither infinite nor NaN.", |x| x.abs().lt(f64::INFINITY))
        .example(
            "infinities and NaN are not",
            "isfinite(a)",
            &[("f32[4]", &[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])],
            &[("bool[4]", &[1.0, 0.0, 0.0, 0.0])],
        )
}

/// A truth value of each element.
fn kind(name: &'static str, summary: &str, formula: fn(E) -> E) -> OpForm {
    OpForm::new(name, summary)
        .input("x", "floats of any shape")
        .types(move |inputs, _| {
            inputs[0].expect_dtype(name, 0, DType::is_float, "floats")?;
            Ok(vec![inputs[0].with_dtype(DType::Bool)])
        })
        .lower(Lower::Map(Arc::new(move |_| Body::new(1, |x| vec![formula(x[0])]))))
        .no_grad("a truth value has no derivative")
}

/// `nan` where x is NaN, `posinf` and `neginf` where it is infinite; by default, 0 and the largest finite numbers of the type.
/// All other elements stay. The gradient is g where x is finite, else 0.
pub fn nan_to_num() -> OpForm {
    OpForm::new("nan_to_num", "Replaces NaN and infinities by numbers.")
        .input("x", "floats of any shape")
        .attr(AttrSpec::element("nan", "the replacement of NaN", 0.0))
        .attr(AttrSpec::open("posinf", "that of ∞; none for the largest number", AttrKind::Element))
        .attr(AttrSpec::open("neginf", "that of -∞; none for the least number", AttrKind::Element))
        .takes(DType::is_float)
        .expand(|b, call| {
            let largest = b.dtype(call.inputs[0]).largest();
            let number = |name| call.attrs.opt_float(name);
            let (high, low) = (number("posinf").unwrap_or(largest), number("neginf").unwrap_or(-largest));
            let nan = call.attrs.float("nan");
            vec![b.map(&[call.inputs[0]], |x| {
                let x = x[0];
                let bounded =
                    E::select(x.eq(f64::NEG_INFINITY), low, E::select(x.eq(f64::INFINITY), high, x));
                E::select(x.is_nan(), nan, bounded)
            })]
        })
        .example(
            "to given numbers",
            "nan_to_num(a, nan=7.0, posinf=2.0, neginf=-1.0)",
            &[("f32[4]", &[1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])],
            &[("f32[4]", &[1.5, 7.0, 2.0, -1.0])],
        )
        .example(
            "to the ends of the type",
            "nan_to_num(a)",
            &[("f16[4]", &[1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])],
            &[("f16[4]", &[1.5, 0.0, 65504.0, -65504.0])],
        )
}
