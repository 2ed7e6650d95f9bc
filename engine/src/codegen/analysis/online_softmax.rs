//! Rows of scores as an online softmax.
//!
//! A softmax needs the largest score and the sum of exponentials of a whole row. Kept as running values, they allow tiles of
//! keys one after another (Milakov and Gimelshein 2018): a larger maximum scales the sums down. So no row of scores is
//! stored, as in FlashAttention (Dao et al. 2022).

use super::operands::{operands, with_registers};
use super::visible_keys::VisibleKeys;
use crate::fusion::{AttentionBody, Class, FusedBody, FusedInst, FusedOp, Reg};
use crate::ir::{Binary, Literal, Monoid, Scalar, Unary};
use std::collections::HashMap;

/// The value that scores are compared with before they are exponentiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// 0: the row is not shifted.
    Zero,
    /// The largest score. A row of `-inf` alone yields NaN.
    Largest,
    /// The largest score, or 0 where it is `-inf`.
    LargestOrZero,
    /// The largest score, or 0 where it is infinite.
    FiniteOrZero,
}

impl Reference {
    /// The reference of a row whose largest score is this.
    pub fn at(self, largest: f64) -> f64 {
        match self {
            Reference::Zero => 0.0,
            Reference::LargestOrZero if largest == f64::NEG_INFINITY => 0.0,
            Reference::FiniteOrZero if largest.is_infinite() => 0.0,
            _ => largest,
        }
    }
}

/// The body over rows of scores of an attention as an online softmax: `e = exp(score - reference)`, and a weight that is
/// `e` times a value of the row. All other values of rows follow from the largest score and the sum of `e`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OnlineSoftmax {
    /// The exponentiated score, computed at each point from the accumulator, operands and coordinates.
    pub score: Reg,
    /// The largest score of a row, if the row is shifted by it.
    pub largest: Option<Reg>,
    /// What is subtracted from scores.
    pub reference: Reference,
    /// `exp(score - reference)`.
    pub exp: Reg,
    /// The sum of exponentials of a row.
    pub sum: Reg,
    /// The instructions that compute the score, ascending.
    pub element: Vec<Reg>,
    /// The instructions that run once a row after its last key, ascending: stores, and what they and the weight need of
    /// the row. [`OnlineSoftmax::last_part`] is the body of them.
    pub last: Vec<Reg>,
    /// The keys that rows see.
    pub visible: VisibleKeys,
}

/// The body that runs once a row, after its last key.
#[derive(Clone, Debug, PartialEq)]
pub struct LastPart {
    /// The body, over rows of one point. It stores values of rows.
    pub body: FusedBody,
    /// The factor of the row's sum of values, each weighed by its exponential.
    pub factor: Reg,
}

impl OnlineSoftmax {
    /// The rows of an attention as an online softmax, if they are one.
    pub fn of(body: &AttentionBody) -> Option<OnlineSoftmax> {
        Finder { rows: &body.rows, weight: body.weight }.find()
    }

    /// The body that computes scores at points, and the register of the score in it. Where each key is visible to its
    /// query, the mask of coordinates may be left out.
    pub fn score_part(&self, rows: &FusedBody, all_visible: bool) -> (FusedBody, Reg) {
        let score = self.visible.unmasked.filter(|_| all_visible).unwrap_or(self.score);
        super::operands::needed_by(rows, score)
    }

    /// The body that runs after the last key. Operations to read the largest score and the sum are given; the first is
    /// not used without a shift.
    pub fn last_part(&self, rows: &FusedBody, weight: Reg, [largest, sum]: [FusedOp; 2]) -> LastPart {
        let mut insts = vec![];
        let mut renamed: HashMap<Reg, Reg> = HashMap::new();
        for &reg in &self.last {
            let inst = &rows.insts[reg];
            let op = match reg {
                reg if reg == self.exp => FusedOp::Const(Literal::Float(1.0)),
                reg if Some(reg) == self.largest => largest.clone(),
                reg if reg == self.sum => sum.clone(),
                _ => with_registers(&inst.op, |arg| renamed[&arg]),
            };
            let class = match &op {
                FusedOp::Const(_) => Class::Uniform,
                _ => inst.class.min(Class::Row),
            };
            renamed.insert(reg, insts.len());
            insts.push(FusedInst { op, dtype: inst.dtype, class });
        }
        let mut domain = rows.domain;
        domain.row = 1;
        LastPart { body: FusedBody { domain, insts }, factor: renamed[&weight] }
    }
}

struct Finder<'a> {
    rows: &'a FusedBody,
    weight: Reg,
}

