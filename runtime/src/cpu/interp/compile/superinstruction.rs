//! Superinstructions: chains of primitives that one loop computes.

use super::super::address::Address;
use super::super::program::{Arg, Dest, Inst, Layout, Op, Program, Sharing, Spread, Superinstruction, Term};
use engine_core::fusion::{Class, FusedBody, Reg};
use engine_core::ir::{Binary, DType, Scalar, Unary};
use engine_numerics::loops::{Arithmetic, has_affine_loop};
use std::collections::HashMap;

/// A superinstruction and the instructions that it replaces, besides the last of the chain.
type Match = (Superinstruction, Vec<usize>);

/// Joins chains of primitives in each pass.
pub(super) fn join(program: &mut Program, body: &FusedBody, layout: Layout) {
    let is_scalar = |arg: Arg| match arg {
        Arg::Uniform(_) => true,
        Arg::Local(reg) => {
            let inst = body.insts.get(reg);
            layout.spread == Spread::One && inst.is_some_and(|inst| inst.class == Class::Row)
        }
    };
    let of_rows: Vec<Reg> = program
        .passes
        .iter()
        .flat_map(|pass| &pass.row)
        .chain(&program.last_row)
        .flat_map(|inst| inst.op.args())
        .collect();
    let everywhere = count_uses(&of_rows, program.passes.iter().flat_map(|pass| &pass.element));
    for pass in &mut program.passes {
        // Each pass over rows that are not resident recomputes the values that it reads.
        let uses = match layout.is_resident {
            true => &everywhere,
            false => &count_uses(&of_rows, pass.element.iter()),
        };
        let is_replaced = vec![false; pass.element.len()];
        let sharing = layout.sharing;
        Joiner { insts: &mut pass.element, uses, is_scalar: &is_scalar, sharing, is_replaced }.join();
    }
}

/// How often each register is read, by row instructions and others.
fn count_uses<'i>(of_rows: &[Reg], insts: impl Iterator<Item = &'i Inst>) -> HashMap<Reg, usize> {
    let mut uses = HashMap::new();
    let reads = insts.flat_map(|inst| inst.op.args()).chain(of_rows.iter().copied());
    reads.for_each(|reg| *uses.entry(reg).or_default() += 1);
    uses
}

struct Joiner<'a> {
    insts: &'a mut Vec<Inst>,
    uses: &'a HashMap<Reg, usize>,
    /// Whether an argument is one value for the whole block.
    is_scalar: &'a dyn Fn(Arg) -> bool,
    sharing: &'a [Sharing],
    is_replaced: Vec<bool>,
}

