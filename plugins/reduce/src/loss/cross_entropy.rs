//! Cross-entropy of logits against classes.

use super::rows::{
    Targets, attrs, averaged, expect_per_class, ignore_index, masked, pick, row_type, row_weight, targets,
    weighted,
};
use engine_core::ir::{Attr, Attrs, Builder, DType, E, Monoid, Type, Unary, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, Lowering, OpForm, TypeIssue, checked};
use std::f64::consts::LN_2;

/// `ln Σ exp x - x[t]` for logits x f[…, V] and targets t i[…], computed in f32 or wider and by default averaged over
/// the rows that count. A target outside `0..V` is an index error.
///
/// - Targets f[…, V] are weights of all classes, usually probabilities: `Σ t·(ln Σ exp x - x)`, averaged over all rows.
/// - `label_smoothing` ε replaces each target by `(1 - ε)·t + ε/V`.
/// - Weights of classes multiply the terms of their class. The mean over rows of one class each is weighted by
///   `weight[t]`, as in PyTorch. `byte_mean` is that mean, for bytes of tokens.
pub fn cross_entropy() -> OpForm {
    OpForm::new(
        "cross_entropy",
        "Computes the cross-entropy of logits against target classes, by default averaged over rows.",
    )
    .input("logits", "scores, classes along the last axis")
    .input("targets", "one class per row, or one float per logit")
    .optional("weight", "the weight of each class; for `reduction=byte_mean` it is required")
    .results(&["loss"])
    .attrs(attrs(&["mean", "sum", "none", "byte_mean"]))
    .attr(AttrSpec::float("label_smoothing", "the share of all classes in a target", 0.0).between(0.0, 1.0))
    .types(loss_types)
    .expand(|b, call| {
        let loss = match b.dtype(call.inputs[1]).is_float() {
            true => of_shares(b, call),
            false => of_classes(b, call),
        };
        vec![b.cast(loss, b.dtype(call.inputs[0]))]
    })
    .example(
        "equal logits cost ln 2",
        "cross_entropy(a, b)",
        &[("f32[2, 2]", &[0., 0., 5., 5.]), ("i32[2]", &[1., 0.])],
        &[("f32[]", &[LN_2])],
    )
    .example(
        "an ignored row",
        "cross_entropy(a, b, ignore_index=-1)",
        &[("f32[2, 2]", &[0., 0., 9., 1.]), ("i32[2]", &[1., -1.])],
        &[("f32[]", &[LN_2])],
    )
    .example(
        "rows weighed by the bytes of their token",
        "cross_entropy(a, b, c, reduction=\"byte_mean\")",
        &[("f32[2, 2]", &[0., 0., 0., 100.]), ("i32[2]", &[1., 0.]), ("i32[2]", &[1., 3.])],
        &[("f32[]", &[25.51986])],
    )
    .example(
        "a smoothed target, and classes that weigh 1 and 3",
        "cross_entropy(a, b, c, label_smoothing=0.2)",
        &[("f32[2, 2]", &[0., 1., 2., 0.]), ("i32[2]", &[1., 0.]), ("f32[2]", &[1., 3.])],
        &[("f32[]", &[0.4323615845756479])],
    )
    .example(
        "shares of two classes",
        "cross_entropy(a, b)",
        &[("f32[1, 2]", &[0., 1.]), ("f32[1, 2]", &[0.25, 0.75])],
        &[("f32[]", &[0.5632616875182228])],
    )
}

/// The losses of [`cross_entropy`] row by row, 0 for ignored rows, together with `ln Σ exp x`. The gradient `softmax(x)
/// - onehot(t)` is recomputed from it, so probabilities are not stored. Both results are f32 or wider.
pub fn cross_entropy_rows() -> OpForm {
    OpForm::new(
        "cross_entropy_rows",
        "Computes the cross-entropy of every row, and the log-sum-exp of its logits.",
    )
    .input("logits", "scores, classes along the last axis")
    .input("targets", "one class per row")
    .results(&["loss", "log_sum_exp"])
    .attr(ignore_index())
    .types(|types, _| {
        let rows = row_type("cross_entropy_rows", &types[0], &types[1])?;
        Ok(vec![rows.with_dtype(rows.dtype.accumulator()); 2])
    })
    .expand(by_row)
    .grad(Grad::rule(softmax_minus_one_hot))
    .example(
        "two rows",
        "cross_entropy_rows(a, b)",
        &[("f32[2, 2]", &[0., 0., 0., 100.]), ("i32[2]", &[1., 0.])],
        &[("f32[2]", &[LN_2, 100.]), ("f32[2]", &[LN_2, 100.])],
    )
}

