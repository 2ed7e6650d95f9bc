//! Programs: the instructions of the interpreter.
//!
//! A pass is the part of a program between two reductions. If a row's block stays in scratch, a pass keeps its values for
//! the later ones. Longer rows are walked once for each pass, and each pass recomputes the values that it needs.

use super::address::Address;
use engine_core::fusion::Reg;
use engine_core::ir::{DType, Literal, Monoid, NodeId, Requirement, Scalar, Unary};
use engine_numerics::loops::Arithmetic;

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

/// The layout of blocks that a body is compiled for.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// How row values spread.
    pub spread: Spread,
    /// Whether a block holds whole rows, so that its values outlive a pass.
    pub is_resident: bool,
    /// Whether the points of a block are neighbours, so that results can be computed in their operand.
    pub is_contiguous: bool,
    /// For each operand, the memory that it shares.
    pub sharing: &'a [Sharing],
}

/// The memory that a written operand shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// No memory is shared.
    Alone,
    /// Each element is shared with that element of this operand, which is read.
    InPlace(usize),
    /// Memory is shared in some other way.
    Overlaps,
}

/// The place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A value of the whole kernel.
    Uniform(usize),
    /// A register of the block or of its rows.
    Local(Reg),
}

/// The place of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// Among the uniform values.
    Uniform(usize),
    /// Among the values of the rows.
    Row(usize),
    /// A slot of the block.
    Slot(usize),
    /// An operand, at the points' own elements.
    Operand(usize),
    /// There is no result.
    None,
}

/// A factor or summand that is one value for a whole block; the default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// The value; the neutral one if absent.
    pub value: Option<Arg>,
    /// Whether the value is negated.
    pub is_negated: bool,
}

/// A computed index of a load or a store.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// The index.
    pub reg: Arg,
    /// Its type.
    pub dtype: DType,
    /// The elements that a unit of it moves.
    pub stride: i64,
    /// Whether there is one for each row of the block, not for each point.
    pub by_row: bool,
}

/// Random bits of points.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The stream of the node.
    pub stream: u32,
    /// The step.
    pub step: Arg,
    /// The loop iteration, if any.
    pub iteration: Option<Arg>,
    /// The element numbers of the points.
    pub address: Address,
}

/// Several primitives of f32 in one loop: values between them stay in registers.
#[derive(Clone, Debug)]
pub enum Superinstruction {
    /// `second(first(a, b), c)`
    Pair { first: Arithmetic, second: Arithmetic, args: [Arg; 3] },
    /// `op(x · scale + shift)` with a slow function, each step rounded.
    Affine { op: Unary, x: Arg, scale: Term, shift: Term },
    /// `f32(bits >> shift)` of random bits.
    ShiftedRandom { draw: Draw, shift: Arg },
    /// `base + part + part + …` of operands that are 0 at most points.
    Parts { base: Arg, parts: Vec<(usize, Address)> },
}

/// The operation of an instruction; the counterpart of [`engine_core::fusion::FusedOp`].
#[derive(Clone, Debug)]
pub enum Op {
    /// Reads an operand; copies its elements if they are overwritten before their last use.
    Load { operand: usize, address: Address, index: Option<Index>, is_copied: bool },
    /// A coordinate.
    Coord(Address),
    /// Random bits.
    Random(Draw),
    /// A scalar primitive on arguments of this type.
    Scalar { op: Scalar, dtype: DType, args: Vec<Arg> },
    /// Several scalar primitives.
    Super(Superinstruction),
    /// A check; the address leads to the position that an error names.
    Check { value: Arg, requirement: Requirement, site: NodeId, address: Address },
    /// Repeats row values over the points of a block.
    Expand(Arg),
    /// Combines along the row; `best` is the place of the extreme values of an index reduction.
    Reduce { monoid: Monoid, value: Arg, dtype: DType, best: usize },
    /// The accumulator of a matmul, or of the second one.
    Accumulator { is_second: bool },
    /// Writes an operand. An index is one value for the whole block.
    Store { operand: usize, address: Address, value: Arg, index: Option<Index> },
    /// Keeps a value for the row reduction of a matmul fold.
    Fold(Arg),
}

