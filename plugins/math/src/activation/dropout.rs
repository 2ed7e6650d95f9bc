//! `dropout`.

use engine_core::ir::{Attrs, Builder, DType, E, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue};

/// x·m/(1 - p), with m a random mask that is 0 with probability p, drawn anew in every step (Srivastava et al. 2014).
/// Outside training it passes x through. The gradient is g·m/(1 - p) with the same mask, which is drawn again instead
/// of stored.
pub fn dropout() -> OpForm {
    OpForm::new("dropout", "Replaces random elements by zero and scales up the others.")
        .follows_operands()
        .input("x", "any shape")
        .attr(AttrSpec::float("p", "the probability of a zero", 0.5))
        .attr(AttrSpec::mode("train", "whether to drop anything; by default in training stages alone"))
        .types(|inputs, attrs| {
            inputs[0].expect_dtype("dropout", 0, DType::is_float, "floats")?;
            check_probability(attrs)?;
            Ok(inputs.to_vec())
        })
        .expand(|b, call| vec![dropped(b, call)])
        .example(
            "nothing is dropped outside training",
            "dropout(a, train=false)",
            &[("f32[3]", &[1.0, -2.0, 3.0])],
            &[("f32[3]", &[1.0, -2.0, 3.0])],
        )
        .example(
            "everything is dropped with certainty",
            "dropout(a, p=1.0)",
            &[("f32[3]", &[1.0, -2.0, 3.0])],
            &[("f32[3]", &[0.0, 0.0, 0.0])],
        )
}

fn check_probability(attrs: &Attrs) -> Result<(), TypeIssue> {
    match attrs.float("p") {
        0.0..=1.0 => Ok(()),
        p => Err(TypeIssue::new(format!("`dropout` with probability {p}")).help("`p` lies between 0 and 1")),
    }
}

fn dropped(b: &mut Builder, call: &Lowering) -> Value {
    let (x, p) = (call.inputs[0], call.attrs.float("p"));
    if !call.attrs.trains("train") || p == 0.0 {
        return x;
    }
    let extents = b.extents(x);
    let uniform = b.random_uniform("mask", &extents);
    let scale = if p < 1.0 { (1.0 - p).recip() } else { 0.0 };
    // A product with zero rather than zero, so that NaN shows even where it is dropped.
    b.map(&[x, uniform], |v| E::select(v[1].ge(p), v[0] * scale, v[0] * 0.0))
}
