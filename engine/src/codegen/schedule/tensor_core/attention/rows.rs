//! Rows of scores as the kernel computes them: what scores are made of, and which keys a block of rows sees.

use crate::codegen::analysis::online_softmax::{OnlineSoftmax, Reference};
use crate::codegen::analysis::operands::operands;
use crate::fusion::{AttentionBody, Class, FusedBody, FusedOp, Reg};
use crate::ir::{Binary, DType, Scalar};

/// The rows of scores of an attention, as an online softmax.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScoreRows {
    /// The score.
    pub score: Reg,
    /// The score where coordinates hide no key, if that is another register.
    pub unmasked: Option<Reg>,
    /// The product with a positive constant that comes before all else of a score, and the bits of the constant.
    scale: Option<(Reg, u64)>,
    /// The largest score of a row.
    pub largest: Reg,
    /// Whether a row is compared with 0 where its largest score is `-inf`, and where it is `inf`.
    pub zero_for: [bool; 2],
    /// `exp(score - reference)`.
    pub exp: Reg,
    /// The sum of these.
    pub sum: Reg,
    /// The instructions after the last key.
    pub last: Vec<Reg>,
    /// The queries after which the numbers of queries start again.
    pub period: usize,
    /// The first visible key and the first one after them, relative to the number of the query.
    pub bounds: [Option<i64>; 2],
}

impl ScoreRows {
    /// The rows of an attention, if they are an online softmax of scores in `f32` or less, relative to the largest one.
    pub fn of(body: &AttentionBody) -> Option<ScoreRows> {
        let softmax = OnlineSoftmax::of(body)?;
        let OnlineSoftmax { score, largest, reference, exp, sum, last, visible, .. } = softmax;
        let zero_for = match reference {
            Reference::Zero => return None,
            Reference::Largest => [false, false],
            Reference::LargestOrZero => [true, false],
            Reference::FiniteOrZero => [true, true],
        };
        let is_single = body.rows.insts.iter().all(|inst| inst.dtype != DType::F64);
        let bounds = [visible.first, visible.end];
        let period = if bounds == [None; 2] { body.m } else { visible.period.min(body.batch * body.m) };
        let is_periodic = body.m.is_multiple_of(period) || period.is_multiple_of(body.m);
        let unmasked = visible.unmasked.filter(|&reg| reg != score);
        let scale = scale(&body.rows, score);
        (is_single && is_periodic && period <= body.m).then_some(ScoreRows {
            score,
            unmasked,
            scale,
            largest: largest?,
            zero_for,
            exp,
            sum,
            last,
            period,
            bounds,
        })
    }

    /// The constant factor of all scores, and the register of their product with it, if the exponential may take it over.
    pub fn scale(&self, has_fast_math: bool) -> Option<(Reg, f64)> {
        self.scale.filter(|_| has_fast_math).map(|(reg, bits)| (reg, f64::from_bits(bits)))
    }
}

/// The registers that one needs, ascending.
pub fn needed(body: &FusedBody, root: Reg) -> Vec<Reg> {
    let mut is_needed = vec![false; root + 1];
    is_needed[root] = true;
    for reg in (0..=root).rev() {
        if is_needed[reg] {
            operands(&body.insts[reg].op).into_iter().for_each(|arg| is_needed[arg] = true);
        }
    }
    (0..=root).filter(|&reg| is_needed[reg]).collect()
}

/// The product of the accumulator with a positive constant, if nothing else reads the accumulator and the score is this
/// product or, where it is hidden, `-inf`.
fn scale(body: &FusedBody, score: Reg) -> Option<(Reg, u64)> {
    let needed = needed(body, score);
    let n_users = |reg: Reg| {
        let users = needed.iter().flat_map(|&user| operands(&body.insts[user].op));
        users.filter(|&arg| arg == reg).count()
    };
    let constant = |reg: Reg| match &body.insts[reg].op {
        FusedOp::Const(value) => Some(value.as_f64()),
        _ => None,
    };
    let mut at = score;
    loop {
        let FusedOp::Scalar(op, args) = &body.insts[at].op else { return None };
        match (op, &args[..]) {
            (Scalar::Select, &[condition, seen, hidden]) => {
                let is_hidden = |reg: Reg| constant(reg) == Some(f64::NEG_INFINITY);
                at = match [is_hidden(seen), is_hidden(hidden)] {
                    [false, true] => seen,
                    [true, false] => hidden,
                    _ => return None,
                };
                if n_users(at) != 1 || at == condition {
                    return None;
                }
            }
            (Scalar::Binary(Binary::Mul), &[a, b]) => {
                let (x, factor) = constant(b)
                    .map(|factor| (a, factor))
                    .or_else(|| constant(a).map(|factor| (b, factor)))?;
                let is_product = body.insts[x].op == FusedOp::Accumulator && n_users(x) == 1;
                let is_plain = body.insts[at].class == Class::Element && body.insts[at].dtype == DType::F32;
                let is_positive = factor > 0.0 && factor.is_finite();
                return (is_product && is_plain && is_positive).then_some((at, factor.to_bits()));
            }
            _ => return None,
        }
    }
}