/// A share of an operand's elements at the next block, to be prefetched.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The operand.
    pub operand: usize,
    /// The elements of the block's points.
    pub address: Address,
    /// The share of the elements: from `shares[0] / shares[2]` to `shares[1] / shares[2]`.
    pub shares: [usize; 3],
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    /// The operation.
    pub op: Op,
    /// The type of the result.
    pub dtype: DType,
    /// The register that it sets.
    pub reg: Reg,
    /// The place of the result.
    pub dest: Dest,
    /// The memory of the next block that its loop requests.
    pub ahead: Vec<Fetch>,
}

/// The instructions between two reductions.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Instructions on row values, before the blocks.
    pub row: Vec<Inst>,
    /// Instructions on each block, reductions among them.
    pub element: Vec<Inst>,
}

/// A compiled body.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Instructions that run once a launch.
    pub uniform: Vec<Inst>,
    /// Constants in the order of the body: place among the uniform values, type and value.
    pub constants: Vec<(usize, DType, Literal)>,
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// Instructions on row values, after all passes.
    pub last_row: Vec<Inst>,
    /// The number of registers.
    pub n_regs: usize,
    /// The number of uniform values.
    pub n_uniforms: usize,
    /// The register of each place among the values of the rows; `None` for extreme values.
    pub row_regs: Vec<Option<Reg>>,
    /// The number of slots.
    pub n_slots: usize,
    /// The bytes of the widest value.
    pub widest: usize,
}

impl Program {
    /// All instructions.
    pub fn insts(&self) -> impl Iterator<Item = &Inst> {
        let passes = self.passes.iter().flat_map(|pass| pass.row.iter().chain(&pass.element));
        self.uniform.iter().chain(passes).chain(&self.last_row)
    }

    /// The number of places among the values of the rows.
    pub fn n_row_places(&self) -> usize {
        self.row_regs.len()
    }
}

impl Inst {
    /// An instruction without prefetching.
    pub fn new(op: Op, dtype: DType, reg: Reg, dest: Dest) -> Inst {
        Inst { op, dtype, reg, dest, ahead: vec![] }
    }

    /// The operand that it writes, if any.
    pub fn written_operand(&self) -> Option<usize> {
        match (&self.op, &self.dest) {
            (Op::Store { operand, .. }, _) | (_, Dest::Operand(operand)) => Some(*operand),
            _ => None,
        }
    }
}

impl Op {
    /// The local registers that it reads.
    pub fn args(&self) -> impl Iterator<Item = Reg> + '_ {
        let (few, many): ([Option<Arg>; 3], &[Arg]) = match self {
            Op::Load { index, .. } => ([index.map(|index| index.reg), None, None], &[]),
            Op::Coord(_) | Op::Accumulator { .. } => ([None; 3], &[]),
            Op::Random(draw) => ([Some(draw.step), draw.iteration, None], &[]),
            Op::Scalar { args, .. } => ([None; 3], args),
            Op::Super(op) => op.args(),
            Op::Expand(arg)
            | Op::Fold(arg)
            | Op::Check { value: arg, .. }
            | Op::Reduce { value: arg, .. } => ([Some(*arg), None, None], &[]),
            Op::Store { value, index, .. } => ([Some(*value), index.map(|index| index.reg), None], &[]),
        };
        few.into_iter().flatten().chain(many.iter().copied()).filter_map(|arg| match arg {
            Arg::Local(reg) => Some(reg),
            Arg::Uniform(_) => None,
        })
    }
}

impl Superinstruction {
    fn args(&self) -> ([Option<Arg>; 3], &[Arg]) {
        match self {
            Superinstruction::Pair { args, .. } => ([None; 3], args),
            Superinstruction::Affine { x, scale, shift, .. } => ([Some(*x), scale.value, shift.value], &[]),
            Superinstruction::Parts { base, .. } => ([Some(*base), None, None], &[]),
            Superinstruction::ShiftedRandom { draw, shift } => {
                ([Some(draw.step), draw.iteration, Some(*shift)], &[])
            }
        }
    }
}
