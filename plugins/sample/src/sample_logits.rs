//! Draws of tokens from the logits of a language model.

use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, E, Monoid, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Example, InputSpec, Lowering, OpForm, TypeIssue, checked};

/// Tokens drawn, with replacement, from `softmax(logits / temperature)`. The distribution is first cut to the `top_k`
/// largest logits. Then it is cut to the shortest prefix in falling order with a share of at least `top_p` (Holtzman et
/// al. 2020). Finally, it is cut to tokens at least `min_p` times as likely as the first. Ties go to the lower token, and
/// the first token always stays. A temperature of 0 takes the largest logit. The uniform numbers, in (0, 1), select by
/// the inverse of the cumulative distribution. They are given or drawn anew at every step. A row without a distribution
/// draws -1: all of it is -inf, or some of it NaN or inf. Devices draw among few of the logits in one kernel, `draw_rows`.
pub fn sample_logits() -> OpForm {
    OpForm::new("sample_logits", "Draws tokens from the most likely ones of each row.")
        .input("logits", "[…, V], unnormalised log-probabilities")
        .inputs([InputSpec::optional("uniform", "[…, num_samples], numbers in (0, 1) that decide")
            .between(0.0, 1.0)])
        .results(&["tokens"])
        .attr(AttrSpec::float("temperature", "the divisor of the logits, 0 or more", 1.0))
        .attr(AttrSpec::open(
            "top_k",
            "how many of the largest logits stay; all, if there are fewer",
            AttrKind::Int,
        ))
        .attr(AttrSpec::float("top_p", "the share that must stay, up to 1", 1.0))
        .attr(AttrSpec::float("min_p", "the least probability, relative to the largest", 0.0))
        .attr(AttrSpec::int("num_samples", "how many tokens each row draws", 1))
        .types(|types, attrs| Ok(vec![token_type(types, attrs)?]))
        .expand(|b, call| vec![drawn(b, call)])
        .no_grad("a token is piecewise constant; `gumbel_softmax` has a gradient")
        .examples(examples())
}

fn examples() -> Vec<Example> {
    vec![
        Example::new(
            "one fifth, three fifths and one fifth",
            "sample_logits(a, b, num_samples=3)",
            &[("f32[1, 3]", &[0., 1.0986123, 0.]), ("f32[1, 3]", &[0.19, 0.21, 0.81])],
            &[("i32[1, 3]", &[0., 1., 2.])],
        ),
        Example::new(
            "the two largest alone",
            "sample_logits(a, b, top_k=2)",
            &[("f32[2, 3]", &[0., 1., 1., 0., 1., 1.]), ("f32[2, 1]", &[0.49, 0.51])],
            &[("i32[2, 1]", &[1., 2.])],
        ),
        Example::new(
            "rows without a distribution",
            "sample_logits(a, b)",
            &[
                ("f32[3, 2]", &[f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NAN, 0., 0., f64::INFINITY]),
                ("f32[3, 1]", &[0.5, 0.5, 0.5]),
            ],
            &[("i32[3, 1]", &[-1., -1., -1.])],
        ),
        Example::new(
            "a number that rounds to 1 takes the last token that weighs something",
            "sample_logits(a, b)",
            &[("f32[1, 3]", &[0., 0., f64::NEG_INFINITY]), ("f64[1, 1]", &[1.0 - 1e-12])],
            &[("i32[1, 1]", &[1.])],
        ),
        Example::new(
            "NaN among logits that are cut away",
            "sample_logits(a, b, top_k=1)",
            &[("f32[1, 3]", &[0., 1., f64::NAN]), ("f32[1, 1]", &[0.5])],
            &[("i32[1, 1]", &[-1.])],
        ),
    ]
}

fn token_type(types: &[Type], attrs: &Attrs) -> Result<Type, TypeIssue> {
    let logits = &types[0];
    logits.expect_dtype("sample_logits", 0, DType::is_float, "floats")?;
    expect_settings(attrs)?;
    let Some((_, rows)) = logits.shape.split_last().filter(|(n, _)| **n != Dim::Fixed(0)) else {
        return Err(TypeIssue::new("there is nothing to draw from").at(0, format!("this is {logits}")));
    };
    let n_samples = Dim::Fixed(attrs.int("num_samples") as usize);
    let shape: Vec<Dim> = rows.iter().cloned().chain([n_samples]).collect();
    match types.get(1) {
        Some(u) if u.shape != shape || !u.dtype.is_float() => {
            Err(TypeIssue::new(format!("`sample_logits` of {logits} with uniform numbers {u}"))
                .at(1, format!("this is {u}"))
                .help("give one number for each token that is drawn"))
        }
        _ => Ok(Type { dtype: DType::I32, shape }),
    }
}

