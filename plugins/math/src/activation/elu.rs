//! `elu` and `celu`.

use engine_core::ir::{DType, E};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeIssue, TypeRule,
};

/// x for x > 0, else α·(eˣ - 1) (Clevert et al. 2015). The gradient below 0 is g·α·eˣ.
pub fn elu() -> OpForm {
    OpForm {
        name: "elu".into(),
        family: "activation".into(),
        summary: "Bends negative elements exponentially towards a bound.".into(),
        inputs: vec![InputSpec::required("x", "any shape")],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::with_default("alpha", "minus the bound", AttrKind::Float, 1.0)],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower: Lower::map_with(1, |x, attrs| bent(x[0], attrs.float("alpha"), 1.0)),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example {
            title: "bounded by -2",
            call: "elu(a, alpha=2.0)",
            inputs: vec![("f32[5]", vec![-100.0, -1.5, 0.0, 2.0, 100.0])],
            outputs: vec![("f32[5]", vec![-2.0, -1.5537396797031404, 0.0, 2.0, 100.0])],
        }],
        role: Role::Plain,
    }
}

/// x for x > 0, else α·(e^(x/α) - 1): its slope is continuous for every α (Barron 2017). The gradient below 0 is
/// g·e^(x/α).
pub fn celu() -> OpForm {
    OpForm {
        name: "celu".into(),
        family: "activation".into(),
        summary: "Bends negative elements exponentially towards a bound, smoothly at zero.".into(),
        inputs: vec![InputSpec::required("x", "any shape")],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::with_default("alpha", "minus the bound; not 0", AttrKind::Float, 1.0)],
        types: TypeRule::custom(|inputs, attrs| {
            inputs[0].expect_dtype("celu", 0, DType::is_float, "floats")?;
            match attrs.float("alpha") {
                0.0 => Err(TypeIssue::new("`celu` divides by `alpha`, which is 0").help("choose another")),
                _ => Ok(inputs.to_vec()),
            }
        }),
        lower: Lower::map_with(1, |x, attrs| bent(x[0], attrs.float("alpha"), attrs.float("alpha"))),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example {
            title: "bounded by -2",
            call: "celu(a, alpha=2.0)",
            inputs: vec![("f32[5]", vec![-100.0, -1.5, 0.0, 2.0, 100.0])],
            outputs: vec![("f32[5]", vec![-2.0, -1.0552668945179706, 0.0, 2.0, 100.0])],
        }],
        role: Role::Plain,
    }
}

/// x for x > 0, else `bound`·(e^(x/`width`) - 1). The unselected side is clamped before the exponential, since an
/// overflow there would make the derivative NaN.
fn bent(x: E, bound: f64, width: f64) -> E {
    E::select(x.gt(0.0), x, (x.min(0.0) / width).expm1() * bound)
}
