//! Root-mean-square normalisation.

use crate::affine::{affine, axis, expect_affine, per_element, row_type, spread};
use engine_core::ir::{Attrs, Builder, Type, Value};
use engine_core::op::{AttrSpec, OpForm, TypeIssue, checked};

/// `y = x · r · γ + β` with `r = 1/√(mean(x²) + ε)` along an axis, computed in f32 or wider (Zhang and Sennrich 2019). The
/// second result is r, of extent 1 along the axis.
pub fn rms_norm() -> OpForm {
    OpForm::new("rms_norm", "Scales rows to a mean square of 1.")
        .input("x", "rows along the axis")
        .inputs(per_element())
        .results(&["y", "inv_rms"])
        .attr(axis())
        .attr(eps())
        .types(|types, attrs| {
            expect_affine("rms_norm", &types[0], &types[1..], attrs)?;
            Ok(vec![types[0].clone(), row_type(&types[0], attrs)?])
        })
        .expand(|b, call| {
            let [y, inv_rms] = normalised(b, call.inputs[0], &call.inputs[1..], call.attrs);
            vec![y, inv_rms]
        })
        .example(
            "of a row whose mean square is 1 already",
            "rms_norm(a, eps=0.0)",
            &[("f32[1, 2]", &[0.6, 1.2806249])],
            &[("f32[1, 2]", &[0.6, 1.2806249]), ("f32[1, 1]", &[1.])],
        )
        .example(
            "with weights and a bias",
            "rms_norm(a, b, c, eps=0.0)",
            &[("f32[1, 2]", &[3., -4.]), ("f32[2]", &[1., 2.]), ("f32[2]", &[0., 1.])],
            &[("f32[1, 2]", &[0.84852814, -1.2627417]), ("f32[1, 1]", &[0.28284271])],
        )
}

/// [`rms_norm`] of `x + residual`, together with that sum, which a network uses further.
pub fn residual_rms_norm() -> OpForm {
    OpForm::new(
        "residual_rms_norm",
        "Adds a residual and scales rows to a mean square of 1; the sum is the second result.",
    )
    .input("x", "rows along the axis")
    .input("residual", "the first summand, of the same type")
    .inputs(per_element())
    .results(&["y", "sum"])
    .attr(axis())
    .attr(eps())
    .types(|types, attrs| {
        expect_same(&types[0], &types[1])?;
        expect_affine("residual_rms_norm", &types[0], &types[2..], attrs)?;
        Ok(vec![types[0].clone(); 2])
    })
    .expand(|b, call| {
        let sum = b.map(&call.inputs[..2], |v| v[0] + v[1]);
        let [y, _] = normalised(b, sum, &call.inputs[2..], call.attrs);
        vec![y, sum]
    })
    .example(
        "with weights",
        "residual_rms_norm(a, b, c, eps=0.0)",
        &[("f32[1, 2]", &[1., -5.]), ("f32[1, 2]", &[2., 1.]), ("f32[2]", &[1., 2.])],
        &[("f32[1, 2]", &[0.84852814, -2.2627417]), ("f32[1, 2]", &[3., -4.])],
    )
}

fn eps() -> AttrSpec {
    AttrSpec::float("eps", "added to the mean square", 1e-6)
}

fn expect_same(x: &Type, residual: &Type) -> Result<(), TypeIssue> {
    match x == residual {
        true => Ok(()),
        false => Err(TypeIssue::new(format!("`residual_rms_norm` of {x} and {residual}"))
            .at(1, format!("this is {residual}"))
            .help("both must be of one type")),
    }
}

fn normalised(b: &mut Builder, given: Value, weights: &[Value], attrs: &Attrs) -> [Value; 2] {
    let x = b.widen(given);
    let axis = checked(b.ty(x).axis(attrs.int("axis")));
    let squares = b.mul(x, x);
    let mean = b.mean(squares, &[axis]);
    let eps = attrs.float("eps");
    let inv_rms = b.map(&[mean], |m| (m[0] + eps).rsqrt());
    let scale = b.unreduce(inv_rms, &[axis], x);
    let y = b.mul(x, scale);
    let y = affine(b, y, weights, axis);
    [b.cast(y, b.dtype(given)), spread(b, inv_rms, axis)]
}