fn loss_types(types: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let rows = match types[1].dtype.is_float() {
        true => share_type(&types[0], &types[1], attrs)?,
        false => row_type("cross_entropy", &types[0], &types[1])?,
    };
    match types.get(2) {
        None if attrs.str("reduction") == "byte_mean" => {
            return Err(TypeIssue::new("`reduction=byte_mean` needs the operand `weight`")
                .help("call it as `cross_entropy(logits, targets, token_bytes, reduction=byte_mean)`"));
        }
        None => {}
        Some(weight) => expect_per_class("cross_entropy", &types[0], weight)?,
    }
    Ok(vec![match attrs.str("reduction") {
        "none" => rows,
        _ => Type::scalar(rows.dtype),
    }])
}

/// The type of one number per row, for targets that are weights of all classes.
fn share_type(logits: &Type, targets: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let alike = super::reduction::expect_alike("cross_entropy", &[logits.clone(), targets.clone()]);
    // Targets of fewer axes are numbers of classes.
    let are_classes = logits.dtype.is_float() && targets.rank() < logits.rank();
    alike.map_err(|issue| match are_classes {
        true => issue.help("numbers of classes are integers: `cast(targets, dtype=i32)`"),
        false => issue,
    })?;
    let Some((_, rows)) = logits.shape.split_last() else {
        let issue = TypeIssue::new("`cross_entropy` needs an axis of classes");
        return Err(issue.at(0, format!("this is {logits}")));
    };
    let is_ignoring = *attrs.get("ignore_index") != Attr::None;
    if is_ignoring || attrs.str("reduction") == "byte_mean" {
        let setting = if is_ignoring { "ignore_index" } else { "reduction" };
        return Err(TypeIssue::new(format!("`{setting}` is for targets of one class per row"))
            .at(1, format!("this is {targets}"))
            .at_setting(setting)
            .help("give integers, or leave the setting out"));
    }
    Ok(Type { dtype: logits.dtype, shape: rows.to_vec() })
}

fn of_classes(b: &mut Builder, call: &Lowering) -> Value {
    let [logits, given] = [call.inputs[0], call.inputs[1]];
    let (weights, smoothing) = (call.inputs.get(2).copied(), call.attrs.float("label_smoothing"));
    let ignore = call.attrs.get("ignore_index").clone();
    let attrs = Attrs::default().with("ignore_index", ignore);
    let rows = checked(b.call("cross_entropy_rows", &[logits, given], attrs));
    let targets = match (weights, call.attrs.get("ignore_index")) {
        // Every row has the weight 1, so only the number of rows matters.
        (None, Attr::None) => Targets { class: given, counts: None },
        _ => targets(b, given, n_classes(b, logits), call.attrs),
    };
    let weight = row_weight(b, rows[0], &targets, weights);
    let loss = weighted(b, rows[0], weight.filter(|_| weights.is_some()));
    let loss = match smoothing {
        0.0 => loss,
        _ => {
            let spread = spread(b, logits, rows[1], weights);
            let spread = masked(b, spread, &targets);
            b.map(&[loss, spread], |v| v[0] * (1.0 - smoothing) + v[1] * smoothing)
        }
    };
    averaged(b, loss, weight, call.attrs)
}

/// The mean over all classes of their negative log-probabilities times their weights, row by row.
fn spread(b: &mut Builder, logits: Value, log_sum_exp: Value, weights: Option<Value>) -> Value {
    let x = b.widen(logits);
    let classes = b.ty(x).rank() - 1;
    let log_sum_exp = b.unreduce(log_sum_exp, &[classes], x);
    let costs = b.sub(log_sum_exp, x);
    let costs = class_weighted(b, costs, weights);
    b.mean(costs, &[classes])
}

