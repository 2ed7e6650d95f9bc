//! The negative log-likelihood.

use super::rows::{attrs, expect_per_class, masked, pick, reduce, row_type, targets};
use engine_core::ir::{Type, Unary};
use engine_core::op::OpForm;

/// `-x[t]` for log-probabilities x f[…, V] and targets t i[…], averaged over the rows that count. With class weights,
/// the mean is weighted by `weight[t]`. A target outside `0..V` is an index error.
pub fn nll_loss() -> OpForm {
    OpForm::new("nll_loss", "Takes the negative log-probability of each row's target, by default averaged.")
        .input("log_probs", "log-probabilities, classes along the last axis")
        .input("targets", "one class per row")
        .optional("weight", "the weight of each class in the mean")
        .results(&["loss"])
        .attrs(attrs(&["mean", "sum", "none"]))
        .types(|types, attrs| {
            let rows = row_type("nll_loss", &types[0], &types[1])?;
            types.get(2).map_or(Ok(()), |weight| expect_per_class("nll_loss", &types[0], weight))?;
            Ok(vec![match attrs.str("reduction") {
                "none" => rows,
                _ => Type::scalar(rows.dtype),
            }])
        })
        .expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let n_classes = b.extents(x).last().copied().unwrap_or_default();
            let targets = targets(b, call.inputs[1], n_classes, call.attrs);
            let picked = pick(b, x, targets.class);
            let loss = b.unary(Unary::Neg, picked);
            let loss = masked(b, loss, &targets);
            let y = reduce(b, loss, &targets, call.inputs.get(2).copied(), call.attrs);
            vec![b.cast(y, b.dtype(call.inputs[0]))]
        })
        .tested_on(-2.0, 0.0)
        .example(
            "the mean of two rows",
            "nll_loss(a, b)",
            &[("f32[2, 2]", &[-0.25, -1.5, -3., -0.05]), ("i32[2]", &[1., 0.])],
            &[("f32[]", &[2.25])],
        )
        .example(
            "classes that weigh 1 and 3",
            "nll_loss(a, b, c)",
            &[("f32[2, 2]", &[-0.25, -1.5, -3., -0.05]), ("i32[2]", &[1., 0.]), ("f32[2]", &[1., 3.])],
            &[("f32[]", &[1.875])],
        )
}
