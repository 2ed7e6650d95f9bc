//! Scaling to unit length.

use crate::affine::{axis, row_type, spread};
use crate::length::{eps, lengths};
use engine_core::ir::{Builder, DType, Value};
use engine_core::op::{Lowering, OpForm, checked};

/// `x / (‖x‖ + ε)` along an axis, computed in f32 or wider; 0 stays 0. The second result is ‖x‖, of extent 1 along the
/// axis.
pub fn l2_normalize() -> OpForm {
    OpForm::new("l2_normalize", "Scales rows to length 1; their lengths are the second result.")
        .input("x", "rows along the axis")
        .results(&["y", "norm"])
        .attr(axis())
        .attr(eps())
        .types(|types, attrs| {
            types[0].expect_dtype("l2_normalize", 0, DType::is_float, "floats")?;
            Ok(vec![types[0].clone(), row_type(&types[0], attrs)?])
        })
        .expand(normalised)
        .example(
            "two rows",
            "l2_normalize(a)",
            &[("f32[2, 2]", &[3., -4., 0., 0.])],
            &[("f32[2, 2]", &[0.6, -0.8, 0., 0.]), ("f32[2, 1]", &[5., 0.])],
        )
        .example(
            "squares that f16 does not hold",
            "l2_normalize(a)",
            &[("f16[1, 2]", &[300., 400.])],
            &[("f16[1, 2]", &[0.6, 0.8]), ("f32[1, 1]", &[500.])],
        )
}

fn normalised(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let x = b.widen(call.inputs[0]);
    let axis = checked(b.ty(x).axis(call.attrs.int("axis")));
    let norm = lengths(b, x, axis);
    let eps = call.attrs.float("eps");
    let repeated = b.unreduce(norm, &[axis], x);
    let y = b.map(&[x, repeated], |v| v[0] / (v[1] + eps));
    vec![b.cast(y, b.dtype(call.inputs[0])), spread(b, norm, axis)]
}
