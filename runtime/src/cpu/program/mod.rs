//! Tiles made ready to run: half precision spelled out as casts, registers placed in scratch, instructions sorted into
//! passes over a row.
//!
//! A pass is what can be computed between two reductions. If a row's block stays in scratch, a value is computed in
//! one pass and kept for the later ones; rows too long for that are walked once a pass, and values are computed again.

mod fetch;
mod loops;
mod slots;
mod widen;

use super::address::Address;
use super::loops::Arithmetic;
use super::scalar::{MAX_ARITY, literal_bits};
use engine_core::fusion::{Class, FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::{DType, Literal, Monoid, NodeId, Requirement, Scalar, Unary};
pub use fetch::Fetch;
use slots::Slots;
use std::collections::HashMap;
use widen::widened;

/// How a value of a row reaches the points of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// A block holds one row: the value is a scalar.
    One,
    /// A block holds several rows, one after another: each value is repeated.
    Each,
    /// A block holds one point of each of its rows: the values are the block.
    Along,
    /// A block holds several points of each of its rows: the values are repeated as a whole.
    Whole,
}

/// What a tile is compiled for.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// How row values spread.
    pub spread: Spread,
    /// Whether a block holds whole rows, so that it outlives a pass.
    pub is_resident: bool,
    /// Whether the points of a block follow each other, so that results can be written where they belong.
    pub is_contiguous: bool,
    /// By operand: whether its memory is read as well, so that it must be written after that.
    pub sharing: &'a [Sharing],
}

/// Where an argument is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A value of the whole kernel.
    Uniform(usize),
    /// A register of the block or of its rows.
    Local(Reg),
}

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// To the uniform values.
    Uniform(usize),
    /// To a place among the values of the rows.
    Row(usize),
    /// To a slot of the block.
    Slot(usize),
    /// Straight to an operand, at the points' own elements.
    Operand(usize),
    /// There is none.
    None,
}

/// A factor or summand that is one value for a whole block; by itself, the one that changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// The value, if not that.
    pub value: Option<Arg>,
    /// Whether its negative is meant.
    pub is_negated: bool,
}

/// What memory a written operand shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// None.
    Alone,
    /// All of it, element by element, with this operand, which is read.
    InPlace(usize),
    /// Some.
    Overlaps,
}

/// How a computed index enters a load.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// The index.
    pub reg: Arg,
    /// Its type.
    pub dtype: DType,
    /// Elements a unit of it moves.
    pub stride: i64,
    /// Whether there is one for each row of the block, rather than for each point.
    pub by_row: bool,
}

/// What an instruction does; the counterpart of [`FusedOp`].
#[derive(Clone, Debug)]
pub enum Op {
    /// Reads an operand; a copy of its elements if they are overwritten before their last use.
    Load { operand: usize, address: Address, index: Option<Index>, is_copied: bool },
    /// A coordinate.
    Coord(Address),
    /// Random bits; with a shift, what is left of them after it, as f32.
    Random { stream: u32, step: Arg, iteration: Option<Arg>, address: Address, shift: Option<Arg> },
    /// A scalar primitive on arguments of this type.
    Scalar { op: Scalar, dtype: DType, args: Vec<Arg> },
    /// Two operations on f32 in one loop: `second(first(a, b), c)`.
    Pair { first: Arithmetic, second: Arithmetic, args: [Arg; 3] },
    /// A slow function of f32, `op(x · scale + shift)`, each step rounded.
    Affine { op: Unary, x: Arg, scale: Term, shift: Term },
    /// A check; the address leads to the position that an error names.
    Check { value: Arg, requirement: Requirement, site: NodeId, address: Address },
    /// Repeats row values over the points of a block.
    Expand(Arg),
    /// Combines along the row; `best` is the place of the extreme values of an index reduction.
    Reduce { monoid: Monoid, value: Arg, dtype: DType, best: usize },
    /// The accumulator of a contraction.
    Accumulator,
    /// Writes an operand.
    Store { operand: usize, address: Address, value: Arg },
    /// Holds a value until the launch has handed it to what folds the rows.
    Fold(Arg),
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// Type of the result.
    pub dtype: DType,
    /// The register that it sets.
    pub reg: Reg,
    /// Where the result goes.
    pub dest: Dest,
    /// What is to be fetched for the next block meanwhile.
    pub ahead: Vec<Fetch>,
}

