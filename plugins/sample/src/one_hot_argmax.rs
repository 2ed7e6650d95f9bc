//! A hard choice with a soft gradient.

use engine_core::ir::{Builder, DType, E, Monoid, Value};
use engine_core::op::{AttrSpec, Grad, GradCheck, OpForm, checked};

/// Exactly 1 at the largest element along an axis (the first one of several) and 0 elsewhere. The gradient passes
/// through unchanged, as if the operand itself were the result: a straight-through estimator (Bengio et al. 2013).
pub fn one_hot_argmax() -> OpForm {
    OpForm::new(
        "one_hot_argmax",
        "Marks the largest element along an axis by 1; the gradient passes straight through.",
    )
    .input("x", "weights")
    .attr(AttrSpec::int("axis", "axis with one 1", -1))
    .types(|types, attrs| {
        types[0].expect_dtype("one_hot_argmax", 0, DType::is_float, "floats")?;
        types[0].axis(attrs.int("axis"))?;
        Ok(vec![types[0].clone()])
    })
    .expand(|b, call| {
        let axis = checked(b.ty(call.inputs[0]).axis(call.attrs.int("axis")));
        vec![hard(b, call.inputs[0], axis)]
    })
    .grad(Grad::rule(|_, call| vec![call.grads[0]]))
    .check(GradCheck::Convention {
        why: "straight-through: the gradient of the operand is that of the result",
        grads: vec![vec![vec![1., 2., 3., 4., 5., 6.]]],
    })
    .example(
        "a tie goes to the first",
        "one_hot_argmax(a)",
        &[("f32[2, 3]", &[0.2, 0.5, 0.3, 0.4, 0.2, 0.4])],
        &[("f32[2, 3]", &[0., 1., 0., 1., 0., 0.])],
    )
}

fn hard(b: &mut Builder, x: Value, axis: usize) -> Value {
    if b.ty(x).numel() == 0 {
        return x;
    }
    let index = b.reduce(Monoid::ArgMax, x, &[axis]);
    let index = b.unreduce(index, &[axis], x);
    let position = b.iota(axis, b.ty(x).with_dtype(DType::I32));
    let hit = b.map(&[position, index], |v: &[E]| v[0].eq(v[1]));
    b.cast(hit, b.dtype(x))
}
