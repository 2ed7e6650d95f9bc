//! `copy`.

use crate::takes;
use engine_core::op::OpForm;

/// The elements unchanged. The gradient is g.
pub fn copy() -> OpForm {
    OpForm::unary("copy", "Passes its operand through.", takes::anything, |x| x).example(
        "NaN and infinities too",
        "copy(a)",
        &[("f32[3]", &[1.5, f64::NAN, f64::NEG_INFINITY])],
        &[("f32[3]", &[1.5, f64::NAN, f64::NEG_INFINITY])],
    )
}
