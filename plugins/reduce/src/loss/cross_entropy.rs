//! Cross-entropy of logits against classes.

use super::rows::{Targets, attrs, expect_per_class, ignore_index, masked, pick, reduce, row_type, targets};
use engine_core::ir::{Attr, Attrs, Builder, DType, E, Monoid, Type, Unary, Value};
use engine_core::op::{Grad, GradCall, Lowering, OpForm, TypeIssue};
use std::f64::consts::LN_2;

/// `ln Σ exp x - x[t]` for logits x f[…, V] and targets t i[…], computed in f32 or wider and by default averaged over
/// the rows that count. `byte_mean` weighs each row by `token_bytes[t]`. A target outside `0..V` is an index error.
pub fn cross_entropy() -> OpForm {
    OpForm::new(
        "cross_entropy",
        "Computes the cross-entropy of logits against target classes, by default averaged over rows.",
    )
    .input("logits", "scores, classes along the last axis")
    .input("targets", "one class per row")
    .optional("token_bytes", "the weight of each class, for `reduction=byte_mean` alone")
    .results(&["loss"])
    .attrs(attrs(&["mean", "sum", "none", "byte_mean"]))
    .types(loss_types)
    .expand(|b, call| vec![averaged(b, call)])
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
    let rows = row_type("cross_entropy", &types[0], &types[1])?;
    match (attrs.str("reduction"), types.get(2)) {
        ("byte_mean", None) => {
            return Err(TypeIssue::new("`reduction=byte_mean` needs the operand `token_bytes`")
                .help("call it as `cross_entropy(logits, targets, token_bytes, reduction=byte_mean)`"));
        }
        ("byte_mean", Some(bytes)) => expect_per_class("cross_entropy", &types[0], bytes)?,
        (reduction, Some(bytes)) => {
            return Err(TypeIssue::new(format!("`reduction={reduction}` has no use for `token_bytes`"))
                .at(2, format!("this is {bytes}"))
                .help("leave it out, or set `reduction=byte_mean`"));
        }
        (_, None) => {}
    }
    Ok(vec![match attrs.str("reduction") {
        "none" => rows,
        _ => Type::scalar(rows.dtype),
    }])
}

fn averaged(b: &mut Builder, call: &Lowering) -> Value {
    let [logits, given] = [call.inputs[0], call.inputs[1]];
    let ignore = call.attrs.get("ignore_index").clone();
    let rows = b
        .call("cross_entropy_rows", &[logits, given], Attrs::default().with("ignore_index", ignore))
        .unwrap_or_else(|issue| engine_core::bug!("the type rule let this pass: {}", issue.message));
    let targets = match (call.inputs.get(2), call.attrs.get("ignore_index")) {
        // Every row has the weight 1, so only the number of rows matters.
        (None, Attr::None) => Targets { class: given, counts: None },
        _ => targets(b, given, n_classes(b, logits), call.attrs),
    };
    let loss = reduce(b, rows[0], &targets, call.inputs.get(2).copied(), call.attrs);
    b.cast(loss, b.dtype(logits))
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
