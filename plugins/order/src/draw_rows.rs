//! `draw_rows`.

use crate::draw_code::DrawCode;
use crate::draw_fold::{Cuts, Draw};
use crate::rank_words::Order;
use crate::topk_gpu::selection;
use engine_core::device_model::DeviceModel;
use engine_core::ir::{Attrs, DType, Dim, MOST_SELECTED, Type};
use engine_core::op::gpu::BlockFold;
use engine_core::op::kernel::KernelCall;
use engine_core::op::{AttrKind, AttrSpec, KernelForm, Lower, OpForm, RowReduction, TypeIssue};
use engine_core::oracle::OracleTensor;
use std::cmp::Ordering;
use std::sync::Arc;

/// Tokens drawn, with replacement, from the softmax of the `k` largest logits of each row over a temperature. Ties go to
/// the lower token. The distribution is cut to the shortest prefix in falling order with a share of at least `top_p`, and
/// to tokens at least `min_p` times as likely as the first, which always stays. The uniform numbers select by the inverse
/// of the cumulative distribution. A row without a distribution draws -1: all of it is -inf, or some of it NaN or inf.
/// `sample_logits` is the op for any number of candidates and any floats.
pub fn draw_rows() -> OpForm {
    let reduction = RowReduction::new(|call| Box::new(Draw::new(k(call), cuts(call)))).on_gpu(block_fold);
    OpForm::new(
        "draw_rows",
        "Draws tokens from the softmax of the k largest logits of each row, in one kernel.",
    )
    .input("logits", "f32[…, V], unnormalised log-probabilities")
    .input("uniform", "f32[…, n], numbers in (0, 1) that decide, one for each token drawn")
    .results(&["tokens"])
    .attr(AttrSpec::must("k", "how many of the largest logits stay, up to 512", AttrKind::Int))
    .attr(AttrSpec::float("temperature", "the divisor of the logits, above 0", 1.0))
    .attr(AttrSpec::float("top_p", "the share that must stay", 1.0).between(0.0, 1.0))
    .attr(AttrSpec::float("min_p", "the least probability, relative to the largest", 0.0).between(0.0, 1.0))
    .types(|types, attrs| Ok(vec![token_type(&types[0], &types[1], attrs)?]))
    .lower(Lower::Kernel(KernelForm::of_rows(&reduction, Arc::new(oracle))))
    .no_grad("a token is piecewise constant")
    .example(
        "equal logits share, and the lower token comes first",
        "draw_rows(a, b, k=2)",
        &[("f32[1, 4]", &[0., 1., 1., 1.]), ("f32[1, 2]", &[0.49, 0.51])],
        &[("i32[1, 2]", &[1., 2.])],
    )
    .example(
        "weights 4, 3 and 2, of which the first two stay",
        "draw_rows(a, b, k=3, top_p=0.7)",
        &[
            (
                "f32[2, 4]",
                &[
                    0.,
                    std::f64::consts::LN_2,
                    1.0986123,
                    1.3862944,
                    1.3862944,
                    1.0986123,
                    std::f64::consts::LN_2,
                    0.,
                ],
            ),
            ("f32[2, 1]", &[0.56, 0.58]),
        ],
        &[("i32[2, 1]", &[3., 1.])],
    )
    .example(
        "a row with NaN behind the first logits",
        "draw_rows(a, b, k=2)",
        &[("f32[1, 4]", &[0., 1., 1., f64::NAN]), ("f32[1, 1]", &[0.5])],
        &[("i32[1, 1]", &[-1.])],
    )
}

