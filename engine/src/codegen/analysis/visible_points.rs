//! The keys that matter to values at the points of a gradient of attention.

use super::visible_keys::VisibleKeys;
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use crate::ir::{Binary, Scalar, Unary};

/// The keys for which some of these registers may be other than 0: they are products with exponentials of a score, which
/// is `-inf` at hidden keys. All keys if that is not known.
pub fn visible_points(body: &FusedBody, values: &[Reg]) -> VisibleKeys {
    let mut scores = values.iter().map(|&value| score_of(body, value));
    let first = scores.next().flatten();
    let score = first.filter(|first| scores.all(|score| score == Some(*first)));
    match score {
        Some(score) if !body.has_checks() => VisibleKeys::of(body, score),
        _ => VisibleKeys::all(body),
    }
}

/// The score that makes a register 0 where it is `-inf`.
fn score_of(body: &FusedBody, reg: Reg) -> Option<Reg> {
    let FusedOp::Scalar(op, args) = &body.insts[reg].op else { return None };
    let is_element = |reg: Reg| body.insts[reg].class == Class::Element;
    match (op, &args[..]) {
        (Scalar::Unary(Unary::Exp), &[x]) => match &body.insts[x].op {
            FusedOp::Scalar(Scalar::Binary(Binary::Sub), args) if !is_element(args[1]) => Some(args[0]),
            _ => Some(x),
        },
        (Scalar::Binary(Binary::Mul), &[a, b]) => score_of(body, a).or_else(|| score_of(body, b)),
        (Scalar::Binary(Binary::Div), &[a, _]) => score_of(body, a),
        (Scalar::Unary(Unary::Neg) | Scalar::Cast(_), &[x]) => score_of(body, x),
        (Scalar::Select, &[_, x, other]) if is_zero(body, other) => score_of(body, x),
        (Scalar::Select, &[_, other, x]) if is_zero(body, other) => score_of(body, x),
        _ => None,
    }
}

fn is_zero(body: &FusedBody, reg: Reg) -> bool {
    matches!(body.insts[reg].op, FusedOp::Const(literal) if literal.as_f64() == 0.0)
}
