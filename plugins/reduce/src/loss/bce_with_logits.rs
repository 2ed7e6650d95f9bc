//! Binary cross-entropy of logits.

use super::reduction::{REDUCTIONS, expect_alike, reduced, reduced_type, reduction};
use engine_core::ir::{E, Type, broadcast_shapes};
use engine_core::op::{OpForm, TypeIssue};

/// `-w·t·ln σ(x) - (1 - t)·ln(1 - σ(x))` for logits x, targets t from 0 to 1 and a weight w of 1 unless given, by default
/// averaged (PyTorch's `binary_cross_entropy_with_logits`). It is computed as `(1 - t)·(max(x, 0) + l) + w·t·(max(-x, 0) + l)`
/// with `l = ln(1 + e^-|x|)`, which neither overflows nor cancels.
pub fn bce_with_logits() -> OpForm {
    OpForm::new(
        "bce_with_logits",
        "Computes the binary cross-entropy of logits against probabilities, by default averaged.",
    )
    .input("logits", "scores, each of one class against its opposite")
    .input("target", "probabilities of the same type")
    .optional("pos_weight", "the weight of the class; it broadcasts to the logits")
    .results(&["loss"])
    .attr(reduction(REDUCTIONS))
    .types(|types, attrs| {
        expect_alike("bce_with_logits", &types[..2])?;
        types.get(2).map_or(Ok(()), |weight| expect_weight(&types[0], weight))?;
        Ok(vec![reduced_type(&types[0], attrs)])
    })
    .expand(|b, call| {
        let operands: Vec<_> = call.inputs.iter().map(|&x| b.widen(x)).collect();
        let losses = b.map(&operands, |v| loss(v[0], v[1], v.get(2).copied()));
        vec![reduced(b, losses, b.dtype(call.inputs[0]), call.attrs)]
    })
    .example(
        "an even chance costs ln 2, certainty nothing",
        "bce_with_logits(a, b, reduction=\"none\")",
        &[("f32[3]", &[0.0, 1000.0, -1000.0]), ("f32[3]", &[1.0, 1.0, 0.0])],
        &[("f32[3]", &[std::f64::consts::LN_2, 0.0, 0.0])],
    )
    .example(
        "a wrong certainty costs its logit, times the weight of the class",
        "bce_with_logits(a, b, c, reduction=\"none\")",
        &[("f32[2]", &[-1000.0, 1000.0]), ("f32[2]", &[1.0, 0.0]), ("f32[1]", &[3.0])],
        &[("f32[2]", &[3000.0, 1000.0])],
    )
}

fn expect_weight(logits: &Type, weight: &Type) -> Result<(), TypeIssue> {
    let over = broadcast_shapes(&[logits.clone(), weight.clone()]);
    if weight.dtype == logits.dtype && over.as_deref() == Some(&logits.shape[..]) {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`bce_with_logits` of {logits} with weights {weight}"))
        .at(2, format!("this is {weight}"))
        .help(format!(
            "weights are of {}, and their trailing axes agree with the logits or are 1",
            logits.dtype
        )))
}

/// The exponent is never positive, so that neither the value nor its derivative overflows.
fn loss(x: E, target: E, pos_weight: Option<E>) -> E {
    let is_right = x.gt(0.0);
    let log = E::select(is_right, -x, x).exp().log1p();
    let negative = (1.0 - target) * (E::select(is_right, x, 0.0) + log);
    let positive = target * (E::select(is_right, 0.0, -x) + log);
    negative + pos_weight.map_or(positive, |weight| weight * positive)
}
