//! Tiles made ready to run: half precision spelled out as casts, registers placed in scratch, instructions sorted into
//! passes over a row.
//!
//! A pass is what can be computed between two reductions. If a row's block stays in scratch, a value is computed in
//! one pass and kept for the later ones; rows too long for that are walked once a pass, and values are computed again.

use super::address::Address;
use super::scalar::{MAX_ARITY, literal_bits};
use engine_core::fuse::{Class, Reg, Tile, TileInst, TileOp};
use engine_core::ir::{DType, Literal, Monoid, NodeId, Scalar};
use std::collections::HashMap;

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
    /// By operand: whether its memory is read as well, so that it must be written last.
    pub is_shared: &'a [bool],
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

/// What an instruction does; the counterpart of [`TileOp`].
#[derive(Clone, Debug)]
pub enum Op {
    /// Reads an operand.
    Load { operand: usize, address: Address, index: Option<Index> },
    /// A coordinate.
    Coord(Address),
    /// Random bits.
    Random { stream: u32, step: Arg, iteration: Option<Arg>, address: Address },
    /// A scalar primitive on arguments of this type.
    Scalar { op: Scalar, dtype: DType, args: Vec<Arg> },
    /// An index check.
    Check { index: Arg, bound: usize, site: NodeId },
    /// Repeats row values over the points of a block.
    Expand(Arg),
    /// Combines along the row; `best` is the place of the extreme values of an index reduction.
    Reduce { monoid: Monoid, value: Arg, dtype: DType, best: usize },
    /// The accumulator of a contraction.
    Accumulator,
    /// Writes an operand.
    Store { operand: usize, address: Address, value: Arg },
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
    /// A load whose next block is to be fetched meanwhile.
    pub ahead: Option<Reg>,
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
    /// Whether indices are checked.
    pub fn has_checks(&self) -> bool {
        self.insts().any(|inst| matches!(inst.op, Op::Check { .. }))
    }

    /// All instructions.
    pub fn insts(&self) -> impl Iterator<Item = &Inst> {
        let passes = self.passes.iter().flat_map(|pass| pass.row.iter().chain(&pass.element));
        self.uniform.iter().chain(passes).chain(&self.last_row)
    }
}

/// Compiles a tile.
pub fn compile(tile: &Tile, layout: Layout) -> Program {
    let tile = widened(tile);
    let mut compiler = Compiler::new(&tile, layout);
    compiler.place_values();
    compiler.sort_into_passes();
    compiler.place_slots();
    compiler.program
}

/// The same tile without its writes: what is left are the index checks and what they need.
pub fn checks_only(tile: &Tile) -> Tile {
    let mut needed = vec![false; tile.insts.len()];
    for (reg, inst) in tile.insts.iter().enumerate().rev() {
        needed[reg] |= matches!(inst.op, TileOp::Check { .. });
        if needed[reg] {
            args(&inst.op).into_iter().for_each(|arg| needed[arg] = true);
        }
    }
    let mut insts = vec![];
    let mut renamed = vec![0; tile.insts.len()];
    for (reg, inst) in tile.insts.iter().enumerate().filter(|(reg, _)| needed[*reg]) {
        renamed[reg] = insts.len();
        insts.push(TileInst { op: with_args(&inst.op, |arg| renamed[arg]), ..inst.clone() });
    }
    Tile { insts, ..tile.clone() }
}

// ---- Half precision.

/// Computes in f32 what the tile computes in half precision; each operation rounds to half again.
fn widened(tile: &Tile) -> Tile {
    let mut widening = Widening { insts: vec![], renamed: vec![], wide: HashMap::new() };
    tile.insts.iter().for_each(|inst| widening.push(inst));
    Tile { insts: widening.insts, ..tile.clone() }
}

struct Widening {
    insts: Vec<TileInst>,
    renamed: Vec<Reg>,
    /// The f32 form of half registers.
    wide: HashMap<Reg, Reg>,
}