fn expect_settings(attrs: &Attrs) -> Result<(), TypeIssue> {
    let [temperature, top_p, min_p] = ["temperature", "top_p", "min_p"].map(|name| attrs.float(name));
    let in_range = temperature >= 0.0
        && (0.0..=1.0).contains(&top_p)
        && (0.0..=1.0).contains(&min_p)
        && attrs.opt_int("top_k").is_none_or(|k| k > 0)
        && attrs.int("num_samples") >= 0;
    match in_range {
        true => Ok(()),
        false => Err(TypeIssue::new("`sample_logits` cannot draw by these settings").help(
            "`temperature` and `num_samples` are 0 or more, `top_k` above 0, `top_p` and `min_p` lie in 0..1",
        )),
    }
}

fn drawn(b: &mut Builder, call: &Lowering) -> Value {
    let logits = b.widen(call.inputs[0]);
    let last = b.ty(logits).rank() - 1;
    let drawn = checked(token_type(&[b.ty(logits).clone()], call.attrs));
    let (token, among) =
        match call.attrs.float("temperature") == 0.0 || call.attrs.opt_int("top_k") == Some(1) {
            true => {
                let first = b.reduce(Monoid::ArgMax, logits, &[last]);
                let rows: Vec<usize> = (0..last).collect();
                (b.broadcast_axes(first, &rows, &drawn.shape), logits)
            }
            false => {
                let u = uniform(b, logits, call, &drawn);
                match attrs_of_rows(b, logits, &drawn, call.attrs) {
                    Some(attrs) => return checked(b.call("draw_rows", &[logits, u], attrs))[0],
                    None => decided(b, logits, u, call.attrs),
                }
            }
        };
    // The largest logit is finite if and only if there is a distribution. It is NaN if any logit is NaN.
    let largest = b.reduce(Monoid::Max, among, &[last]);
    let largest = b.unreduce(largest, &[last], token);
    b.map(&[largest, token], |v| E::select(v[0].gt(f64::NEG_INFINITY) & v[0].lt(f64::INFINITY), v[1], -1i64))
}

/// The uniform numbers, given or drawn.
fn uniform(b: &mut Builder, logits: Value, call: &Lowering, drawn: &Type) -> Value {
    let u = match call.inputs.get(1) {
        Some(&u) => u,
        None => b.random_uniform("uniform", &drawn.extents()),
    };
    b.cast(u, b.dtype(logits))
}

/// The attributes of `draw_rows`, if that op draws the tokens: few of the logits stay, and they are `f32`.
fn attrs_of_rows(b: &Builder, logits: Value, drawn: &Type, attrs: &Attrs) -> Option<Attrs> {
    let n_tokens = *b.extents(logits).last()?;
    let k = attrs.opt_int("top_k")? as usize;
    let draws =
        b.dtype(logits) == DType::F32 && k < n_tokens && k <= b.target.most_selected && drawn.numel() > 0;
    let cuts = ["temperature", "top_p", "min_p"].map(|name| (name, Attr::from(attrs.float(name))));
    let of_rows = Attrs::default().with("k", Attr::from(k as i64));
    draws.then(|| cuts.into_iter().fold(of_rows, |all, (name, value)| all.with(name, value)))
}

/// The tokens that uniform numbers select, and the logits of the candidates.
fn decided(b: &mut Builder, logits: Value, u: Value, attrs: &Attrs) -> (Value, Value) {
    let candidates = candidates(b, logits, attrs);
    let nth = chosen(b, &candidates, u);
    let token = match candidates.tokens {
        // Candidates are in order of tokens, so the number of a candidate is its token.
        None => nth,
        Some(tokens) => {
            let last = b.ty(tokens).rank() - 1;
            b.gather(tokens, nth, last, last)
        }
    };
    (token, candidates.logits)
}

