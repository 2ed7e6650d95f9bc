//! Sampling by Gumbel noise.

use crate::distributions::{gumbel_of, random, random_uniform};
use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, Monoid, Type, Value};
use engine_core::op::{AttrSpec, InputSpec, Lowering, OpForm, TypeIssue, checked};

/// Standard Gumbel noise, `-ln(-ln u)` for uniform u; always finite.
pub fn sample_gumbel() -> OpForm {
    random(
        "sample_gumbel",
        "Draws standard Gumbel noise.",
        "sample_gumbel(shape=[0])",
        vec![],
        |b, extents, attrs| {
            let u = random_uniform(b, "gumbel", extents, attrs);
            b.map(&[u], |u| gumbel_of(u[0]))
        },
    )
}

/// `argmax(logits + noise)` along an axis: a draw from the categorical distribution with these logits. The noise comes
/// from `uniform`, numbers in (0, 1), or is drawn anew at every step. Ties go to the first index.
pub fn gumbel_argmax() -> OpForm {
    OpForm::new(
        "gumbel_argmax",
        "Draws an index along an axis from the categorical distribution that logits describe.",
    )
    .input("logits", "unnormalised log-probabilities")
    .inputs([uniform_operand()])
    .results(&["indices"])
    .attr(axis())
    .types(|types, attrs| {
        expect_logits("gumbel_argmax", &types[0], types.get(1).map(|u| (1, u)))?;
        let axis = types[0].axis(attrs.int("axis"))?;
        expect_some(&types[0], axis)?;
        let mut ty = types[0].with_dtype(DType::I32);
        ty.shape.remove(axis);
        Ok(vec![ty])
    })
    .expand(|b, call| {
        let noisy = noisy(b, call.inputs[0], call.inputs.get(1).copied());
        let axis = checked(b.ty(noisy).axis(call.attrs.int("axis")));
        vec![b.reduce(Monoid::ArgMax, noisy, &[axis])]
    })
    .no_grad("an index is piecewise constant; `gumbel_softmax` has a gradient")
    .example(
        "with given uniform numbers",
        "gumbel_argmax(a, b)",
        &[("f32[2, 2]", &[0., 1., 0., 1.]), ("f32[2, 2]", &[0.5, 0.5, 0.9, 0.1])],
        &[("i32[2]", &[1., 0.])],
    )
}

/// `softmax((logits + noise) / tau)` along an axis. If hard, the result is exactly 1 at its largest element and 0
/// elsewhere. The gradient is that of the soft weights in both cases (Jang et al. 2017). The noise comes from `uniform`, numbers in
/// (0, 1), or is drawn anew at every step.
pub fn gumbel_softmax() -> OpForm {
    OpForm::new(
        "gumbel_softmax",
        "Draws weights along an axis that approach a categorical draw as the temperature falls.",
    )
    .input("logits", "unnormalised log-probabilities")
    .optional("tau", "the temperature, a scalar; wins over the setting")
    .inputs([uniform_operand()])
    .attr(axis())
    .attr(AttrSpec::float("tau", "the temperature, above 0", 1.0))
    .attr(AttrSpec::flag("hard", "whether weights are exactly 0 and 1", false))
    .types(|types, attrs| {
        expect_logits("gumbel_softmax", &types[0], types.get(2).map(|u| (2, u)))?;
        types.get(1).map_or(Ok(()), expect_temperature)?;
        types[0].axis(attrs.int("axis"))?;
        Ok(vec![types[0].clone()])
    })
    .expand(|b, call| vec![relaxed(b, call)])
    .tested_on(0.1, 0.9)
    .example(
        "with given uniform numbers",
        "gumbel_softmax(a, b, c)",
        &[("f32[1, 2]", &[0., 1.]), ("f32[]", &[1.]), ("f32[1, 2]", &[0.5, 0.5])],
        &[("f32[1, 2]", &[0.26894143, 0.7310586])],
    )
}

fn axis() -> AttrSpec {
    AttrSpec::int("axis", "axis of the categories", -1)
}

fn uniform_operand() -> InputSpec {
    InputSpec::optional("uniform", "numbers in (0, 1) to make the noise from, shaped like the logits")
        .between(0.0, 1.0)
}

fn expect_logits(op: &str, logits: &Type, uniform: Option<(usize, &Type)>) -> Result<(), TypeIssue> {
    logits.expect_dtype(op, 0, DType::is_float, "floats")?;
    match uniform {
        Some((i, u)) if u.shape != logits.shape || !u.dtype.is_float() => {
            Err(TypeIssue::new(format!("`{op}` of {logits} with uniform numbers {u}"))
                .at(i, format!("this is {u}"))
                .help("give one number per logit"))
        }
        _ => Ok(()),
    }
}

fn expect_temperature(tau: &Type) -> Result<(), TypeIssue> {
    if tau.rank() == 0 && tau.dtype.is_float() {
        return Ok(());
    }
    Err(TypeIssue::new(format!("a temperature is a scalar float, not {tau}")).at(1, format!("this is {tau}")))
}

fn expect_some(ty: &Type, axis: usize) -> Result<(), TypeIssue> {
    match ty.shape[axis] {
        Dim::Fixed(0) => Err(TypeIssue::new("there is nothing to draw from").at(0, format!("this is {ty}"))),
        _ => Ok(()),
    }
}

/// Logits with noise, in f32 or wider.
fn noisy(b: &mut Builder, logits: Value, uniform: Option<Value>) -> Value {
    let wide = b.dtype(logits).accumulator();
    let logits = b.cast(logits, wide);
    let u = match uniform {
        Some(u) => u,
        None => {
            let extents = b.extents(logits);
            b.random_uniform("gumbel", &extents)
        }
    };
    let u = b.cast(u, wide);
    b.map(&[logits, u], |v| v[0] + gumbel_of(v[1]))
}

fn relaxed(b: &mut Builder, call: &Lowering) -> Value {
    let noisy = noisy(b, call.inputs[0], call.inputs.get(2).copied());
    let scaled = match call.inputs.get(1) {
        Some(&tau) => {
            let tau = b.cast(tau, b.dtype(noisy));
            b.map(&[noisy, tau], |v| v[0] / v[1])
        }
        None => {
            let tau = call.attrs.float("tau");
            b.map(&[noisy], |v| v[0] / tau)
        }
    };
    let along = || Attrs::default().with("axis", Attr::from(call.attrs.int("axis")));
    let soft = checked(b.call("softmax", &[scaled], along()))[0];
    let y = match call.attrs.bool("hard") {
        true => checked(b.call("one_hot_argmax", &[soft], along()))[0],
        false => soft,
    };
    b.cast(y, b.dtype(call.inputs[0]))
}
