//! Layer normalisation.

use crate::affine::{affine, axis, expect_affine, per_element, row_type, spread};
use engine_core::ir::{Attrs, Builder, Value};
use engine_core::op::{AttrSpec, OpForm, checked};

/// `y = (x - mean) · r · γ + β` with `r = 1/√(var + ε)` along an axis, the variance of the population, computed in f32 or
/// wider (Ba et al. 2016). The other results are mean and r, of extent 1 along the axis.
pub fn layer_norm() -> OpForm {
    OpForm::new("layer_norm", "Shifts and scales rows to mean 0 and variance 1.")
        .input("x", "rows along the axis")
        .inputs(per_element())
        .results(&["y", "mean", "rstd"])
        .attr(axis())
        .attr(AttrSpec::float("eps", "added to the variance", 1e-5))
        .types(|types, attrs| {
            expect_affine("layer_norm", &types[0], &types[1..], attrs)?;
            let row = row_type(&types[0], attrs)?;
            Ok(vec![types[0].clone(), row.clone(), row])
        })
        .expand(|b, call| normalised(b, call.inputs[0], &call.inputs[1..], call.attrs))
        .example(
            "of one row",
            "layer_norm(a, eps=0.0)",
            &[("f32[1, 2]", &[3., 7.])],
            &[("f32[1, 2]", &[-1., 1.]), ("f32[1, 1]", &[5.]), ("f32[1, 1]", &[0.5])],
        )
        .example(
            "with weights and a bias",
            "layer_norm(a, b, c, eps=0.0)",
            &[("f32[1, 2]", &[3., 7.]), ("f32[2]", &[2., 3.]), ("f32[2]", &[0., 1.])],
            &[("f32[1, 2]", &[-2., 4.]), ("f32[1, 1]", &[5.]), ("f32[1, 1]", &[0.5])],
        )
}

fn normalised(b: &mut Builder, given: Value, weights: &[Value], attrs: &Attrs) -> Vec<Value> {
    let x = b.widen(given);
    let axis = checked(b.ty(x).axis(attrs.int("axis")));
    let mean = b.mean(x, &[axis]);
    let middle = b.unreduce(mean, &[axis], x);
    let centered = b.sub(x, middle);
    let squares = b.mul(centered, centered);
    let variance = b.mean(squares, &[axis]);
    let eps = attrs.float("eps");
    let rstd = b.map(&[variance], |v| (v[0] + eps).rsqrt());
    let scale = b.unreduce(rstd, &[axis], x);
    let y = b.mul(centered, scale);
    let y = affine(b, y, weights, axis);
    vec![b.cast(y, b.dtype(given)), spread(b, mean, axis), spread(b, rstd, axis)]
}