/// The tokens that can be drawn.
struct Candidates {
    /// Their logits, or all logits if NaN may be among the others.
    logits: Value,
    /// Cumulative weights of the candidates, […, n], and infinity for those that are cut away.
    cumulative: Value,
    /// The last of them that is finite, […].
    total: Value,
    /// Their tokens. `None` means all tokens in order.
    tokens: Option<Value>,
}

fn candidates(b: &mut Builder, logits: Value, attrs: &Attrs) -> Candidates {
    let last = b.ty(logits).rank() - 1;
    let n_tokens = b.extents(logits)[last];
    let k = attrs.opt_int("top_k").map_or(n_tokens, |k| n_tokens.min(k as usize));
    let (top_p, min_p) = (attrs.float("top_p"), attrs.float("min_p"));
    let is_cut = top_p < 1.0 || min_p > 0.0;
    if k == n_tokens && !is_cut {
        return Candidates::all(b, logits, None, attrs);
    }
    let largest = Attrs::default().with("k", Attr::from(k as i64));
    let sorted = checked(b.call("topk", &[logits], largest));
    // A selection leaves out NaN.
    let among = if k < n_tokens { logits } else { sorted[0] };
    if !is_cut {
        return Candidates { logits: among, ..Candidates::all(b, sorted[0], Some(sorted[1]), attrs) };
    }
    let weights = weights(b, sorted[0], attrs);
    let so_far = cumulated(b, weights);
    let most = b.reduce(Monoid::Max, weights, &[last]);
    let most = b.unreduce(most, &[last], weights);
    let nth = b.iota(last, b.ty(weights).with_dtype(DType::I32));
    // Weights fall, so those that are kept come first, and their cumulative weights stay.
    let kept = b.map(&[weights, so_far, most, nth], |v| {
        let in_share = (v[1] - v[0]).lt(top_p) | v[3].eq(0i64);
        in_share & v[0].ge(v[2] * min_p)
    });
    let cumulative = b.map(&[kept, so_far], |v| E::select(v[0], v[1], f64::INFINITY));
    let ends = b.map(&[kept, so_far], |v| E::select(v[0], v[1], 0.0));
    let total = b.reduce(Monoid::Max, ends, &[last]);
    Candidates { logits: among, cumulative, total, tokens: Some(sorted[1]) }
}

impl Candidates {
    /// Candidates none of which is cut away.
    fn all(b: &mut Builder, logits: Value, tokens: Option<Value>, attrs: &Attrs) -> Candidates {
        let weights = weights(b, logits, attrs);
        let cumulative = cumulated(b, weights);
        let last = b.ty(cumulative).rank() - 1;
        Candidates { logits, cumulative, total: b.reduce(Monoid::Max, cumulative, &[last]), tokens }
    }
}

fn weights(b: &mut Builder, logits: Value, attrs: &Attrs) -> Value {
    let temperature = attrs.float("temperature");
    let scaled = b.map(&[logits], |x| x[0] / temperature);
    checked(b.call("softmax", &[scaled], Attrs::default()))[0]
}

fn cumulated(b: &mut Builder, weights: Value) -> Value {
    checked(b.call("cumsum", &[weights], Attrs::default()))[0]
}

/// The number of the candidate where the cumulative weights pass `u · total`: the count of candidates below. A product
/// may round up to the total. The second comparison keeps it from passing the last candidate with a weight.
fn chosen(b: &mut Builder, candidates: &Candidates, u: Value) -> Value {
    let Candidates { cumulative, total, .. } = *candidates;
    let last = b.ty(cumulative).rank() - 1;
    let mut pairs = b.ty(u).shape.clone();
    pairs.push(b.ty(cumulative).shape[last].clone());
    let rows: Vec<usize> = (0..last).collect();
    let row_and_sample: Vec<usize> = (0..=last).collect();
    let row_and_candidate: Vec<usize> = (0..last).chain([last + 1]).collect();
    let cumulative = b.broadcast_axes(cumulative, &row_and_candidate, &pairs);
    let total = b.broadcast_axes(total, &rows, &pairs);
    let u = b.broadcast_axes(u, &row_and_sample, &pairs);
    let passed = b.map(&[cumulative, total, u], |v| v[0].le(v[2] * v[1]) & v[0].lt(v[1]));
    let ones = b.cast(passed, DType::I32);
    b.sum(ones, &[last + 1])
}
