//! Groups of neighbouring points that one thread computes.
//!
//! A thread reads and writes neighbouring elements as one vector. Values that are equal at all points are computed
//! once, and four elements share a block of random words.
//!
//! A group starts at a multiple of its width, so the step of an access along it is known at compile time.

use crate::codegen::ir::builder::{Code, Term};
use crate::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Guard, Level, Reg};
use cubecl_core::ir::Variable;

/// The step of an access from point to point of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All points map to the same element.
    Same,
    /// The points map to neighbouring elements, the first at a multiple of the group's width.
    Next,
    /// The step is uneven or unknown.
    Other,
}

/// The step of `access` along groups of `width` points.
pub fn step(access: &Access, width: usize) -> Step {
    access.normalized().levels.iter().fold(Step::Next, |step, level| match step {
        Step::Next => level_step(level, width),
        step => step,
    })
}

fn level_step(level: &Level, width: usize) -> Step {
    let Some((last, outer)) = level.axes.split_last() else { return Step::Same };
    // A group lies on one side of a bound that is a multiple of its width.
    let is_cut = |guard: &Guard| {
        let ends = !guard.high.is_multiple_of(width) && guard.high < last.extent;
        guard.axis == outer.len() && (ends || !guard.low.is_multiple_of(width))
    };
    let is_cut = level.guards.iter().any(is_cut);
    // A group must not cross the end of the last axis; it never crosses that of a single axis.
    let stays_inside = outer.is_empty() || last.extent.is_multiple_of(width);
    let is_aligned = |stride: i64| stride.rem_euclid(width as i64) == 0;
    match last.stride {
        _ if is_cut || !stays_inside => Step::Other,
        0 => Step::Same,
        1 if is_aligned(level.offset) && outer.iter().all(|axis| is_aligned(axis.stride)) => Step::Next,
        _ => Step::Other,
    }
}

/// Bytes of the widest vector that a thread loads or stores.
pub const VECTOR_BYTES: usize = 16;

/// Points of a group: a vector of the largest type that is accessed along the body's points. It divides `length`,
/// the extent of a run of points.
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

/// By register: whether it is equal at all points of a group.
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
            FusedOp::Reduce { .. }
            | FusedOp::Accumulator
            | FusedOp::SecondAccumulator
            | FusedOp::Fold { .. } => false,
        };
        same.push(value);
    }
    same
}

/// Whether an instruction accesses the elements of a whole group as one vector.
pub fn is_vector(inst: &FusedInst, width: usize, same: &[bool]) -> bool {
    let is_next = |access: &Access| inst.class == Class::Element && step(access, width) == Step::Next;
    match &inst.op {
        FusedOp::Load { access, index, .. } | FusedOp::Store { access, index, .. } => {
            let is_even = |(reg, stride): (Reg, i64)| same[reg] && stride.rem_euclid(width as i64) == 0;
            is_next(access) && index.is_none_or(is_even)
        }
        _ => false,
    }
}

/// Whether any access along the body's points is uneven from point to point of a group.
pub fn is_uneven(body: &FusedBody, width: usize) -> bool {
    body.insts.iter().filter(|inst| inst.class == Class::Element).any(|inst| match &inst.op {
        FusedOp::Load { access, .. } | FusedOp::Store { access, .. } | FusedOp::Coord(access) => {
            step(access, width) == Step::Other
        }
        _ => false,
    })
}

/// Whether all accesses to an operand are such vectors, except loads once per row.
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
    /// The points, in order.
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

    /// Notes that the first point is a number times the width, so that divisions of a point are shared by all. The number
    /// is below `n_points` over the width.
    pub fn note_number(&self, code: &mut Code, number: Variable, n_points: usize) {
        let width = self.width();
        for (k, &point) in self.points.iter().enumerate() {
            let group = Term { value: number, extent: n_points.div_ceil(width), stride: width as i64 };
            let place = Term { value: code.at(k as i64), extent: width, stride: 1 };
            code.note_terms(point, vec![group, place]);
        }
    }

    /// The first point.
    pub fn first(&self) -> Variable {
        self.points[0]
    }

    /// The number of points.
    pub fn width(&self) -> usize {
        self.points.len()
    }
}

/// The vector width of all accesses to an operand, if each takes one element per point of the group; else 1.
pub fn shared_width(body: &FusedBody, operand: usize, width: usize) -> usize {
    if is_all_vectors(body, operand, width) { width } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Literal, View};

    /// The step along the columns of `[3, 64]`, behind a pad of so many columns on both sides.
    fn step_behind(low: usize, high: usize) -> Step {
        let pad = View::Pad { low: vec![0, low], high: vec![0, high], fill: Literal::Float(0.0) };
        step(&Access::dense(&[3, 64]).then(&pad, &[3, low + 64 + high]), 8)
    }

    #[test]
    fn a_guard_cuts_a_vector_unless_its_bounds_are_multiples_of_it() {
        assert_eq!(step_behind(16, 8), Step::Next);
        assert_eq!(step_behind(0, 8), Step::Next);
        assert_eq!([step_behind(4, 4), step_behind(4, 0), step_behind(0, 4)], [Step::Other; 3]);
    }
}
