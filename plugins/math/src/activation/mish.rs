//! `mish`.

use super::softplus;
use engine_core::ir::DType;
use engine_core::op::OpForm;

/// x·tanh(softplus x).
pub fn mish() -> OpForm {
    OpForm::unary(
        "mish",
        "Multiplies each element by the hyperbolic tangent of its softplus.",
        DType::is_float,
        |x| {
            let (left, inner) = super::reach::within_reach(x);
            left * softplus::curve(inner).tanh()
        },
    )
    .example(
        "of both signs",
        "mish(a)",
        &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
        &[("f32[5]", &[-3.7200759760208363e-42, -0.29809974216680674, 0.0, 1.9439589595339946, 100.0])],
    )
}
