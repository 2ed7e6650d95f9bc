//! Batch normalisation.

use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, Type, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, Lowering, OpForm, TypeIssue, checked};

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
        .grad(Grad::rule(gradients))
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
    let (others, momentum) = (Others::of(b, x, call.attrs), call.attrs.float("momentum"));
    if !call.attrs.trains("train") {
        let centered = others.centered(b, x, running_mean);
        let y = scaled(b, centered, [running_var, gamma, beta], &others, call);
        return vec![y, running_mean, running_var];
    }
    let [mean, var] = others.moments(b, x);
    let centered = others.centered(b, x, mean);
    let y = scaled(b, centered, [var, gamma, beta], &others, call);
    let sample = others.sample(b, x);
    let mean = b.map(&[running_mean, mean], |v| v[0] * (1.0 - momentum) + v[1] * momentum);
    let var = b.map(&[running_var, var], |v| v[0] * (1.0 - momentum) + v[1] * (momentum * sample));
    vec![y, mean, var]
}

/// The gradients of all operands. With `f = γ/√(var + ε)`, that of x is `f·dy + slope·(x - mean) + offset`: slope and offset
/// are what mean and variance of the batch add, and depend on `Σ dy` and `Σ dy·(x - mean)` alone.
fn gradients(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let [x, gamma, running_mean, running_var] = [0, 1, 3, 4].map(|i| b.widen(call.inputs[i]));
    let [dy, of_mean, of_var] = [0, 1, 2].map(|i| call.grads[i].map(|g| b.widen(g)));
    let (others, momentum) = (Others::of(b, x, call.attrs), call.attrs.float("momentum"));
    let eps = call.attrs.float("eps");
    let trains = call.attrs.trains("train");
    let [mean, var] = if trains { others.moments(b, x) } else { [running_mean, running_var] };
    let centered = others.centered(b, x, mean);
    let scale = b.map(&[var], |v| (v[0] + eps).rsqrt());
    let factor = b.mul(gamma, scale);
    let (n, sample) = (others.count(b, x) as f64, others.sample(b, x));
    let dy = dy.unwrap_or_else(|| b.full_like(x, 0.0));
    let sum = others.sum(b, dy);
    let product = b.mul(dy, centered);
    let product = others.sum(b, product);
    let [of_mean, of_var] = [of_mean, of_var].map(|g| g.unwrap_or_else(|| b.full_like(running_mean, 0.0)));
    let of_gamma = b.mul(product, scale);
    let spread = others.spread(b, factor, x);
    let (dx, of_mean, of_var) = if trains {
        let slope = b.map(&[factor, scale, product, of_var], |v| {
            v[3] * (2.0 * momentum * sample / n) - v[0] * v[1] * v[1] * v[2] / n
        });
        let offset = b.map(&[factor, sum, of_mean], |v| v[2] * (momentum / n) - v[0] * v[1] / n);
        let [slope, offset] = [slope, offset].map(|number| others.spread(b, number, x));
        let dx = b.map(&[dy, spread, centered, slope, offset], |v| v[0] * v[1] + v[2] * v[3] + v[4]);
        let [of_mean, of_var] = [of_mean, of_var].map(|g| b.map(&[g], |v| v[0] * (1.0 - momentum)));
        (dx, of_mean, of_var)
    } else {
        let of_mean = b.map(&[of_mean, factor, sum], |v| v[0] - v[1] * v[2]);
        let of_var = b.map(&[of_var, factor, scale, product], |v| v[0] - v[1] * v[2] * v[2] * v[3] * 0.5);
        (b.mul(dy, spread), of_mean, of_var)
    };
    let gradients = [dx, of_gamma, sum, of_mean, of_var];
    gradients.iter().zip(call.inputs).map(|(&g, &input)| Some(b.cast(g, b.dtype(input)))).collect()
}

/// The axes before and behind the channels. Sums go over one side after the other: a few channels with many elements each
/// would be few rows, which leave most of a GPU idle.
struct Others {
    before: Vec<usize>,
    behind: Vec<usize>,
}

impl Others {
    fn of(b: &Builder, x: Value, attrs: &Attrs) -> Others {
        let channels = checked(b.ty(x).axis(attrs.int("axis")));
        Others { before: (0..channels).collect(), behind: (channels + 1..b.ty(x).rank()).collect() }
    }

    /// Elements of a channel.
    fn count(&self, b: &Builder, x: Value) -> usize {
        let extents = b.extents(x);
        self.before.iter().chain(&self.behind).map(|&axis| extents[axis]).product()
    }

    /// The variance of a sample for a variance of 1 of the population.
    fn sample(&self, b: &Builder, x: Value) -> f64 {
        let n = self.count(b, x) as f64;
        n / (n - 1.0)
    }

    /// Sums over all of them.
    fn sum(&self, b: &mut Builder, x: Value) -> Value {
        let inner = if self.behind.is_empty() { x } else { b.sum(x, &self.behind) };
        if self.before.is_empty() { inner } else { b.sum(inner, &self.before) }
    }

    /// Mean and variance. Those over the axes behind are of one row, which is read once. The variance of all rows is the mean
    /// of theirs and of the squares of what their means are off (Chan et al. 1979).
    fn moments(&self, b: &mut Builder, x: Value) -> [Value; 2] {
        if self.before.is_empty() || self.behind.is_empty() {
            let axes = [&self.before[..], &self.behind].concat();
            let mean = b.mean(x, &axes);
            let centered = self.centered(b, x, mean);
            let squares = b.mul(centered, centered);
            return [mean, b.mean(squares, &axes)];
        }
        let (shape, n_lead) = (b.ty(x).shape.clone(), self.before.len() + 1);
        let of_rows = b.mean(x, &self.behind);
        let spread = b.broadcast_axes(of_rows, &(0..n_lead).collect::<Vec<_>>(), &shape);
        let centered = b.sub(x, spread);
        let squares = b.mul(centered, centered);
        let within = b.mean(squares, &self.behind);
        let mean = b.mean(of_rows, &self.before);
        let spread = b.broadcast_axes(mean, &[n_lead - 1], &shape[..n_lead]);
        let squares = b.map(&[within, of_rows, spread], |v| v[0] + (v[1] - v[2]) * (v[1] - v[2]));
        [mean, b.mean(squares, &self.before)]
    }

    /// Elements without the number of their channel.
    fn centered(&self, b: &mut Builder, x: Value, number: Value) -> Value {
        let middle = self.spread(b, number, x);
        b.sub(x, middle)
    }

    /// A number for each channel at all elements of `like`.
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
