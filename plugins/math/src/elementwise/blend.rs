//! Blends of three tensors.

use crate::takes;
use engine_core::ir::{DType, E};
use engine_core::op::{AttrSpec, OpForm};

/// `x + value · a · b`: the moment updates of optimizers.
pub fn addcmul() -> OpForm {
    OpForm::new("addcmul", "Adds a multiple of a product.")
        .input("x", "the base")
        .input("a", "the first factor; it broadcasts with the others")
        .input("b", "the second factor; it broadcasts with the others")
        .attr(AttrSpec::element("value", "the factor of the product", 1.0))
        .takes(takes::numbers)
        .map(|x, attrs| x[0] + x[1] * x[2] * E::lit(attrs.literal("value")))
        .example(
            "twice the product",
            "addcmul(a, b, c, value=2.0)",
            &[("f32[2]", &[1.0, 1.0]), ("f32[2]", &[3.0, -3.0]), ("f32[]", &[0.5])],
            &[("f32[2]", &[4.0, -2.0])],
        )
}

/// `x + value · a / b`: the parameter update of optimizers.
pub fn addcdiv() -> OpForm {
    OpForm::new("addcdiv", "Adds a multiple of a quotient.")
        .input("x", "the base")
        .input("a", "the dividend; it broadcasts with the others")
        .input("b", "the divisor; it broadcasts with the others")
        .attr(AttrSpec::element("value", "the factor of the quotient", 1.0))
        .takes(DType::is_float)
        .map(|x, attrs| x[0] + x[1] / x[2] * E::lit(attrs.literal("value")))
        .tested_on(0.5, 2.0)
        .example(
            "twice the quotient",
            "addcdiv(a, b, c, value=2.0)",
            &[("f32[2]", &[1.0, 1.0]), ("f32[2]", &[3.0, -3.0]), ("f32[]", &[0.5])],
            &[("f32[2]", &[13.0, -11.0])],
        )
}

/// `a + w·(b - a)` for w < ½, else `b - (b - a)·(1 - w)`: exact at both ends. The gradients are (1 - w)·g, w·g and
/// g·(b - a).
pub fn lerp() -> OpForm {
    OpForm::new("lerp", "Interpolates linearly between two tensors.")
        .input("a", "where the weight is 0")
        .input("b", "where the weight is 1; it broadcasts with the others")
        .input("weight", "a number or a tensor; it broadcasts with the others")
        .takes(DType::is_float)
        .map(|x, _| {
            let [a, b, w] = [x[0], x[1], x[2]];
            E::select(w.lt(0.5), a + w * (b - a), b - (b - a) * (1.0 - w))
        })
        .avoiding(&[0.5])
        .example(
            "at the ends, between and beyond",
            "lerp(a, b, c)",
            &[("f32[]", &[2.0]), ("f32[]", &[4.0]), ("f32[4]", &[0.0, 0.25, 1.0, 1.5])],
            &[("f32[4]", &[2.0, 2.5, 4.0, 5.0])],
        )
}
