//! Draws of two values.

use engine_core::ir::{Attrs, Binary, Builder, DType, E, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, GradCheck, InputSpec, Lowering, OpForm, TypeIssue};

/// 1 where `u < σ(scale · logit)` for uniform u, else 0 (or -1, for spins). A scale of 2 gives the conditional
/// distribution of a spin in its local field. The uniform numbers are given, in (0, 1), or drawn anew at every step.
/// NaN stays NaN. The gradient is that of the expectation, `g · scale · p(1 - p)`, and twice that for spins: a
/// straight-through estimator (Bengio et al. 2013).
pub fn sigmoid_bernoulli() -> OpForm {
    OpForm::new("sigmoid_bernoulli", "Draws bits or spins whose probabilities are sigmoids of logits.")
        .input("logits", "any shape")
        .inputs([InputSpec::optional("uniform", "numbers in (0, 1) to compare with, shaped like the logits")
            .between(0.0, 1.0)])
        .attr(AttrSpec::float("scale", "the factor of the logits", 2.0))
        .attr(AttrSpec::choice("out", "`bits` are 0 and 1, `spins` are -1 and 1", &["bits", "spins"]))
        .types(|types, _| {
            types[0].expect_dtype("sigmoid_bernoulli", 0, DType::is_float, "floats")?;
            match types.get(1) {
                Some(u) if u.shape != types[0].shape || !u.dtype.is_float() => {
                    Err(TypeIssue::new(format!("`sigmoid_bernoulli` of {} with {u}", types[0]))
                        .at(1, format!("this is {u}"))
                        .help("give one uniform number per logit"))
                }
                _ => Ok(vec![types[0].clone()]),
            }
        })
        .expand(|b, call| vec![drawn(b, call)])
        .grad(Grad::rule(through))
        .check(GradCheck::Convention {
            why: "straight-through: a draw has the gradient of its expectation",
            // g·s·σ(s·x)·(1 - σ(s·x)), twice that for spins.
            grads: vec![
                vec![vec![0.5, 1.0, 0.629961512421040], vec![0.0; 3]],
                vec![vec![0.393223866482964, 0.786447732965927], vec![0.0; 2]],
            ],
        })
        .example(
            "with given uniform numbers; one that equals the probability draws 0",
            "sigmoid_bernoulli(a, b)",
            &[("f32[3]", &[0., 0., 1.]), ("f32[3]", &[0.5, 0.49, 0.88])],
            &[("f32[3]", &[0., 1., 1.])],
        )
        .example(
            "spins",
            "sigmoid_bernoulli(a, b, scale=1.0, out=\"spins\")",
            &[("f32[2]", &[1., 1.]), ("f32[2]", &[0.74, 0.73])],
            &[("f32[2]", &[-1., 1.])],
        )
}

fn probability(logit: E, attrs: &Attrs) -> E {
    (1.0 + (-(logit * attrs.float("scale"))).exp()).recip()
}

fn drawn(b: &mut Builder, call: &Lowering) -> Value {
    let logits = b.widen(call.inputs[0]);
    let u = match call.inputs.get(1) {
        Some(&u) => b.cast(u, b.dtype(logits)),
        None => {
            let extents = b.extents(logits);
            let u = b.random_uniform("uniform", &extents);
            b.cast(u, b.dtype(logits))
        }
    };
    let p = b.map(&[logits], |x| probability(x[0], call.attrs));
    let is_one = b.binary(Binary::Lt, u, p);
    let bit = b.cast(is_one, b.dtype(logits));
    let is_spin = call.attrs.str("out") == "spins";
    let y = b.map(&[p, bit], |v| {
        let drawn = if is_spin { v[1] * 2.0 - 1.0 } else { v[1] };
        E::select(v[0].is_nan(), v[0], drawn)
    });
    b.cast(y, b.dtype(call.inputs[0]))
}

fn through(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let span = if call.attrs.str("out") == "spins" { 2.0 } else { 1.0 };
    let slope = span * call.attrs.float("scale");
    let dx = call.grads[0].map(|g| {
        b.map(&[call.inputs[0], g], |v| {
            let p = probability(v[0], call.attrs);
            v[1] * (p * (1.0 - p)) * slope
        })
    });
    let uniform = call.inputs.get(1).map(|_| None);
    [dx].into_iter().chain(uniform).collect()
}