/// What happens between two reductions.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Once a row, before.
    pub row: Vec<Inst>,
    /// At each block; reductions among them.
    pub element: Vec<Inst>,
}

/// A compiled tile.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Once a launch.
    pub uniform: Vec<Inst>,
    /// Constants in the order of the tile: place among the uniform values, and bits.
    pub constants: Vec<(usize, DType, Literal)>,
    /// In order.
    pub passes: Vec<Pass>,
    /// Once a row, after all passes.
    pub last_row: Vec<Inst>,
    /// Number of registers.
    pub n_regs: usize,
    /// Number of uniform values.
    pub n_uniforms: usize,
    /// Number of places among the values of the rows.
    pub n_row_places: usize,
    /// Registers that live in those places, by place; `None` for extreme values.
    pub row_regs: Vec<Option<(Reg, DType)>>,
    /// Number of slots.
    pub n_slots: usize,
    /// Bytes of the widest value.
    pub widest: usize,
}

impl Program {
    /// All instructions.
    pub fn insts(&self) -> impl Iterator<Item = &Inst> {
        let passes = self.passes.iter().flat_map(|pass| pass.row.iter().chain(&pass.element));
        self.uniform.iter().chain(passes).chain(&self.last_row)
    }
}

/// Compiles a tile.
pub fn compile(tile: &FusedBody, layout: Layout) -> Program {
    let tile = widened(tile);
    let mut compiler = Compiler::new(&tile, layout);
    compiler.place_values();
    compiler.sort_into_passes();
    compiler.place_slots();
    compiler.program
}

/// The same tile without its writes: what is left are the checks and what they need.
pub fn checks_only(tile: &FusedBody) -> FusedBody {
    needed_only(tile, |reg| matches!(tile.insts[reg].op, FusedOp::Check { .. })).0
}

/// The part of a tile that computes a register, and that register in it.
pub fn value_only(tile: &FusedBody, value: Reg) -> (FusedBody, Reg) {
    let (tile, renamed) = needed_only(tile, |reg| reg == value);
    (tile, renamed[value])
}

/// What is wanted of a tile and what that needs, and the new numbers of its registers.
fn needed_only(tile: &FusedBody, is_wanted: impl Fn(Reg) -> bool) -> (FusedBody, Vec<Reg>) {
    let mut needed = vec![false; tile.insts.len()];
    for (reg, inst) in tile.insts.iter().enumerate().rev() {
        needed[reg] |= is_wanted(reg);
        if needed[reg] {
            args(&inst.op).into_iter().for_each(|arg| needed[arg] = true);
        }
    }
    let mut insts = vec![];
    let mut renamed = vec![0; tile.insts.len()];
    for (reg, inst) in tile.insts.iter().enumerate().filter(|(reg, _)| needed[*reg]) {
        renamed[reg] = insts.len();
        insts.push(FusedInst { op: with_args(&inst.op, |arg| renamed[arg]), ..inst.clone() });
    }
    (FusedBody { insts, ..tile.clone() }, renamed)
}

/// The registers that an instruction reads.
fn args(op: &FusedOp) -> Vec<Reg> {
    match op {
        FusedOp::Load { index, .. } => index.iter().map(|(reg, _)| *reg).collect(),
        FusedOp::Const(_) | FusedOp::Coord(_) | FusedOp::Accumulator => vec![],
        FusedOp::Random { step, iteration, .. } => [*step].into_iter().chain(*iteration).collect(),
        FusedOp::Scalar(_, args) => args.clone(),
        FusedOp::Check { value, .. }
        | FusedOp::Reduce { value, .. }
        | FusedOp::Store { value, .. }
        | FusedOp::Fold { value } => vec![*value],
    }
}

