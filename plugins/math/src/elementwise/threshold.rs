//! `threshold` and `threshold_backward`.

use crate::takes;
use engine_core::ir::{DType, E};
use engine_core::op::{AttrSpec, OpForm};

/// `x` where x > threshold, else `value`; NaN stays NaN. The gradient is g where x > threshold, else 0.
pub fn threshold() -> OpForm {
    OpForm::new("threshold", "Replaces elements that are not above a threshold.")
        .input("x", "any shape")
        .attr(AttrSpec::element("threshold", "the threshold; elements above it stay", 0.0))
        .attr(AttrSpec::element("value", "the replacement of all others", 0.0))
        .takes(takes::numbers)
        .map(|x, attrs| E::select(x[0].le(attrs.literal("threshold")), attrs.literal("value"), x[0]))
        .avoiding(&[0.0, 1.0])
        .example(
            "the threshold itself is replaced",
            "threshold(a, threshold=1.0, value=-5.0)",
            &[("f32[4]", &[0.5, 1.0, 1.5, f64::NAN])],
            &[("f32[4]", &[-5.0, -5.0, 1.5, f64::NAN])],
        )
}

/// `grad` where x > threshold, else 0: the gradient of `threshold`, and with 0 that of `relu`, as an op.
pub fn threshold_backward() -> OpForm {
    OpForm::new("threshold_backward", "Lets a gradient pass where an operand is above a threshold.")
        .input("grad", "the upstream gradient")
        .input("x", "the compared operand; it broadcasts with `grad`")
        .attr(AttrSpec::element("threshold", "the threshold, which elements must exceed", 0.0))
        .takes(DType::is_float)
        .map(|x, attrs| E::select(x[1].gt(attrs.literal("threshold")), x[0], 0.0))
        .avoiding(&[0.0])
        .example(
            "nothing passes at the threshold",
            "threshold_backward(a, b)",
            &[("f32[3]", &[10.0, 20.0, 30.0]), ("f32[3]", &[-1.0, 0.0, 1.0])],
            &[("f32[3]", &[0.0, 0.0, 30.0])],
        )
}