impl Widening {
    fn push(&mut self, inst: &TileInst) {
        let op = with_args(&inst.op, |arg| self.renamed[arg]);
        let reg = match &op {
            TileOp::Scalar(Scalar::Cast(_) | Scalar::Select, _) => self.emit(op, inst.dtype, inst.class),
            TileOp::Scalar(scalar, args) => {
                let args = args.iter().map(|&arg| self.widen(arg)).collect();
                self.narrowed(TileOp::Scalar(scalar.clone(), args), inst)
            }
            TileOp::Reduce { monoid, value } => {
                let value = self.reduced_value(*monoid, *value, inst.dtype);
                self.narrowed(TileOp::Reduce { monoid: *monoid, value }, inst)
            }
            TileOp::Accumulator => self.narrowed(op, inst),
            _ => self.emit(op, inst.dtype, inst.class),
        };
        self.renamed.push(reg);
    }

    /// The value in the type that it is accumulated in.
    fn reduced_value(&mut self, monoid: Monoid, value: Reg, result: DType) -> Reg {
        let value = self.widen(value);
        let dtype = if monoid.is_index() { self.insts[value].dtype } else { result.accumulator() };
        if self.insts[value].dtype == dtype {
            return value;
        }
        self.emit(TileOp::Scalar(Scalar::Cast(dtype), vec![value]), dtype, Class::Element)
    }

    /// Computes in f32 and rounds, if the result is half precision.
    fn narrowed(&mut self, op: TileOp, inst: &TileInst) -> Reg {
        let reg = self.emit(op, inst.dtype.accumulator(), inst.class);
        if inst.dtype.accumulator() == inst.dtype {
            return reg;
        }
        let narrow = TileOp::Scalar(Scalar::Cast(inst.dtype), vec![reg]);
        self.emit(narrow, inst.dtype, inst.class)
    }

    fn widen(&mut self, reg: Reg) -> Reg {
        let TileInst { dtype, class, .. } = self.insts[reg];
        if dtype.accumulator() == dtype {
            return reg;
        }
        if let Some(&wide) = self.wide.get(&reg) {
            return wide;
        }
        let wide = self.emit(TileOp::Scalar(Scalar::Cast(DType::F32), vec![reg]), DType::F32, class);
        self.wide.insert(reg, wide);
        wide
    }

    fn emit(&mut self, op: TileOp, dtype: DType, class: Class) -> Reg {
        self.insts.push(TileInst { op, dtype, class });
        self.insts.len() - 1
    }
}

/// The registers that an instruction reads.
fn args(op: &TileOp) -> Vec<Reg> {
    match op {
        TileOp::Load { index, .. } => index.iter().map(|(reg, _)| *reg).collect(),
        TileOp::Const(_) | TileOp::Coord(_) | TileOp::Accumulator => vec![],
        TileOp::Random { step, iteration, .. } => [*step].into_iter().chain(*iteration).collect(),
        TileOp::Scalar(_, args) => args.clone(),
        TileOp::Check { index, .. } => vec![*index],
        TileOp::Reduce { value, .. } | TileOp::Store { value, .. } => vec![*value],
    }
}

fn with_args(op: &TileOp, rename: impl Fn(Reg) -> Reg) -> TileOp {
    let mut op = op.clone();
    match &mut op {
        TileOp::Load { index, .. } => index.iter_mut().for_each(|(reg, _)| *reg = rename(*reg)),
        TileOp::Const(_) | TileOp::Coord(_) | TileOp::Accumulator => {}
        TileOp::Random { step, iteration, .. } => {
            *step = rename(*step);
            iteration.iter_mut().for_each(|reg| *reg = rename(*reg));
        }
        TileOp::Scalar(_, args) => args.iter_mut().for_each(|reg| *reg = rename(*reg)),
        TileOp::Check { index, .. } => *index = rename(*index),
        TileOp::Reduce { value, .. } | TileOp::Store { value, .. } => *value = rename(*value),
    }
    op
}

