//! Batch normalisation.

use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// `y = (x - mean) · γ/√(var + ε) + β` for each channel (Ioffe and Szegedy 2015), computed in f32 or wider. In training, mean
/// and variance are those of the batch, over all other axes, and the running ones move towards them by `momentum`. As in
/// PyTorch, y takes the variance of the population and the running variance that of a sample. Outside training, y
/// takes the running ones, which stay. The state of a training stage keeps them:
/// `state: {"mean": "y.running_mean", "var": "y.running_var"}`.
pub fn batch_norm() -> OpForm {
    OpForm::new("batch_norm", "Shifts and scales each channel to mean 0 and variance 1 over a batch.")
        .input("x", "[B, C, …], or another shape with channels along `axis`")
        .input("gamma", "[C], a factor for each channel")
        .input("beta", "[C], a summand for each channel")
        .input("running_mean", "[C], the mean of earlier batches, in f32 or wider")
        .input("running_var", "[C], their variance, in f32 or wider")
        .results(&["y", "running_mean", "running_var"])
        .attr(AttrSpec::float("momentum", "weight of the batch in the running ones", 0.1).between(0.0, 1.0))
        .attr(AttrSpec::float("eps", "added to the variance", 1e-5).at_least(0.0))
        .attr(AttrSpec::int("axis", "axis of the channels, negative from the end", 1))
        .attr(AttrSpec::mode("train", "whether to use the batch; by default in training stages alone"))
        .types(|types, attrs| {
            expect_channels(types, attrs)?;
            expect_several(&types[0], attrs)?;
            Ok(vec![types[0].clone(), types[3].clone(), types[4].clone()])
        })
        .expand(normalised)
        .tested_on(0.5, 2.0)
        .example(
            "a batch of two",
            "batch_norm(a, b, c, d, e, eps=0.0)",
            &[
                ("f32[2, 1]", &[3., 7.]),
                ("f32[1]", &[2.]),
                ("f32[1]", &[1.]),
                ("f32[1]", &[0.]),
                ("f32[1]", &[1.]),
            ],
            &[("f32[2, 1]", &[-1., 3.]), ("f32[1]", &[0.5]), ("f32[1]", &[1.7])],
        )
        .example(
            "outside training",
            "batch_norm(a, b, c, d, e, eps=0.0, train=false)",
            &[
                ("f32[2, 1]", &[3., 7.]),
                ("f32[1]", &[2.]),
                ("f32[1]", &[1.]),
                ("f32[1]", &[1.]),
                ("f32[1]", &[4.]),
            ],
            &[("f32[2, 1]", &[3., 7.]), ("f32[1]", &[1.]), ("f32[1]", &[4.])],
        )
}

fn expect_channels(types: &[Type], attrs: &Attrs) -> Result<(), TypeIssue> {
    let x = &types[0];
    x.expect_dtype("batch_norm", 0, DType::is_float, "floats")?;
    let channels = x.shape[x.axis(attrs.int("axis"))?].clone();
    for (operand, ty) in types.iter().enumerate().skip(1) {
        let dtype = if operand < 3 { x.dtype } else { x.dtype.accumulator() };
        let wanted = Type { dtype, shape: vec![channels.clone()] };
        if *ty != wanted {
            return Err(TypeIssue::new(format!("`batch_norm` of {x} with {ty}"))
                .at(operand, format!("this is {ty}"))
                .help(format!("it holds a number for each channel: {wanted}")));
        }
    }
    Ok(())
}

/// A sample of one has no variance. A graph that no stage has set up may yet be one outside training.
fn expect_several(x: &Type, attrs: &Attrs) -> Result<(), TypeIssue> {
    let channels = x.axis(attrs.int("axis"))?;
    let extents = x.shape.iter().enumerate().filter(|(axis, _)| *axis != channels).map(|(_, dim)| dim);
    let count = extents.map(Dim::fixed).try_fold(1, |count, n| Some(count * n?));
    let is_training = *attrs.get("train") != Attr::None && attrs.trains("train");
    if count != Some(1) || !is_training {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`batch_norm` of one value per channel, {x}, has no variance"))
        .at(0, format!("this is {x}"))
        .help("take larger batches, with `last_batch: Drop` if the last one is short"))
}

fn normalised(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [x, gamma, beta, running_mean, running_var] = [0, 1, 2, 3, 4].map(|i| b.widen(call.inputs[i]));
    let (channels, momentum) = (checked(b.ty(x).axis(call.attrs.int("axis"))), call.attrs.float("momentum"));
    let others = Others { before: (0..channels).collect(), behind: (channels + 1..b.ty(x).rank()).collect() };
    if !call.attrs.trains("train") {
        let middle = others.spread(b, running_mean, x);
        let centered = b.sub(x, middle);
        let y = scaled(b, centered, [running_var, gamma, beta], &others, call);
        return vec![y, running_mean, running_var];
    }
    let mean = others.mean(b, x);
    let middle = others.spread(b, mean, x);
    let centered = b.sub(x, middle);
    let squares = b.mul(centered, centered);
    let var = others.mean(b, squares);
    let y = scaled(b, centered, [var, gamma, beta], &others, call);
    let extents = b.extents(x);
    let count: usize = others.before.iter().chain(&others.behind).map(|&axis| extents[axis]).product();
    let sample = count as f64 / (count as f64 - 1.0);
    let mean = b.map(&[running_mean, mean], |v| v[0] * (1.0 - momentum) + v[1] * momentum);
    let var = b.map(&[running_var, var], |v| v[0] * (1.0 - momentum) + v[1] * (momentum * sample));
    vec![y, mean, var]
}

/// The axes before and behind the channels. Sums go over one side after the other: a few channels with many elements each
/// would be few rows, which leave most of a GPU idle.
struct Others {
    before: Vec<usize>,
    behind: Vec<usize>,
}

impl Others {
    /// Means over all of them; those over the axes behind have as many elements each.
    fn mean(&self, b: &mut Builder, x: Value) -> Value {
        let inner = if self.behind.is_empty() { x } else { b.mean(x, &self.behind) };
        if self.before.is_empty() { inner } else { b.mean(inner, &self.before) }
    }

    /// A number for each channel at all elements of `like`. Gradients are summed in the order of [`Others::mean`].
    fn spread(&self, b: &mut Builder, x: Value, like: Value) -> Value {
        let shape = b.ty(like).shape.clone();
        let lead: Vec<Dim> = shape[..=self.before.len()].to_vec();
        let x = b.broadcast_axes(x, &[self.before.len()], &lead);
        let axes: Vec<usize> = (0..lead.len()).collect();
        b.broadcast_axes(x, &axes, &shape)
    }
}

/// `centered · γ/√(var + ε) + β`, in the type of the call's first operand.
fn scaled(
    b: &mut Builder,
    centered: Value,
    per_channel: [Value; 3],
    others: &Others,
    call: &Lowering,
) -> Value {
    let eps = call.attrs.float("eps");
    let [var, gamma, beta] = per_channel;
    let factor = b.map(&[var, gamma], |v| v[1] * (v[0] + eps).rsqrt());
    let [factor, beta] = [factor, beta].map(|x| others.spread(b, x, centered));
    let y = b.map(&[centered, factor, beta], |v| v[0] * v[1] + v[2]);
    b.cast(y, b.dtype(call.inputs[0]))
}