fn with_args(op: &FusedOp, rename: impl Fn(Reg) -> Reg) -> FusedOp {
    let mut op = op.clone();
    match &mut op {
        FusedOp::Load { index, .. } => index.iter_mut().for_each(|(reg, _)| *reg = rename(*reg)),
        FusedOp::Const(_) | FusedOp::Coord(_) | FusedOp::Accumulator => {}
        FusedOp::Random { step, iteration, .. } => {
            *step = rename(*step);
            iteration.iter_mut().for_each(|reg| *reg = rename(*reg));
        }
        FusedOp::Scalar(_, args) => args.iter_mut().for_each(|reg| *reg = rename(*reg)),
        FusedOp::Check { value, .. }
        | FusedOp::Reduce { value, .. }
        | FusedOp::Store { value, .. }
        | FusedOp::Fold { value } => {
            *value = rename(*value);
        }
    }
    op
}

// ---- Compilation.

struct Compiler<'t> {
    tile: &'t FusedBody,
    layout: Layout<'t>,
    /// By register: the number of reductions before it, along the longest path.
    pass_of: Vec<usize>,
    /// By register: where its value lives, if not in a slot.
    places: Vec<Dest>,
    /// By reduction: the place of its extreme values.
    best: HashMap<Reg, usize>,
    program: Program,
}