// ---- Compilation.

struct Compiler<'t> {
    tile: &'t Tile,
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
    fn new(tile: &'t Tile, layout: Layout<'t>) -> Compiler<'t> {
        let mut pass_of: Vec<usize> = vec![];
        for inst in &tile.insts {
            let reads = args(&inst.op).into_iter().map(|arg| pass_of[arg]).max().unwrap_or(0);
            pass_of.push(reads + matches!(inst.op, TileOp::Reduce { .. }) as usize);
        }
        let program = Program { n_regs: tile.insts.len(), widest: 1, ..Program::default() };
        Compiler { tile, layout, pass_of, places: vec![], best: HashMap::new(), program }
    }

    fn place_values(&mut self) {
        for (reg, inst) in self.tile.insts.iter().enumerate() {
            let place = match (&inst.op, inst.class) {
                (TileOp::Store { .. }, _) | (_, Class::Element) => Dest::None,
                (_, Class::Uniform) => {
                    self.program.n_uniforms += 1;
                    Dest::Uniform(self.program.n_uniforms - 1)
                }
                (_, Class::Row) => Dest::Row(self.row_place(Some((reg, inst.dtype)))),
            };
            if let (TileOp::Const(literal), Dest::Uniform(place)) = (&inst.op, place) {
                self.program.constants.push((place, inst.dtype, *literal));
            }
            if matches!(&inst.op, TileOp::Reduce { monoid, .. } if monoid.is_index()) {
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
        let of_value = |(reg, inst): (Reg, &TileInst)| self.pass_of[reg] - is_reduce(inst) as usize;
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
            if runs_at_points(reg) || matches!(inst.op, TileOp::Const(_)) {
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
            needed[reg] =
                matches!(insts[reg].op, TileOp::Reduce { .. } | TileOp::Store { .. } | TileOp::Check { .. });
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
                    lowered.push(Inst { op, dtype, reg: fresh, dest: Dest::None, ahead: None });
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
    fn index_by_row(&self, op: &TileOp) -> bool {
        let TileOp::Load { index: Some((reg, _)), .. } = op else { return false };
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
            TileOp::Load { operand, access, index } => {
                let index =
                    index.map(|(reg, stride)| Index { reg: arg(reg), dtype: dtype_of(reg), stride, by_row });
                let address = Address::with_fills(access, |fill| literal_bits(fill, inst.dtype));
                Op::Load { operand: *operand, address, index }
            }
            TileOp::Const(_) => panic!("bug: a constant is not an instruction"),
            TileOp::Coord(access) => Op::Coord(Address::new(access)),
            TileOp::Random { stream, step, iteration, access } => Op::Random {
                stream: *stream,
                step: arg(*step),
                iteration: iteration.map(&mut arg),
                address: Address::new(access),
            },
            TileOp::Scalar(op, args) => {
                assert!(args.len() <= MAX_ARITY, "`{}` has too many operands", op.name());
                let dtype = dtype_of(args[matches!(op, Scalar::Select) as usize]);
                Op::Scalar { op: op.clone(), dtype, args: args.iter().map(|&reg| arg(reg)).collect() }
            }
            TileOp::Check { index, bound, site } => {
                Op::Check { index: arg(*index), bound: *bound, site: *site }
            }
            TileOp::Reduce { monoid, value } => Op::Reduce {
                monoid: *monoid,
                value: arg(*value),
                dtype: dtype_of(*value),
                best: self.best.get(&reg).copied().unwrap_or(0),
            },
            TileOp::Accumulator => Op::Accumulator,
            TileOp::Store { operand, access, value } => {
                Op::Store { operand: *operand, address: Address::new(access), value: arg(*value) }
            }
        };
        Inst { op, dtype: inst.dtype, reg, dest: self.places[reg], ahead: None }
    }

    /// Gives each result of a pass a slot, and takes it back after the last use; results that are only written out are
    /// computed where they go.
    fn place_slots(&mut self) {
        let mut passes = std::mem::take(&mut self.program.passes);
        for pass in &mut passes {
            self.write_directly(&mut pass.element);
            look_ahead(&mut pass.element);
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

    /// For a plain store: the instruction that may as well write the operand itself.
    fn direct_target(&self, insts: &[Inst], at: usize, n_points: usize) -> Option<(usize, usize)> {
        let Op::Store { operand, address, value: Arg::Local(value) } = &insts[at].op else { return None };
        if self.layout.is_shared[*operand] || !address.is_identity(n_points) {
            return None;
        }
        let maker = insts.iter().position(|inst| inst.reg == *value)?;
        let computes = matches!(insts[maker].op, Op::Scalar { .. } | Op::Random { .. } | Op::Coord(_));
        (computes && insts[maker].dest == Dest::None).then_some((maker, *operand))
    }
}

/// Lets each function that takes its time fetch the next block of one of the loads.
fn look_ahead(insts: &mut [Inst]) {
    let is_load = |inst: &&Inst| matches!(inst.op, Op::Load { index: None, .. }) && inst.dtype == DType::F32;
    let loads: Vec<Reg> = insts.iter().filter(is_load).map(|inst| inst.reg).collect();
    let is_slow =
        |inst: &&mut Inst| matches!(&inst.op, Op::Scalar { op: Scalar::Unary(_), dtype: DType::F32, .. });
    for (inst, load) in insts.iter_mut().filter(is_slow).zip(loads) {
        inst.ahead = Some(load);
    }
}

fn is_reduce(inst: &TileInst) -> bool {
    matches!(inst.op, TileOp::Reduce { .. })
}

impl Op {
    /// The local registers that it reads.
    fn args(&self) -> impl Iterator<Item = Reg> + '_ {
        let (one, many): (Option<Arg>, &[Arg]) = match self {
            Op::Load { index, .. } => (index.map(|index| index.reg), &[]),
            Op::Coord(_) | Op::Accumulator | Op::Random { .. } => (None, &[]),
            Op::Scalar { args, .. } => (None, args),
            Op::Check { index: arg, .. }
            | Op::Expand(arg)
            | Op::Reduce { value: arg, .. }
            | Op::Store { value: arg, .. } => (Some(*arg), &[]),
        };
        one.into_iter().chain(many.iter().copied()).filter_map(|arg| match arg {
            Arg::Local(reg) => Some(reg),
            Arg::Uniform(_) => None,
        })
    }
}

/// Slots of scratch, in the order of instructions.
#[derive(Default)]
struct Slots {
    n_slots: usize,
    free: Vec<usize>,
    held: HashMap<Reg, usize>,
}

impl Slots {
    fn assign(&mut self, insts: &mut [Inst], last: &HashMap<Reg, usize>, mut at: usize) -> usize {
        for inst in insts {
            // A result must not lie where an argument does, so it gets its slot before theirs are free.
            let needs_slot =
                inst.dest == Dest::None && !matches!(inst.op, Op::Store { .. } | Op::Accumulator);
            let is_reduce = matches!(inst.op, Op::Reduce { .. });
            if needs_slot {
                let slot = self.take();
                inst.dest = Dest::Slot(slot);
                self.held.insert(inst.reg, slot);
            }
            let dead = inst
                .op
                .args()
                .chain((!is_reduce).then_some(inst.reg))
                .filter(|reg| last.get(reg) == Some(&at));
            for reg in dead {
                self.free.extend(self.held.remove(&reg));
            }
            at += 1;
        }
        at
    }

    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.n_slots += 1;
            self.n_slots - 1
        })
    }

    fn free_all(&mut self) {
        self.held.clear();
        self.free = (0..self.n_slots).rev().collect();
    }
}
