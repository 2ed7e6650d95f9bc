//! Sorting instructions into passes.

use super::super::address::Address;
use super::super::program::{Arg, Dest, Draw, Index, Inst, Layout, Op, Pass, Program, Spread};
use super::super::scalar::MAX_ARITY;
use super::super::view::literal_bits;
use engine_core::codegen::operands;
use engine_core::fusion::{Class, FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::Scalar;
use std::collections::HashMap;

/// The instructions of a body, sorted into passes; results have no slots yet.
pub(super) fn sorted(body: &FusedBody, layout: Layout) -> Program {
    let mut compiler = Compiler::new(body, layout);
    compiler.place_values();
    compiler.sort_into_passes();
    compiler.program
}

struct Compiler<'t> {
    body: &'t FusedBody,
    layout: Layout<'t>,
    /// For each register, the number of reductions before it along the longest path.
    pass_of: Vec<usize>,
    /// For each register, the place of its value, if that is no slot.
    places: Vec<Dest>,
    /// For each index reduction, the place of its extreme values.
    best: HashMap<Reg, usize>,
    program: Program,
}

impl<'t> Compiler<'t> {
    fn new(body: &'t FusedBody, layout: Layout<'t>) -> Compiler<'t> {
        let mut pass_of: Vec<usize> = vec![];
        for inst in &body.insts {
            let reads = operands(&inst.op).into_iter().map(|arg| pass_of[arg]).max().unwrap_or(0);
            pass_of.push(reads + matches!(inst.op, FusedOp::Reduce { .. }) as usize);
        }
        let program = Program { n_regs: body.insts.len(), widest: 1, ..Program::default() };
        Compiler { body, layout, pass_of, places: vec![], best: HashMap::new(), program }
    }

    fn place_values(&mut self) {
        for (reg, inst) in self.body.insts.iter().enumerate() {
            let place = match (&inst.op, inst.class) {
                (FusedOp::Store { .. }, _) | (_, Class::Element) => Dest::None,
                (_, Class::Uniform) => {
                    self.program.n_uniforms += 1;
                    Dest::Uniform(self.program.n_uniforms - 1)
                }
                (_, Class::Row) => Dest::Row(self.row_place(Some(reg))),
            };
            if let (FusedOp::Const(literal), Dest::Uniform(place)) = (&inst.op, place) {
                self.program.constants.push((place, inst.dtype, *literal));
            }
            if matches!(&inst.op, FusedOp::Reduce { monoid, .. } if monoid.is_index()) {
                let place = self.row_place(None);
                self.best.insert(reg, place);
            }
            self.program.widest = self.program.widest.max(inst.dtype.size());
            self.places.push(place);
        }
    }

    fn row_place(&mut self, of: Option<Reg>) -> usize {
        self.program.row_regs.push(of);
        self.program.row_regs.len() - 1
    }

    fn sort_into_passes(&mut self) {
        // A reduction belongs to the pass of its value.
        let insts = self.body.insts.iter().enumerate();
        let pass_of: Vec<usize> =
            insts.map(|(reg, inst)| self.pass_of[reg] - is_reduce(inst) as usize).collect();
        let regs = 0..self.body.insts.len();
        let at_points = regs.clone().filter(|&reg| self.runs_at_points(reg));
        let n_passes = at_points.map(|reg| pass_of[reg]).max().map_or(1, |last| last + 1);
        let mut expanded: HashMap<Reg, Reg> = HashMap::new();
        for number in 0..n_passes {
            let in_pass = |reg: &Reg| self.runs_at_points(*reg) && pass_of[*reg] == number;
            let mut regs: Vec<Reg> = regs.clone().filter(in_pass).collect();
            if !self.layout.is_resident {
                expanded.clear();
                regs = self.needed(regs);
            }
            let element = self.lower_all(&regs, &mut expanded);
            self.program.passes.push(Pass { row: vec![], element });
        }
        regs.for_each(|reg| self.place_outside_blocks(reg));
    }

    /// Whether an instruction runs on blocks.
    fn runs_at_points(&self, reg: Reg) -> bool {
        let inst = &self.body.insts[reg];
        inst.class == Class::Element || is_reduce(inst)
    }

    /// Adds an instruction on uniform or row values.
    fn place_outside_blocks(&mut self, reg: Reg) {
        let inst = &self.body.insts[reg];
        if self.runs_at_points(reg) || matches!(inst.op, FusedOp::Const(_)) {
            return;
        }
        let lowered = self.lower(reg, &mut |arg| arg);
        let Program { uniform, passes, last_row, .. } = &mut self.program;
        match inst.class {
            Class::Uniform => uniform.push(lowered),
            _ => passes.get_mut(self.pass_of[reg]).map_or(last_row, |pass| &mut pass.row).push(lowered),
        }
    }

    /// The writes, checks and reductions of a pass and the instructions on blocks that they need, in order.
    fn needed(&self, pass: Vec<Reg>) -> Vec<Reg> {
        let insts = &self.body.insts;
        let mut needed = vec![false; insts.len()];
        for reg in pass {
            needed[reg] = matches!(
                insts[reg].op,
                FusedOp::Reduce { .. } | FusedOp::Store { .. } | FusedOp::Check { .. }
            );
        }
        // Only values at the points are recomputed: row values outlive a pass.
        for reg in (0..insts.len()).rev() {
            if needed[reg] {
                let at_points = |arg: &Reg| insts[*arg].class == Class::Element;
                operands(&insts[reg].op).into_iter().filter(at_points).for_each(|arg| needed[arg] = true);
            }
        }
        (0..insts.len()).filter(|&reg| needed[reg]).collect()
    }

    fn lower_all(&mut self, regs: &[Reg], expanded: &mut HashMap<Reg, Reg>) -> Vec<Inst> {
        let mut lowered = vec![];
        for &reg in regs {
            let inst = &self.body.insts[reg];
            let by_row = self.index_by_row(&inst.op);
            for arg in operands(&inst.op) {
                if self.must_expand(arg) && !by_row && !expanded.contains_key(&arg) {
                    let fresh = self.program.n_regs;
                    self.program.n_regs += 1;
                    expanded.insert(arg, fresh);
                    let (op, dtype) = (Op::Expand(Arg::Local(arg)), self.body.insts[arg].dtype);
                    lowered.push(Inst::new(op, dtype, fresh, Dest::None));
                }
            }
            let mut rename = |arg: Reg| if by_row { arg } else { expanded.get(&arg).copied().unwrap_or(arg) };
            lowered.push(self.lower(reg, &mut rename));
        }
        lowered
    }

    fn must_expand(&self, arg: Reg) -> bool {
        self.body.insts[arg].class == Class::Row && matches!(self.layout.spread, Spread::Each | Spread::Whole)
    }

    /// Whether a load runs row by row, because it has one index for each row.
    fn index_by_row(&self, op: &FusedOp) -> bool {
        let FusedOp::Load { index: Some((reg, _)), .. } = op else { return false };
        self.body.insts[*reg].class == Class::Row && matches!(self.layout.spread, Spread::Each | Spread::One)
    }

    fn lower(&self, reg: Reg, rename: &mut dyn FnMut(Reg) -> Reg) -> Inst {
        let inst = &self.body.insts[reg];
        let by_row = inst.class == Class::Element && self.index_by_row(&inst.op);
        let mut arg = |arg: Reg| match self.places[arg] {
            Dest::Uniform(place) => Arg::Uniform(place),
            _ => Arg::Local(rename(arg)),
        };
        let dtype_of = |reg: Reg| self.body.insts[reg].dtype;
        let index_of = |(reg, stride): (Reg, i64), by_row: bool, arg: &mut dyn FnMut(Reg) -> Arg| Index {
            reg: arg(reg),
            dtype: dtype_of(reg),
            stride,
            by_row,
        };
        let op = match &inst.op {
            FusedOp::Load { operand, access, index } => {
                let index = index.map(|index| index_of(index, by_row, &mut arg));
                let address = Address::with_fills(access, |fill| literal_bits(fill, inst.dtype));
                Op::Load { operand: *operand, address, index, is_copied: false }
            }
            FusedOp::Const(_) => panic!("bug: a constant is not an instruction"),
            FusedOp::Coord(access) => Op::Coord(Address::new(access)),
            FusedOp::Random { stream, step, iteration, access } => Op::Random(Draw {
                stream: *stream,
                step: arg(*step),
                iteration: iteration.map(&mut arg),
                address: Address::new(access),
            }),
            FusedOp::Scalar(op, args) => {
                assert!(args.len() <= MAX_ARITY, "bug: `{}` has too many operands", op.name());
                let dtype = dtype_of(args[matches!(op, Scalar::Select) as usize]);
                Op::Scalar { op: op.clone(), dtype, args: args.iter().map(|&reg| arg(reg)).collect() }
            }
            FusedOp::Check { value, requirement, site, access } => Op::Check {
                value: arg(*value),
                requirement: *requirement,
                site: *site,
                address: Address::new(access),
            },
            FusedOp::Reduce { monoid, value } => Op::Reduce {
                monoid: *monoid,
                value: arg(*value),
                dtype: dtype_of(*value),
                best: self.best.get(&reg).copied().unwrap_or(0),
            },
            FusedOp::Accumulator => Op::Accumulator { is_second: false },
            FusedOp::SecondAccumulator => Op::Accumulator { is_second: true },
            FusedOp::Fold { value } => Op::Fold(arg(*value)),
            FusedOp::Store { operand, access, value, index } => {
                let (value, index) = (arg(*value), index.map(|index| index_of(index, false, &mut arg)));
                Op::Store { operand: *operand, address: Address::new(access), value, index }
            }
        };
        Inst::new(op, inst.dtype, reg, self.places[reg])
    }
}

fn is_reduce(inst: &FusedInst) -> bool {
    matches!(inst.op, FusedOp::Reduce { .. })
}