impl<'t> Compiler<'t> {
    fn new(tile: &'t FusedBody, layout: Layout<'t>) -> Compiler<'t> {
        let mut pass_of: Vec<usize> = vec![];
        for inst in &tile.insts {
            let reads = args(&inst.op).into_iter().map(|arg| pass_of[arg]).max().unwrap_or(0);
            pass_of.push(reads + matches!(inst.op, FusedOp::Reduce { .. }) as usize);
        }
        let program = Program { n_regs: tile.insts.len(), widest: 1, ..Program::default() };
        Compiler { tile, layout, pass_of, places: vec![], best: HashMap::new(), program }
    }

    fn place_values(&mut self) {
        for (reg, inst) in self.tile.insts.iter().enumerate() {
            let place = match (&inst.op, inst.class) {
                (FusedOp::Store { .. }, _) | (_, Class::Element) => Dest::None,
                (_, Class::Uniform) => {
                    self.program.n_uniforms += 1;
                    Dest::Uniform(self.program.n_uniforms - 1)
                }
                (_, Class::Row) => Dest::Row(self.row_place(Some((reg, inst.dtype)))),
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

    fn row_place(&mut self, of: Option<(Reg, DType)>) -> usize {
        self.program.row_regs.push(of);
        self.program.n_row_places += 1;
        self.program.n_row_places - 1
    }

    fn sort_into_passes(&mut self) {
        let insts = &self.tile.insts;
        // A reduction belongs to the pass of its value.
        let of_value = |(reg, inst): (Reg, &FusedInst)| self.pass_of[reg] - is_reduce(inst) as usize;
        let pass_of: Vec<usize> = insts.iter().enumerate().map(of_value).collect();
        let runs_at_points = |reg: Reg| insts[reg].class == Class::Element || is_reduce(&insts[reg]);
        let n_passes =
            (0..insts.len()).filter(|&r| runs_at_points(r)).map(|r| pass_of[r]).max().map_or(1, |p| p + 1);
        let mut passes: Vec<Pass> = vec![Pass::default(); n_passes];
        let mut expanded: HashMap<Reg, Reg> = HashMap::new();
        for (number, pass) in passes.iter_mut().enumerate() {
            if !self.layout.is_resident {
                expanded.clear();
            }
            let in_pass = |reg: &Reg| runs_at_points(*reg) && pass_of[*reg] == number;
            let regs = match self.layout.is_resident {
                true => (0..insts.len()).filter(in_pass).collect(),
                false => self.needed((0..insts.len()).filter(in_pass).collect()),
            };
            pass.element = self.lower_all(&regs, &mut expanded);
        }
        for (reg, inst) in insts.iter().enumerate() {
            if runs_at_points(reg) || matches!(inst.op, FusedOp::Const(_)) {
                continue;
            }
            let lowered = self.lower(reg, &mut |arg| arg);
            match inst.class {
                Class::Uniform => self.program.uniform.push(lowered),
                _ => passes
                    .get_mut(self.pass_of[reg])
                    .map_or(&mut self.program.last_row, |p| &mut p.row)
                    .push(lowered),
            }
        }
        self.program.passes = passes;
    }

    /// What the writes, checks and reductions of one pass need at its points, in order.
    fn needed(&self, pass: Vec<Reg>) -> Vec<Reg> {
        let insts = &self.tile.insts;
        let mut needed = vec![false; insts.len()];
        for reg in pass {
            needed[reg] = matches!(
                insts[reg].op,
                FusedOp::Reduce { .. } | FusedOp::Store { .. } | FusedOp::Check { .. }
            );
        }
        // Row values are there already; only what lives at the points is computed again.
        for reg in (0..insts.len()).rev() {
            if needed[reg] {
                let at_points = |arg: &Reg| insts[*arg].class == Class::Element;
                args(&insts[reg].op).into_iter().filter(at_points).for_each(|arg| needed[arg] = true);
            }
        }
        (0..insts.len()).filter(|&reg| needed[reg]).collect()
    }

    fn lower_all(&mut self, regs: &[Reg], expanded: &mut HashMap<Reg, Reg>) -> Vec<Inst> {
        let mut lowered = vec![];
        for &reg in regs {
            let inst = &self.tile.insts[reg];
            let by_row = self.index_by_row(&inst.op);
            for arg in args(&inst.op) {
                if self.must_expand(arg) && !by_row && !expanded.contains_key(&arg) {
                    let fresh = self.program.n_regs;
                    self.program.n_regs += 1;
                    expanded.insert(arg, fresh);
                    let (op, dtype) = (Op::Expand(Arg::Local(arg)), self.tile.insts[arg].dtype);
                    lowered.push(Inst { op, dtype, reg: fresh, dest: Dest::None, ahead: vec![] });
                }
            }
            let mut rename = |arg: Reg| if by_row { arg } else { expanded.get(&arg).copied().unwrap_or(arg) };
            lowered.push(self.lower(reg, &mut rename));
        }
        lowered
    }

    fn must_expand(&self, arg: Reg) -> bool {
        self.tile.insts[arg].class == Class::Row && matches!(self.layout.spread, Spread::Each | Spread::Whole)
    }

    /// A load whose index is one for each of several rows walks row by row.
    fn index_by_row(&self, op: &FusedOp) -> bool {
        let FusedOp::Load { index: Some((reg, _)), .. } = op else { return false };
        self.tile.insts[*reg].class == Class::Row && matches!(self.layout.spread, Spread::Each | Spread::One)
    }

    fn lower(&self, reg: Reg, rename: &mut dyn FnMut(Reg) -> Reg) -> Inst {
        let inst = &self.tile.insts[reg];
        let by_row = inst.class == Class::Element && self.index_by_row(&inst.op);
        let mut arg = |arg: Reg| match self.places[arg] {
            Dest::Uniform(place) => Arg::Uniform(place),
            _ => Arg::Local(rename(arg)),
        };
        let dtype_of = |reg: Reg| self.tile.insts[reg].dtype;
        let op = match &inst.op {
            FusedOp::Load { operand, access, index } => {
                let index =
                    index.map(|(reg, stride)| Index { reg: arg(reg), dtype: dtype_of(reg), stride, by_row });
                let address = Address::with_fills(access, |fill| literal_bits(fill, inst.dtype));
                Op::Load { operand: *operand, address, index, is_copied: false }
            }
            FusedOp::Const(_) => panic!("bug: a constant is not an instruction"),
            FusedOp::Coord(access) => Op::Coord(Address::new(access)),
            FusedOp::Random { stream, step, iteration, access } => Op::Random {
                stream: *stream,
                step: arg(*step),
                iteration: iteration.map(&mut arg),
                address: Address::new(access),
                shift: None,
            },
            FusedOp::Scalar(op, args) => {
                assert!(args.len() <= MAX_ARITY, "`{}` has too many operands", op.name());
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
            FusedOp::Accumulator => Op::Accumulator,
            FusedOp::Fold { value } => Op::Fold(arg(*value)),
            FusedOp::Store { operand, access, value } => {
                Op::Store { operand: *operand, address: Address::new(access), value: arg(*value) }
            }
        };
        Inst { op, dtype: inst.dtype, reg, dest: self.places[reg], ahead: vec![] }
    }

    /// Gives each result of a pass a slot, and takes it back after the last use; results that are only written out are
    /// computed where they go.
    fn place_slots(&mut self) {
        let mut passes = std::mem::take(&mut self.program.passes);
        self.join_loops(&mut passes);
        for pass in &mut passes {
            self.write_directly(&mut pass.element);
        }
        self.copy_overwritten(&mut passes);
        match self.layout.is_resident {
            true => self.fetch(passes.iter_mut().flat_map(|pass| &mut pass.element).collect()),
            false => passes.iter_mut().for_each(|pass| self.fetch(pass.element.iter_mut().collect())),
        }
        let mut slots = Slots::default();
        let is_resident = self.layout.is_resident;
        let lists: Vec<&mut Vec<Inst>> = passes.iter_mut().map(|pass| &mut pass.element).collect();
        let last_use = |lists: &[&mut Vec<Inst>]| {
            let mut last = HashMap::new();
            for (at, inst) in lists.iter().flat_map(|list| list.iter()).enumerate() {
                last.insert(inst.reg, at);
                inst.op.args().for_each(|arg| _ = last.insert(arg, at));
            }
            last
        };
        if is_resident {
            let last = last_use(&lists);
            let mut at = 0;
            for list in lists {
                at = slots.assign(list, &last, at);
            }
        } else {
            for list in lists {
                let last = last_use(&[&mut *list]);
                slots.free_all();
                slots.assign(list, &last, 0);
            }
        }
        self.program.n_slots = slots.n_slots;
        self.program.passes = passes;
    }

    fn fetch(&self, insts: Vec<&mut Inst>) {
        if self.layout.is_contiguous {
            fetch::spread(insts, self.layout.sharing, self.tile.domain.points(Class::Element));
        }
    }

    fn join_loops(&self, passes: &mut [Pass]) {
        let is_scalar = |arg: Arg| match arg {
            Arg::Uniform(_) => true,
            Arg::Local(reg) => {
                let inst = self.tile.insts.get(reg);
                self.layout.spread == Spread::One && inst.is_some_and(|inst| inst.class == Class::Row)
            }
        };
        let rows = |passes: &[Pass]| {
            let lists = passes.iter().flat_map(|pass| pass.row.clone());
            lists.chain(self.program.last_row.clone()).collect::<Vec<Inst>>()
        };
        let rows = rows(passes);
        let all =
            |passes: &[Pass]| loops::count_uses(passes.iter().flat_map(|pass| &pass.element).chain(&rows));
        let everywhere = all(passes);
        for pass in passes {
            // What is not resident is computed again by each pass that reads it.
            let uses = match self.layout.is_resident {
                true => everywhere.clone(),
                false => loops::count_uses(pass.element.iter().chain(&rows)),
            };
            loops::join(&mut pass.element, &uses, &is_scalar);
        }
    }

    fn write_directly(&self, insts: &mut Vec<Inst>) {
        if !self.layout.is_contiguous {
            return;
        }
        let n_points = self.tile.domain.points(Class::Element);
        let mut at = 0;
        while at < insts.len() {
            let target = self.direct_target(insts, at, n_points);
            let Some((maker, operand)) = target else {
                at += 1;
                continue;
            };
            insts[maker].dest = Dest::Operand(operand);
            insts.remove(at);
        }
    }

    /// A load yields a view of its operand's memory where it can. If a store in place changes that memory before the
    /// last use of the load, the load has to copy its elements.
    fn copy_overwritten(&mut self, passes: &mut [Pass]) {
        let sharing = self.layout.sharing;
        let lists = passes.iter_mut().flat_map(|pass| [&mut pass.row, &mut pass.element]);
        let mut insts: Vec<&mut Inst> =
            lists.chain([&mut self.program.last_row]).flat_map(|list| list.iter_mut()).collect();
        let mut last_use: HashMap<Reg, usize> = HashMap::new();
        for (at, inst) in insts.iter().enumerate() {
            inst.op.args().for_each(|arg| _ = last_use.insert(arg, at));
        }
        let writes: Vec<(usize, Sharing)> = insts
            .iter()
            .enumerate()
            .filter_map(|(at, inst)| Some((at, sharing[inst.written_operand()?])))
            .filter(|(_, sharing)| *sharing != Sharing::Alone)
            .collect();
        for inst in &mut insts {
            let last = last_use.get(&inst.reg).copied().unwrap_or(0);
            if let Op::Load { operand, is_copied, .. } = &mut inst.op {
                let overwrites = |sharing: Sharing| match sharing {
                    Sharing::Alone => false,
                    Sharing::InPlace(read) => read == *operand,
                    Sharing::Overlaps => true,
                };
                *is_copied = writes.iter().any(|&(at, sharing)| at < last && overwrites(sharing));
            }
        }
    }

    /// For a plain store: the instruction that may as well write the operand itself.
    fn direct_target(&self, insts: &[Inst], at: usize, n_points: usize) -> Option<(usize, usize)> {
        let Op::Store { operand, address, value: Arg::Local(value) } = &insts[at].op else { return None };
        if !address.is_identity(n_points) {
            return None;
        }
        let maker = insts.iter().position(|inst| inst.reg == *value)?;
        let computes = matches!(
            insts[maker].op,
            Op::Scalar { .. } | Op::Random { .. } | Op::Coord(_) | Op::Pair { .. } | Op::Affine { .. }
        );
        let is_free = match self.layout.sharing[*operand] {
            Sharing::Alone => true,
            Sharing::InPlace(read) => self.is_read_by_then(insts, read, maker, n_points),
            Sharing::Overlaps => false,
        };
        (computes && is_free && insts[maker].dest == Dest::None).then_some((maker, *operand))
    }

    /// Whether operand `read` is only read, point by point, before the instruction `maker` has written its result; a
    /// pair reads each vector before it writes there.
    fn is_read_by_then(&self, insts: &[Inst], read: usize, maker: usize, n_points: usize) -> bool {
        let is_pair = matches!(insts[maker].op, Op::Pair { .. });
        let is_late = |reg: Reg| {
            insts.iter().enumerate().any(|(at, inst)| {
                inst.op.args().any(|arg| arg == reg) && (at > maker || at == maker && !is_pair)
            })
        };
        self.program.passes.len() <= 1
            && insts.iter().all(|inst| match &inst.op {
                Op::Load { operand, address, index, .. } if *operand == read => {
                    index.is_none() && address.is_identity(n_points) && !is_late(inst.reg)
                }
                _ => true,
            })
    }
}

fn is_reduce(inst: &FusedInst) -> bool {
    matches!(inst.op, FusedOp::Reduce { .. })
}

impl Inst {
    /// The operand that it writes, if it writes one.
    fn written_operand(&self) -> Option<usize> {
        match (&self.op, &self.dest) {
            (Op::Store { operand, .. }, _) | (_, Dest::Operand(operand)) => Some(*operand),
            _ => None,
        }
    }
}

impl Op {
    /// The local registers that it reads.
    fn args(&self) -> impl Iterator<Item = Reg> + '_ {
        let (few, many): ([Option<Arg>; 3], &[Arg]) = match self {
            Op::Load { index, .. } => ([index.map(|index| index.reg), None, None], &[]),
            Op::Coord(_) | Op::Accumulator => ([None; 3], &[]),
            Op::Random { step, iteration, shift, .. } => ([Some(*step), *iteration, *shift], &[]),
            Op::Scalar { args, .. } => ([None; 3], args),
            Op::Pair { args, .. } => ([None; 3], args),
            Op::Affine { x, scale, shift, .. } => ([Some(*x), scale.value, shift.value], &[]),
            Op::Expand(arg)
            | Op::Fold(arg)
            | Op::Check { value: arg, .. }
            | Op::Reduce { value: arg, .. }
            | Op::Store { value: arg, .. } => ([Some(*arg), None, None], &[]),
        };
        few.into_iter().flatten().chain(many.iter().copied()).filter_map(|arg| match arg {
            Arg::Local(reg) => Some(reg),
            Arg::Uniform(_) => None,
        })
    }
}