fn token_type(logits: &Type, uniform: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    for (operand, ty) in [logits, uniform].into_iter().enumerate() {
        ty.expect_dtype("draw_rows", operand, |dtype| dtype == DType::F32, "f32")?;
    }
    let (Some((n, rows)), Some((_, of_uniform))) = (logits.shape.split_last(), uniform.shape.split_last())
    else {
        return Err(TypeIssue::new(format!("`draw_rows` of {logits} by {uniform}")).help("both have rows"));
    };
    if rows != of_uniform {
        return Err(TypeIssue::new(format!("`draw_rows` of {logits} by {uniform}"))
            .at(1, format!("this is {uniform}"))
            .help("both have as many rows"));
    }
    let k = attrs.int("k");
    let most = if let Dim::Fixed(n) = n { MOST_SELECTED.min(*n) } else { MOST_SELECTED };
    if k < 1 || k as usize > most {
        return Err(TypeIssue::new(format!("`draw_rows` of k = {k} from {logits}"))
            .at(0, format!("this is {logits}"))
            .help(format!("k is 1 to {most}")));
    }
    match attrs.float("temperature") > 0.0 {
        true => Ok(uniform.with_dtype(DType::I32)),
        false => Err(TypeIssue::new("a temperature that is not above 0").at_setting("temperature")),
    }
}

fn k(call: &KernelCall) -> usize {
    call.attrs().int("k") as usize
}

fn cuts(call: &KernelCall) -> Cuts {
    let [temperature, top_p, min_p] =
        ["temperature", "top_p", "min_p"].map(|name| call.attrs().float(name) as f32);
    // A quotient by zero would have no order.
    Cuts { temperature: temperature.max(f32::MIN_POSITIVE), top_p, min_p }
}

/// NaN comes first, so that a row with NaN is known by its first element.
fn block_fold(call: &KernelCall, device: &DeviceModel) -> Result<Arc<dyn BlockFold>, &'static str> {
    let order = Order { dtype: DType::F32, is_descending: true, is_nan_first: true };
    let ending = DrawCode { cuts: cuts(call), n_draws: n_draws(call) };
    selection(k(call), order, call.rows().1, Arc::new(ending), device)
}

/// Tokens drawn from each row.
fn n_draws(call: &KernelCall) -> usize {
    call.outputs[0].extents().last().copied().unwrap_or(0)
}

fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let ((n_rows, n), n_draws) = (call.rows(), n_draws(call));
    let mut tokens = vec![];
    for row in 0..n_rows {
        let logits: Vec<f64> = (row * n..(row + 1) * n).map(|i| args[0].float(i)).collect();
        let law = law(call, &logits);
        tokens.extend((row * n_draws..(row + 1) * n_draws).map(|i| chosen(&law, args[1].float(i))));
    }
    let ty = &call.outputs[0];
    vec![OracleTensor::ints(ty.dtype, &ty.extents(), tokens)]
}

/// The tokens that can be drawn from a row, with their probabilities. They fall.
fn law(call: &KernelCall, logits: &[f64]) -> Vec<(usize, f64)> {
    let [temperature, top_p, min_p] = ["temperature", "top_p", "min_p"].map(|name| call.attrs().float(name));
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap_or(Ordering::Equal));
    order.truncate(k(call));
    let largest = logits[order[0]];
    if !largest.is_finite() || logits.iter().any(|x| x.is_nan()) {
        return vec![];
    }
    let weights: Vec<f64> = order.iter().map(|&i| ((logits[i] - largest) / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut before = 0.0;
    let mut law = vec![];
    for (token, weight) in order.into_iter().zip(weights) {
        let stays = before < top_p * total && weight >= min_p && weight > 0.0;
        if stays || law.is_empty() {
            law.push((token, weight));
        }
        before += weight;
    }
    law
}

/// The token that a uniform number selects, or -1 if there is none.
fn chosen(law: &[(usize, f64)], uniform: f64) -> i64 {
    let total: f64 = law.iter().map(|(_, weight)| weight).sum();
    let mut so_far = 0.0;
    for &(token, weight) in law {
        so_far += weight;
        if so_far > uniform * total || so_far >= total {
            return token as i64;
        }
    }
    -1
}