impl Joiner<'_> {
    /// Replaces chains that end at an instruction; later instructions come first.
    fn join(mut self) {
        for at in (0..self.insts.len()).rev() {
            if self.is_replaced[at] {
                continue;
            }
            let found = self.shifted_random(at).or_else(|| self.parts(at)).or_else(|| self.pair(at));
            let found = found.or_else(|| self.affine(at));
            if let Some((op, replaced)) = found {
                self.insts[at].op = Op::Super(op);
                replaced.into_iter().for_each(|at| self.is_replaced[at] = true);
            }
        }
        let mut is_replaced = self.is_replaced.into_iter();
        self.insts.retain(|_| !is_replaced.next().unwrap_or(false));
    }

    fn is_f32(&self, at: usize) -> bool {
        matches!(&self.insts[at].op, Op::Scalar { dtype: DType::F32, .. })
            && self.insts[at].dtype == DType::F32
    }

    /// The operation and operands of an arithmetic instruction.
    fn arithmetic(&self, at: usize) -> Option<(Arithmetic, [Arg; 2])> {
        let Op::Scalar { op: Scalar::Binary(op), args, .. } = &self.insts[at].op else { return None };
        Some((Arithmetic::of(*op)?, [args[0], args[1]]))
    }

    /// The instruction that computes an argument, if the argument has no other reader.
    fn maker(&self, arg: Arg, before: usize) -> Option<usize> {
        let Arg::Local(reg) = arg else { return None };
        let at = self.insts[..before].iter().rposition(|inst| inst.reg == reg)?;
        let is_free = !self.is_replaced[at] && self.insts[at].dest == Dest::None;
        (is_free && self.uses.get(&reg) == Some(&1)).then_some(at)
    }

    fn f32_maker(&self, arg: Arg, before: usize) -> Option<usize> {
        self.maker(arg, before).filter(|&at| self.is_f32(at))
    }

    /// `f32(bits >> shift)`
    fn shifted_random(&self, at: usize) -> Option<Match> {
        let Op::Scalar { op: Scalar::Cast(DType::F32), dtype: DType::U32, args } = &self.insts[at].op else {
            return None;
        };
        let shr = self.maker(args[0], at)?;
        let Op::Scalar { op: Scalar::Binary(Binary::Shr), args, .. } = &self.insts[shr].op else {
            return None;
        };
        let shift = args[1];
        let random = self.maker(args[0], shr).filter(|_| (self.is_scalar)(shift))?;
        let Op::Random(draw) = &self.insts[random].op else { return None };
        Some((Superinstruction::ShiftedRandom { draw: draw.clone(), shift }, vec![shr, random]))
    }

    /// `base + part + part + …` of two parts at least. With disjoint parts, each point has a part that is 0 there.
    fn parts(&self, at: usize) -> Option<Match> {
        let (mut parts, mut replaced) = (vec![], vec![]);
        let mut sum = at;
        let base = loop {
            let (base, load, part) = self.with_part(sum)?;
            parts.push(part);
            replaced.push(load);
            match self.f32_maker(base, sum).filter(|&maker| self.with_part(maker).is_some()) {
                Some(maker) => sum = maker,
                None => break base,
            }
            replaced.push(sum);
        };
        parts.reverse();
        (parts.len() > 1).then_some((Superinstruction::Parts { base, parts }, replaced))
    }

    /// A sum with an operand that is 0 at some points and that nothing else reads: the other argument, the load, and the operand.
    fn with_part(&self, at: usize) -> Option<(Arg, usize, (usize, Address))> {
        let (Arithmetic::Add, args) = self.arithmetic(at).filter(|_| self.is_f32(at))? else { return None };
        [(0, 1), (1, 0)].into_iter().find_map(|(base, part)| {
            let load = self.maker(args[part], at)?;
            let Op::Load { operand, address, index: None, .. } = &self.insts[load].op else { return None };
            let is_overwritten = self.sharing.iter().any(|sharing| match sharing {
                Sharing::Alone => false,
                Sharing::InPlace(read) => read == operand,
                Sharing::Overlaps => true,
            });
            let is_part = address.is_zero_outside() && !is_overwritten && args[base] != args[part];
            is_part.then(|| (args[base], load, (*operand, address.clone())))
        })
    }

    /// `second(first(a, b), c)`
    fn pair(&self, at: usize) -> Option<Match> {
        let (op, args) = self.arithmetic(at).filter(|_| self.is_f32(at))?;
        [(0, 1), (1, 0)].into_iter().find_map(|(which, other)| {
            let second = if which == 0 { op } else { op.flipped()? };
            let maker = self.f32_maker(args[which], at)?;
            let (first, [a, b]) = self.arithmetic(maker)?;
            Some((Superinstruction::Pair { first, second, args: [a, b, args[other]] }, vec![maker]))
        })
    }

    /// `slow(x · scale + shift)`
    fn affine(&self, at: usize) -> Option<Match> {
        let Op::Scalar { op: Scalar::Unary(op), args, .. } = &self.insts[at].op else { return None };
        if !self.is_f32(at) || !has_affine_loop(*op) {
            return None;
        }
        let (mut x, mut replaced) = (args[0], vec![]);
        let mut take = |found: Option<(usize, Arg, Term)>, x: &mut Arg| {
            let (maker, rest, term) = found?;
            replaced.push(maker);
            *x = rest;
            Some(term)
        };
        let shift = take(self.shifted(x, at), &mut x).unwrap_or_default();
        let scale = take(self.scaled(x, at), &mut x).unwrap_or_default();
        (!replaced.is_empty()).then_some((Superinstruction::Affine { op: *op, x, scale, shift }, replaced))
    }

    /// `x + s` or `x - s`
    fn shifted(&self, sum: Arg, before: usize) -> Option<(usize, Arg, Term)> {
        let maker = self.f32_maker(sum, before)?;
        match self.with_scalar(maker)? {
            (op @ (Arithmetic::Add | Arithmetic::Sub), x, s) => {
                Some((maker, x, Term { value: Some(s), is_negated: op == Arithmetic::Sub }))
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
        let (Arithmetic::Mul, x, s) = self.with_scalar(maker)? else { return None };
        Some((maker, x, Term { value: Some(s), is_negated: false }))
    }

    /// The operation and operands of an arithmetic instruction on a block and a scalar, in this order.
    fn with_scalar(&self, at: usize) -> Option<(Arithmetic, Arg, Arg)> {
        let (op, [a, b]) = self.arithmetic(at)?;
        match ((self.is_scalar)(a), (self.is_scalar)(b)) {
            (false, true) => Some((op, a, b)),
            (true, false) => Some((op.flipped()?, b, a)),
            _ => None,
        }
    }
}
