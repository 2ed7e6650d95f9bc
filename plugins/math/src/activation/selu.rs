//! `selu`.

use engine_core::ir::{DType, E};
use engine_core::op::OpForm;

const SCALE: f64 = 1.0507009873554805;
const ALPHA: f64 = 1.6732632423543772;

/// λ·x for x > 0, else λ·α·(eˣ - 1), with the constants that keep mean 0 and variance 1 (Klambauer et al. 2017).
pub fn selu() -> OpForm {
    OpForm::unary(
        "selu",
        "Scales exponential linear units so that activations normalise themselves.",
        DType::is_float,
        |x| SCALE * E::select(x.gt(0.0), x, ALPHA * x.min(0.0).expm1()),
    )
    .avoiding(&[0.0])
    .example(
        "of both signs",
        "selu(a)",
        &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
        &[(
            "f32[5]",
            &[-1.7580993408473766, -1.3658143533672527, 0.0, 2.101401974710961, 105.07009873554804],
        )],
    )
}
