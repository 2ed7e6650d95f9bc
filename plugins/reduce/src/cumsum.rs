//! Running sums.

use crate::axes::{axis, is_number, last_axis};
use engine_core::ir::{Monoid, NodeOp};
use engine_core::op::OpForm;

/// `y[i] = x[0] + … + x[i]` along an axis; floats accumulate in f32 or wider, integers in their own type.
pub fn cumsum() -> OpForm {
    OpForm::new("cumsum", "Adds up along an axis and keeps every intermediate sum.")
        .input("x", "the summands")
        .attr(last_axis("axis along which sums run"))
        .types(|types, attrs| {
            types[0].expect_dtype("cumsum", 0, is_number, "numbers")?;
            types[0].axis(attrs.int("axis"))?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let axis = axis(b, x, call.attrs.int("axis"));
            let ty = b.ty(x).clone();
            let y = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis }, vec![x], ty);
            vec![b.cast(y, b.dtype(call.inputs[0]))]
        })
        .example(
            "along rows",
            "cumsum(a)",
            &[("f32[2, 3]", &[1., 2., 3., -1., 0.5, 4.])],
            &[("f32[2, 3]", &[1., 3., 6., -1., -0.5, 3.5])],
        )
}
