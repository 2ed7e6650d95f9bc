//! `softplus`.

use engine_core::ir::{DType, E};
use engine_core::op::{AttrSpec, OpForm};

/// ln(1 + e^(βx))/β, and x itself where βx exceeds the threshold. The gradient is g·σ(βx).
pub fn softplus() -> OpForm {
    OpForm::new("softplus", "Smooths the positive part of each element.")
        .input("x", "any shape")
        .attr(AttrSpec::float("beta", "how sharp the bend is; not 0", 1.0))
        .attr(AttrSpec::float("threshold", "beyond it the result is x", 20.0))
        .takes(DType::is_float)
        .map(|x, attrs| {
            let beta = attrs.float("beta");
            let scaled = x[0] * beta;
            E::select(scaled.gt(attrs.float("threshold")), x[0], curve(scaled) / beta)
        })
        .example(
            "of both signs",
            "softplus(a)",
            &[("f32[5]", &[-100.0, -1.5, 0.5, 2.0, 100.0])],
            &[(
                "f32[5]",
                &[3.720075976020836e-44, 0.2014132779827524, 0.9740769841801067, 2.1269280110429727, 100.0],
            )],
        )
        .example(
            "twice as sharp",
            "softplus(a, beta=2.0)",
            &[("f32[5]", &[-100.0, -1.5, 0.5, 2.0, 100.0])],
            &[(
                "f32[5]",
                &[6.919482633683688e-88, 0.02429367578687103, 0.6566308437591114, 2.0090749639589047, 100.0],
            )],
        )
}

/// ln(1 + eˣ) for one element. The exponent is never positive, so that neither the value nor its derivative overflows.
pub fn curve(x: E) -> E {
    let is_right = x.gt(0.0);
    let decay = E::select(is_right, -x, x).exp();
    E::select(is_right, x, 0.0) + decay.log1p()
}
