//! The Euclidean norm of rows.

use crate::axes::{axis, last_axis, operand, reduced};
use engine_core::ir::{Builder, DType, E, Unary, Value};
use engine_core::op::{Example, Grad, GradCall, GradCheck, Lower, OpForm, Role, TypeRule};

/// `√Σ x²` along an axis, accumulated in f32 or wider. The gradient is `g·x / ‖x‖`, and 0 where the norm is 0.
pub fn rowwise_l2_norm() -> OpForm {
    OpForm {
        name: "rowwise_l2_norm".into(),
        family: "reduce".into(),
        summary: "Computes the Euclidean norm along an axis.".into(),
        inputs: operand(),
        outputs: vec!["y".into()],
        attrs: vec![last_axis("axis along which a norm is taken")],
        types: TypeRule::custom(|types, attrs| {
            types[0].expect_dtype("rowwise_l2_norm", 0, DType::is_float, "floats")?;
            let axis = types[0].axis(attrs.int("axis"))?;
            Ok(vec![reduced(&types[0], types[0].dtype, &[axis], false)])
        }),
        lower: Lower::expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let axis = axis(b, x, call.attrs.int("axis"));
            let squares = b.mul(x, x);
            let total = b.sum(squares, &[axis]);
            let norm = b.unary(Unary::Sqrt, total);
            vec![b.cast(norm, b.dtype(call.inputs[0]))]
        }),
        grad: Grad::rule(along_the_row),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example::new(
            "of two rows",
            "rowwise_l2_norm(a)",
            &[("f32[2, 2]", &[3., -4., 0., 0.])],
            &[("f32[2]", &[5., 0.])],
        )],
        role: Role::Plain,
    }
}

fn along_the_row(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let x = call.inputs[0];
    let axis = axis(b, x, call.attrs.int("axis"));
    let [g, norm] = [g, call.outputs[0]].map(|y| b.unreduce(y, &[axis], x));
    vec![Some(b.map(&[x, norm, g], |v| E::select(v[1].eq(0.0), 0.0, v[2] * v[0] / v[1])))]
}
