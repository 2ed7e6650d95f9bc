//! `softplus`.

use engine_core::ir::{DType, E};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule,
};

/// ln(1 + e^(βx))/β, and x itself where βx exceeds the threshold. The gradient is g·σ(βx).
pub fn softplus() -> OpForm {
    OpForm {
        name: "softplus".into(),
        family: "activation".into(),
        summary: "Smooths the positive part of each element.".into(),
        inputs: vec![InputSpec::required("x", "any shape")],
        outputs: vec!["y".into()],
        attrs: vec![
            AttrSpec::with_default("beta", "how sharp the bend is; not 0", AttrKind::Float, 1.0),
            AttrSpec::with_default("threshold", "beyond it the result is x", AttrKind::Float, 20.0),
        ],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower: Lower::map_with(1, |x, attrs| {
            let beta = attrs.float("beta");
            let scaled = x[0] * beta;
            E::select(scaled.gt(attrs.float("threshold")), x[0], curve(scaled) / beta)
        }),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example {
                title: "of both signs",
                call: "softplus(a)",
                inputs: vec![("f32[5]", vec![-100.0, -1.5, 0.5, 2.0, 100.0])],
                outputs: vec![(
                    "f32[5]",
                    vec![
                        3.720075976020836e-44,
                        0.2014132779827524,
                        0.9740769841801067,
                        2.1269280110429727,
                        100.0,
                    ],
                )],
            },
            Example {
                title: "twice as sharp",
                call: "softplus(a, beta=2.0)",
                inputs: vec![("f32[5]", vec![-100.0, -1.5, 0.5, 2.0, 100.0])],
                outputs: vec![(
                    "f32[5]",
                    vec![
                        6.919482633683688e-88,
                        0.02429367578687103,
                        0.6566308437591114,
                        2.0090749639589047,
                        100.0,
                    ],
                )],
            },
        ],
        role: Role::Plain,
    }
}

/// ln(1 + eˣ) for one element. The exponent is never positive, so that neither the value nor its derivative overflows.
pub fn curve(x: E) -> E {
    let is_right = x.gt(0.0);
    let decay = E::select(is_right, -x, x).exp();
    E::select(is_right, x, 0.0) + decay.log1p()
}
