//! Groups of neighbouring points that one thread works on: what lies side by side in memory is read and written as one
//! vector, what is the same for all is computed once, and a block of random words serves four elements.
//!
//! A group starts at a multiple of its width, so whether an access moves evenly along it is known when the text is made.

use crate::codegen::ir::builder::Code;
use crate::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Level, Reg};
use cubecl_core::ir::Variable;

/// How an access moves from point to point of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All points lead to the same element.
    Same,
    /// To neighbours, the first at a multiple of the group's width.
    Next,
    /// Unevenly, or not to be told.
    Other,
}

/// How `access` moves along groups of so many points.
pub fn step(access: &Access, width: usize) -> Step {
    access.normalized().levels.iter().fold(Step::Next, |step, level| match step {
        Step::Next => level_step(level, width),
        step => step,
    })
}

fn level_step(level: &Level, width: usize) -> Step {
    let Some((last, outer)) = level.axes.split_last() else { return Step::Same };
    let is_guarded = level.guards.iter().any(|guard| guard.axis == outer.len());
    // A group must not reach over the end of the last axis; of a single axis, it does not.
    let stays_inside = outer.is_empty() || last.extent.is_multiple_of(width);
    let is_aligned = |stride: i64| stride.rem_euclid(width as i64) == 0;
    match last.stride {
        _ if is_guarded || !stays_inside => Step::Other,
        0 => Step::Same,
        1 if is_aligned(level.offset) && outer.iter().all(|axis| is_aligned(axis.stride)) => Step::Next,
        _ => Step::Other,
    }
}

/// The widest vector that a thread reads or writes at once.
pub const VECTOR_BYTES: usize = 16;

/// Points of a group: as many as fill a vector of the largest type that is read or written along the body's points, if a
/// run of `length` points is made of whole groups.
pub fn width(body: &FusedBody, length: usize) -> usize {
    let of = |inst: &FusedInst| match &inst.op {
        FusedOp::Load { access, .. } | FusedOp::Store { access, .. } if inst.class == Class::Element => {
            let widest = VECTOR_BYTES / inst.dtype.size();
            (step(access, widest) == Step::Next).then_some(widest)
        }
        _ => None,
    };
    let mut width = body.insts.iter().filter_map(of).min().unwrap_or(1);
    while !length.is_multiple_of(width) {
        width /= 2;
    }
    width
}

/// By register: whether it is the same at all points of a group.
pub fn same(body: &FusedBody, width: usize) -> Vec<bool> {
    let mut same: Vec<bool> = vec![];
    for inst in &body.insts {
        let is_same = |access: &Access| step(access, width) == Step::Same;
        let value = match &inst.op {
            FusedOp::Store { .. } => false,
            _ if inst.class != Class::Element => true,
            FusedOp::Const(_) => true,
            FusedOp::Load { access, index, .. } => is_same(access) && index.is_none_or(|(reg, _)| same[reg]),
            FusedOp::Coord(access) | FusedOp::Random { access, .. } => is_same(access),
            FusedOp::Scalar(_, args) => args.iter().all(|&arg| same[arg]),
            FusedOp::Check { value, access, .. } => same[*value] && is_same(access),
            FusedOp::Reduce { .. } | FusedOp::Accumulator | FusedOp::Fold { .. } => false,
        };
        same.push(value);
    }
    same
}

/// Whether an instruction reads or writes the elements of a whole group of points as one vector.
pub fn is_vector(inst: &FusedInst, width: usize, same: &[bool]) -> bool {
    let is_next = |access: &Access| inst.class == Class::Element && step(access, width) == Step::Next;
    match &inst.op {
        FusedOp::Load { access, index, .. } => {
            let is_even = |(reg, stride): (Reg, i64)| same[reg] && stride.rem_euclid(width as i64) == 0;
            is_next(access) && index.is_none_or(is_even)
        }
        FusedOp::Store { access, .. } => is_next(access),
        _ => false,
    }
}

/// Whether all that a body reads or writes of an operand are such vectors, but for what is read once a row.
pub fn is_all_vectors(body: &FusedBody, operand: usize, width: usize) -> bool {
    let same = same(body, width);
    let is_used = |inst: &&FusedInst| match inst.op {
        FusedOp::Load { operand: used, .. } | FusedOp::Store { operand: used, .. } => used == operand,
        _ => false,
    };
    let uses = || body.insts.iter().filter(is_used);
    let is_vector = |inst: &FusedInst| is_vector(inst, width, &same);
    let is_seldom =
        |inst: &FusedInst| matches!(inst.op, FusedOp::Load { .. }) && inst.class != Class::Element;
    width > 1 && uses().any(is_vector) && uses().all(|inst| is_vector(inst) || is_seldom(inst))
}

/// Neighbouring points.
pub struct Group {
    /// Each of them.
    pub points: Vec<Variable>,
}

impl Group {
    /// The `width` points from `first` on.
    pub fn from(code: &mut Code, first: Variable, width: usize) -> Group {
        let point = |offset| {
            let offset = code.at(offset as i64);
            code.add_at(first, offset)
        };
        Group { points: (0..width).map(point).collect() }
    }

    /// Its first point.
    pub fn first(&self) -> Variable {
        self.points[0]
    }

    /// How many there are.
    pub fn width(&self) -> usize {
        self.points.len()
    }
}

/// The width that every access to an operand takes, if all of them take as many elements as the group has points; else 1.
pub fn shared_width(body: &FusedBody, operand: usize, width: usize) -> usize {
    if is_all_vectors(body, operand, width) { width } else { 1 }
}