impl Finder<'_> {
    fn find(&self) -> Option<OnlineSoftmax> {
        let (largest, sum) = self.reductions()?;
        let exp = self.exponential(self.reduced(sum))?;
        let (score, reference) = self.shifted(exp, largest)?;
        let linear = self.linear_chain(exp)?;
        let element = self.needed([score], &[]);
        let mut roots = vec![self.weight];
        let is_store = |reg: &Reg| matches!(self.rows.insts[*reg].op, FusedOp::Store { .. });
        roots.extend((0..self.rows.insts.len()).filter(is_store));
        let cut: Vec<Reg> = [exp, sum].into_iter().chain(largest).collect();
        let last = self.needed(roots, &cut);
        let is_of_row = |&reg: &Reg| self.rows.insts[reg].class <= Class::Row || linear.contains(&reg);
        let is_plain =
            |&reg: &Reg| !matches!(self.rows.insts[reg].op, FusedOp::Check { .. } | FusedOp::Fold { .. });
        // Everything else leads from the score to the exponential and on to the weight.
        let reduces = |&reg: &Reg| matches!(self.rows.insts[reg].op, FusedOp::Reduce { .. });
        let fits = last.iter().all(is_of_row)
            && (0..self.rows.insts.len()).all(|reg| is_plain(&reg))
            && !element.iter().any(reduces);
        let visible = VisibleKeys::of(self.rows, score);
        fits.then_some(OnlineSoftmax { score, largest, reference, exp, sum, element, last, visible })
    }

    /// The only reductions: a maximum, if any, and a sum.
    fn reductions(&self) -> Option<(Option<Reg>, Reg)> {
        let reductions: Vec<(Reg, Monoid)> = self
            .rows
            .insts
            .iter()
            .enumerate()
            .filter_map(|(reg, inst)| match inst.op {
                FusedOp::Reduce { monoid, .. } => Some((reg, monoid)),
                _ => None,
            })
            .collect();
        match reductions[..] {
            [(sum, Monoid::Sum)] => Some((None, sum)),
            [(largest, Monoid::Max), (sum, Monoid::Sum)] => Some((Some(largest), sum)),
            _ => None,
        }
    }

    /// The register that a reduction combines.
    fn reduced(&self, reduction: Reg) -> Reg {
        match self.rows.insts[reduction].op {
            FusedOp::Reduce { value, .. } => value,
            _ => crate::bug!("%{reduction} reduces nothing"),
        }
    }

    fn scalar(&self, reg: Reg) -> Option<(&Scalar, &[Reg])> {
        match &self.rows.insts[reg].op {
            FusedOp::Scalar(op, args) => Some((op, args)),
            _ => None,
        }
    }

    fn is_element(&self, reg: Reg) -> bool {
        self.rows.insts[reg].class == Class::Element
    }

    /// The exponential at the end of a chain of conversions.
    fn exponential(&self, mut reg: Reg) -> Option<Reg> {
        loop {
            match self.scalar(reg)? {
                (Scalar::Unary(Unary::Exp), _) if self.is_element(reg) => return Some(reg),
                (Scalar::Cast(dtype), args) if dtype.is_float() => reg = args[0],
                _ => return None,
            }
        }
    }

    /// The score in `exp(score - reference)`, and the reference.
    fn shifted(&self, exp: Reg, largest: Option<Reg>) -> Option<(Reg, Reference)> {
        let argument = self.scalar(exp)?.1[0];
        let Some(largest) = largest else {
            return self.is_element(argument).then_some((argument, Reference::Zero));
        };
        let (Scalar::Binary(Binary::Sub), &[score, shift]) = self.scalar(argument)? else { return None };
        let is_same = self.reduced(largest) == score && self.is_element(score);
        is_same.then_some((score, self.reference(shift, largest)?))
    }

    /// A value of a row as a reference.
    fn reference(&self, shift: Reg, largest: Reg) -> Option<Reference> {
        if shift == largest {
            return Some(Reference::Largest);
        }
        let (Scalar::Select, &[condition, zero, kept]) = self.scalar(shift)? else { return None };
        if kept != largest || self.constant(zero) != Some(0.0) {
            return None;
        }
        let (Scalar::Binary(Binary::Eq), &[a, b]) = self.scalar(condition)? else { return None };
        let (tested, limit) = match (self.constant(a), self.constant(b)) {
            (None, Some(limit)) => (a, limit),
            (Some(limit), None) => (b, limit),
            _ => return None,
        };
        if tested == largest && limit == f64::NEG_INFINITY {
            return Some(Reference::LargestOrZero);
        }
        let size_of_largest =
            matches!(self.scalar(tested), Some((Scalar::Unary(Unary::Abs), args)) if args[0] == largest);
        (size_of_largest && limit == f64::INFINITY).then_some(Reference::FiniteOrZero)
    }

    fn constant(&self, reg: Reg) -> Option<f64> {
        match &self.rows.insts[reg].op {
            FusedOp::Const(literal) => Some(literal.as_f64()),
            FusedOp::Scalar(Scalar::Cast(_), args) => self.constant(args[0]),
            _ => None,
        }
    }

    /// The registers from the exponential to the weight, each of which is the one before it times a value of the row.
    fn linear_chain(&self, exp: Reg) -> Option<Vec<Reg>> {
        let (mut at, mut chain) = (self.weight, vec![exp]);
        while at != exp {
            chain.push(at);
            at = match self.scalar(at)? {
                (Scalar::Cast(dtype), &[x]) if dtype.is_float() => x,
                (Scalar::Unary(Unary::Neg), &[x]) => x,
                (Scalar::Binary(Binary::Div), &[x, row]) if !self.is_element(row) => x,
                (Scalar::Binary(Binary::Mul), &[x, row]) if !self.is_element(row) => x,
                (Scalar::Binary(Binary::Mul), &[row, x]) if !self.is_element(row) => x,
                (Scalar::Select, &[condition, x, other]) if !self.is_element(condition) => {
                    match (self.constant(x), self.constant(other)) {
                        (None, Some(0.0)) => x,
                        (Some(0.0), None) => other,
                        _ => return None,
                    }
                }
                _ => return None,
            };
        }
        Some(chain)
    }

    /// The instructions that registers need, ascending; those of `cut` need nothing.
    fn needed(&self, roots: impl IntoIterator<Item = Reg>, cut: &[Reg]) -> Vec<Reg> {
        let mut is_needed = vec![false; self.rows.insts.len()];
        roots.into_iter().for_each(|reg| is_needed[reg] = true);
        for reg in (0..is_needed.len()).rev() {
            if is_needed[reg] && !cut.contains(&reg) {
                operands(&self.rows.insts[reg].op).into_iter().for_each(|arg| is_needed[arg] = true);
            }
        }
        (0..is_needed.len()).filter(|&reg| is_needed[reg]).collect()
    }
}