/// Numbers by class times the weights of the classes.
fn class_weighted(b: &mut Builder, x: Value, weights: Option<Value>) -> Value {
    let Some(weights) = weights else { return x };
    let n = n_classes(b, x);
    let first = b.slice(weights, &[0], &[n], &[1]);
    let weight = b.cast(first, b.dtype(x));
    b.map(&[x, weight], |v| v[0] * v[1])
}

/// `-Σ w·((1 - ε)·t + ε/V)·log_softmax(x)` of each row.
fn of_shares(b: &mut Builder, call: &Lowering) -> Value {
    let [logits, shares] = [call.inputs[0], call.inputs[1]].map(|x| b.widen(x));
    let (classes, n_classes) = (b.ty(logits).rank() - 1, n_classes(b, logits));
    let smoothing = call.attrs.float("label_smoothing");
    let logs = checked(b.call("log_softmax", &[logits], Attrs::default()))[0];
    let costs = b.map(&[logs, shares], |v| {
        let share =
            if smoothing == 0.0 { v[1] } else { v[1] * (1.0 - smoothing) + smoothing / n_classes as f64 };
        -(v[0] * share)
    });
    let costs = class_weighted(b, costs, call.inputs.get(2).copied());
    let loss = b.sum(costs, &[classes]);
    averaged(b, loss, None, call.attrs)
}

fn n_classes(b: &Builder, logits: Value) -> usize {
    b.extents(logits).last().copied().unwrap_or_default()
}

fn by_row(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let x = b.widen(call.inputs[0]);
    let classes = b.ty(x).rank() - 1;
    let targets = targets(b, call.inputs[1], n_classes(b, x), call.attrs);
    let largest = b.reduce(Monoid::Max, x, &[classes]);
    let reference = b.unreduce(largest, &[classes], x);
    let shifted = b.sub(x, reference);
    let exps = b.unary(Unary::Exp, shifted);
    let total = b.sum(exps, &[classes]);
    let log = b.unary(Unary::Log, total);
    let picked = pick(b, shifted, targets.class);
    let loss = b.sub(log, picked);
    let loss = masked(b, loss, &targets);
    let log_sum_exp = b.add(log, largest);
    vec![loss, log_sum_exp]
}

/// `softmax(x)·(g + h) - onehot(t)·g` for upstream gradients g of the loss and h of the log-sum-exp, with
/// `softmax(x) = exp(x - log_sum_exp)`; the part of g is 0 for ignored rows.
fn softmax_minus_one_hot(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let x = b.widen(call.inputs[0]);
    let classes = b.ty(x).rank() - 1;
    let log_sum_exp = b.unreduce(call.outputs[1], &[classes], x);
    let of_loss = call.grads[0].map(|g| loss_part(b, x, log_sum_exp, g, call));
    let of_log_sum_exp = call.grads[1].map(|h| {
        let h = b.unreduce(h, &[classes], x);
        b.map(&[x, log_sum_exp, h], |v| (v[0] - v[1]).exp() * v[2])
    });
    let dx = match (of_loss, of_log_sum_exp) {
        (Some(a), Some(c)) => Some(b.add(a, c)),
        (one, other) => one.or(other),
    };
    vec![dx.map(|dx| b.cast(dx, b.dtype(call.inputs[0]))), None]
}

fn loss_part(b: &mut Builder, x: Value, log_sum_exp: Value, g: Value, call: &GradCall) -> Value {
    let (dtype, classes) = (b.dtype(x), b.ty(x).rank() - 1);
    let target = b.cast(call.inputs[1], DType::I32);
    let target = b.unreduce(target, &[classes], x);
    let g = b.unreduce(g, &[classes], x);
    let class = b.iota(classes, b.ty(x).with_dtype(DType::I32));
    let dx = b.map(&[x, log_sum_exp, class, target, g], |v| {
        ((v[0] - v[1]).exp() - E::select(v[2].eq(v[3]), 1.0, 0.0).cast(dtype)) * v[4]
    });
    match call.attrs.opt_int("ignore_index") {
        Some(ignored) => b.map(&[target, dx], |v| E::select(v[0].eq(ignored), 0.0, v[1])),
        None => dx,
    }
}
