//! Instructions joined into one loop: what a chain of them would write and read again stays in registers.

use super::super::loops::{Arithmetic, has_affine_loop};
use super::{Arg, Dest, Inst, Op, Term};
use engine_core::fusion::Reg;
use engine_core::ir::{Binary, DType, Scalar, Unary};
use std::collections::HashMap;

/// Joins instructions of one list. `uses` counts the readers of each register anywhere; `is_scalar` tells which
/// arguments are one value for the whole block.
pub(super) fn join(insts: &mut Vec<Inst>, uses: &HashMap<Reg, usize>, is_scalar: &dyn Fn(Arg) -> bool) {
    let mut joiner = Joiner { insts, uses, is_scalar, is_taken: vec![] };
    joiner.is_taken = vec![false; joiner.insts.len()];
    for at in (0..joiner.insts.len()).rev() {
        if joiner.is_taken[at] || joiner.join_random(at) {
            continue;
        }
        if joiner.is_f32(at) && !joiner.join_pair(at) {
            joiner.join_affine(at);
        }
    }
    let mut is_taken = joiner.is_taken.into_iter();
    insts.retain(|_| !is_taken.next().unwrap_or(false));
}

/// How often each register is read in some lists.
pub(super) fn count_uses<'i>(insts: impl Iterator<Item = &'i Inst>) -> HashMap<Reg, usize> {
    let mut uses = HashMap::new();
    insts.flat_map(|inst| inst.op.args()).for_each(|reg| *uses.entry(reg).or_default() += 1);
    uses
}

struct Joiner<'a> {
    insts: &'a mut Vec<Inst>,
    uses: &'a HashMap<Reg, usize>,
    is_scalar: &'a dyn Fn(Arg) -> bool,
    is_taken: Vec<bool>,
}

impl Joiner<'_> {
    fn is_f32(&self, at: usize) -> bool {
        matches!(&self.insts[at].op, Op::Scalar { dtype: DType::F32, .. })
            && self.insts[at].dtype == DType::F32
    }

    /// The operation and operands of an arithmetic instruction.
    fn arithmetic(&self, at: usize) -> Option<(Binary, [Arg; 2])> {
        match &self.insts[at].op {
            Op::Scalar { op: Scalar::Binary(op), args, .. } if Arithmetic::of(*op).is_some() => {
                Some((*op, [args[0], args[1]]))
            }
            _ => None,
        }
    }

    /// Where an argument is computed, if nothing but this one instruction reads it.
    fn maker(&self, arg: Arg, before: usize) -> Option<usize> {
        let Arg::Local(reg) = arg else { return None };
        let at = self.insts[..before].iter().rposition(|inst| inst.reg == reg)?;
        let is_free = !self.is_taken[at] && self.insts[at].dest == Dest::None;
        (is_free && self.uses.get(&reg) == Some(&1)).then_some(at)
    }

    fn f32_maker(&self, arg: Arg, before: usize) -> Option<usize> {
        self.maker(arg, before).filter(|&at| self.is_f32(at))
    }

    /// `f32(random >> shift)`
    fn join_random(&mut self, at: usize) -> bool {
        let Op::Scalar { op: Scalar::Cast(DType::F32), dtype: DType::U32, args } = &self.insts[at].op else {
            return false;
        };
        let Some(shr) = self.maker(args[0], at) else { return false };
        let Op::Scalar { op: Scalar::Binary(Binary::Shr), args, .. } = &self.insts[shr].op else {
            return false;
        };
        let by = args[1];
        let Some(random) = self.maker(args[0], shr).filter(|_| (self.is_scalar)(by)) else { return false };
        let mut op = self.insts[random].op.clone();
        let Op::Random { shift: shift @ None, .. } = &mut op else { return false };
        *shift = Some(by);
        self.insts[at].op = op;
        (self.is_taken[shr], self.is_taken[random]) = (true, true);
        true
    }

    /// `second(first(a, b), c)`
    fn join_pair(&mut self, at: usize) -> bool {
        let Some((op, args)) = self.arithmetic(at) else { return false };
        for (which, other) in [(0, 1), (1, 0)] {
            let second = Arithmetic::of(op).and_then(|op| if which == 0 { Some(op) } else { op.flipped() });
            let maker = self.f32_maker(args[which], at).filter(|&maker| self.arithmetic(maker).is_some());
            let (Some(second), Some(maker)) = (second, maker) else { continue };
            let Some((first, [a, b])) = self.arithmetic(maker) else { continue };
            let Some(first) = Arithmetic::of(first) else { continue };
            self.is_taken[maker] = true;
            self.insts[at].op = Op::Pair { first, second, args: [a, b, args[other]] };
            return true;
        }
        false
    }

    /// `slow(x · scale + shift)`
    fn join_affine(&mut self, at: usize) {
        let Op::Scalar { op: Scalar::Unary(op), args, .. } = &self.insts[at].op else { return };
        if !has_affine_loop(*op) {
            return;
        }
        let (op, mut x) = (*op, args[0]);
        let (mut scale, mut shift) = (Term::default(), Term::default());
        if let Some((maker, rest, term)) = self.shifted(x, at) {
            (x, shift) = (rest, term);
            self.is_taken[maker] = true;
        }
        if let Some((maker, rest, term)) = self.scaled(x, at) {
            (x, scale) = (rest, term);
            self.is_taken[maker] = true;
        }
        if scale != Term::default() || shift != Term::default() {
            self.insts[at].op = Op::Affine { op, x, scale, shift };
        }
    }

    /// `x + s` or `x - s`
    fn shifted(&self, sum: Arg, before: usize) -> Option<(usize, Arg, Term)> {
        let maker = self.f32_maker(sum, before)?;
        let (op, [a, b]) = self.arithmetic(maker)?;
        match op {
            Binary::Add | Binary::Sub if (self.is_scalar)(b) && !(self.is_scalar)(a) => {
                Some((maker, a, Term { value: Some(b), is_negated: op == Binary::Sub }))
            }
            Binary::Add if (self.is_scalar)(a) && !(self.is_scalar)(b) => {
                Some((maker, b, Term { value: Some(a), is_negated: false }))
            }
            _ => None,
        }
    }

    /// `x · s` or `-x`
    fn scaled(&self, product: Arg, before: usize) -> Option<(usize, Arg, Term)> {
        let maker = self.f32_maker(product, before)?;
        if let Op::Scalar { op: Scalar::Unary(Unary::Neg), args, .. } = &self.insts[maker].op {
            return Some((maker, args[0], Term { value: None, is_negated: true }));
        }
        let (Binary::Mul, [a, b]) = self.arithmetic(maker)? else { return None };
        match ((self.is_scalar)(a), (self.is_scalar)(b)) {
            (false, true) => Some((maker, a, Term { value: Some(b), is_negated: false })),
            (true, false) => Some((maker, b, Term { value: Some(a), is_negated: false })),
            _ => None,
        }
    }
}
