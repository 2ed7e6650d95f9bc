//! Draws of classes by their weights.

use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, InputSpec, Lowering, OpForm, TypeIssue, checked};

use crate::distributions::gumbel_of;

/// Classes drawn by weights, which need not add up to 1. Without replacement, no class is drawn twice: the largest sums of
/// log-weights and Gumbel noise win (Kool et al. 2019), in falling order. With replacement, draws are independent. The
/// uniform numbers, in (0, 1), are given or drawn anew at every step. Where no class of positive weight is left, -1 is drawn.
/// A negative weight counts as NaN.
pub fn multinomial() -> OpForm {
    OpForm::new("multinomial", "Draws classes of each row by their weights, by default each at most once.")
        .input("weights", "[…, V], not negative")
        .inputs([InputSpec::optional(
            "uniform",
            "numbers in (0, 1) that decide: one for each weight, or with replacement one for each draw",
        )
        .between(0.0, 1.0)])
        .results(&["indices"])
        .attr(AttrSpec::must("num_samples", "how many classes each row draws", AttrKind::Int))
        .attr(AttrSpec::flag("replacement", "whether a class can be drawn again", false))
        .types(|types, attrs| Ok(vec![drawn_type(types, attrs)?]))
        .expand(|b, call| vec![drawn(b, call)])
        .no_grad("an index is piecewise constant; `gumbel_softmax` has a gradient")
        .example(
            "two of three, and never the one without weight",
            "multinomial(a, b, num_samples=2)",
            &[("f32[1, 3]", &[1., 0., 3.]), ("f32[1, 3]", &[0.9, 0.99, 0.25])],
            &[("i32[1, 2]", &[0., 2.])],
        )
        .example(
            "one class of positive weight",
            "multinomial(a, b, num_samples=2)",
            &[("f32[1, 3]", &[0., 2., 0.]), ("f32[1, 3]", &[0.9, 0.1, 0.5])],
            &[("i32[1, 2]", &[1., -1.])],
        )
        .example(
            "with replacement",
            "multinomial(a, b, num_samples=3, replacement=true)",
            &[("f32[1, 3]", &[1., 0., 3.]), ("f32[1, 3]", &[0.5, 0.9, 0.2])],
            &[("i32[1, 3]", &[2., 2., 0.])],
        )
}

fn drawn_type(types: &[Type], attrs: &Attrs) -> Result<Type, TypeIssue> {
    let weights = &types[0];
    weights.expect_dtype("multinomial", 0, DType::is_float, "floats")?;
    let replacement = attrs.bool("replacement");
    let n_drawn = usize::try_from(attrs.int("num_samples")).ok().filter(|&n| n > 0 || replacement);
    let fits = match (weights.shape.last(), n_drawn) {
        (Some(Dim::Fixed(n_classes)), Some(n)) => *n_classes > 0 && (replacement || n <= *n_classes),
        (class, n) => class.is_some() && n.is_some(),
    };
    let Some(n_drawn) = n_drawn.filter(|_| fits) else {
        return Err(TypeIssue::new(format!(
            "`multinomial` cannot draw {} of {weights}",
            attrs.int("num_samples")
        ))
        .at_setting("num_samples")
        .help("without replacement, it is at least 1 and at most the number of classes"));
    };
    let mut ty = weights.with_dtype(DType::I32);
    ty.shape.pop();
    ty.shape.push(Dim::Fixed(n_drawn));
    let wanted = if replacement { &ty.shape } else { &weights.shape };
    match types.get(1) {
        Some(uniform) if uniform.shape != *wanted || !uniform.dtype.is_float() => {
            let wanted = Type { dtype: DType::F32, shape: wanted.clone() };
            Err(TypeIssue::new(format!("`multinomial` of {weights} with uniform numbers {uniform}"))
                .at(1, format!("this is {uniform}"))
                .help(format!("here they are {wanted}")))
        }
        _ => Ok(ty),
    }
}

fn drawn(b: &mut Builder, call: &Lowering) -> Value {
    let weights = b.widen(call.inputs[0]);
    let logits = b.map(&[weights], |w| w[0].log());
    let n_drawn = Attr::from(call.attrs.int("num_samples"));
    if call.attrs.bool("replacement") {
        let operands: Vec<Value> = [logits].into_iter().chain(call.inputs.get(1).copied()).collect();
        return checked(b.call("sample_logits", &operands, Attrs::default().with("num_samples", n_drawn)))[0];
    }
    let u = match call.inputs.get(1) {
        Some(&u) => b.cast(u, b.dtype(logits)),
        None => {
            let extents = b.extents(logits);
            let u = b.random_uniform("gumbel", &extents);
            b.cast(u, b.dtype(logits))
        }
    };
    let noisy = b.map(&[logits, u], |v| v[0] + gumbel_of(v[1]));
    let best = checked(b.call("topk_rows", &[noisy], Attrs::default().with("k", n_drawn)));
    b.map(&[best[0], best[1]], |v| E::select(v[0].gt(f64::NEG_INFINITY), v[1], -1i64))
}
