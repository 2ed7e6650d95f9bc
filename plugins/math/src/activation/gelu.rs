//! `gelu`.

use engine_core::ir::{Attrs, DType, E};
use engine_core::op::{AttrSpec, OpForm};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// x·Φ(x) with Φ the normal distribution function, ½·x·(1 + erf(x/√2)) (Hendrycks and Gimpel 2016); or, with
/// `approximate="tanh"`, ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))). The gradient of the former is g·(Φ + x·φ).
pub fn gelu() -> OpForm {
    OpForm::new("gelu", "Multiplies each element by its normal distribution function.")
        .input("x", "any shape")
        .attr(AttrSpec::choice(
            "approximate",
            "`tanh` replaces the error function by a hyperbolic tangent",
            &["none", "tanh"],
        ))
        .takes(DType::is_float)
        .map(|x, attrs| {
            let (left, inner) = super::reach::within_reach(x[0]);
            left * 0.5 * (1.0 + twice_phi_less_one(inner, attrs))
        })
        .example(
            "of both signs",
            "gelu(a)",
            &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
            &[("f32[5]", &[-0.0, -0.10021080190328704, 0.0, 1.9544997361036416, 100.0])],
        )
        .example(
            "by a hyperbolic tangent",
            "gelu(a, approximate='tanh')",
            &[("f32[5]", &[-100.0, -1.5, 0.0, 2.0, 100.0])],
            &[("f32[5]", &[-0.0, -0.10042842301976707, 0.0, 1.954597694087775, 100.0])],
        )
}

fn twice_phi_less_one(x: E, attrs: &Attrs) -> E {
    match attrs.str("approximate") {
        // √(2/π) = 2/√π · 1/√2
        "tanh" => ((x + x * x * x * 0.044715) * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2)).tanh(),
        _ => (x * FRAC_1_SQRT_2).erf(),
    }
}
