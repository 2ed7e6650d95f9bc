//! The Euclidean norm of rows.

use crate::axes::{axis, last_axis, reduced};
use engine_core::ir::{Builder, DType, E, Unary, Value};
use engine_core::op::{Grad, GradCall, OpForm};

/// `√Σ x²` along an axis, accumulated in f32 or wider. The gradient is `g·x / ‖x‖`, and 0 where the norm is 0.
pub fn rowwise_l2_norm() -> OpForm {
    OpForm::new("rowwise_l2_norm", "Computes the Euclidean norm along an axis.")
        .input("x", "the operand")
        .attr(last_axis("axis along which a norm is taken"))
        .types(|types, attrs| {
            types[0].expect_dtype("rowwise_l2_norm", 0, DType::is_float, "floats")?;
            let axis = types[0].axis(attrs.int("axis"))?;
            Ok(vec![reduced(&types[0], types[0].dtype, &[axis], false)])
        })
        .expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let axis = axis(b, x, call.attrs.int("axis"));
            let squares = b.mul(x, x);
            let total = b.sum(squares, &[axis]);
            let norm = b.unary(Unary::Sqrt, total);
            vec![b.cast(norm, b.dtype(call.inputs[0]))]
        })
        .grad(Grad::rule(along_the_row))
        .example(
            "of two rows",
            "rowwise_l2_norm(a)",
            &[("f32[2, 2]", &[3., -4., 0., 0.])],
            &[("f32[2]", &[5., 0.])],
        )
}

fn along_the_row(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let x = call.inputs[0];
    let axis = axis(b, x, call.attrs.int("axis"));
    let [g, norm] = [g, call.outputs[0]].map(|y| b.unreduce(y, &[axis], x));
    vec![Some(b.map(&[x, norm, g], |v| E::select(v[1].eq(0.0), 0.0, v[2] * v[0] / v[1])))]
}
