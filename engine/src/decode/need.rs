//! Needs: what the rows of a result need of the operands.

use super::place::Place;
use crate::ir::{Graph, NodeId, NodeOp, Value, View};

/// The part of an operand that some rows of a result need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    All,
    /// The rows of these tokens.
    Rows(Place),
}

/// The parts of the operands that the rows of a node at a place need. None if they are not rows and whole operands, or
/// the op is not divisible.
pub fn operands(graph: &Graph, id: NodeId, place: Place, n: usize) -> Option<Vec<Part>> {
    let node = graph.node(id);
    let extents = |operand: usize| graph.ty(node.inputs[operand]).extents();
    let rank = |operand: usize| graph.ty(node.inputs[operand]).rank();
    let at = |axis: usize| Part::Rows(Place { axis, ..place });
    match &node.op {
        NodeOp::Const(_) | NodeOp::Iota { .. } => Some(vec![]),
        NodeOp::Scalar(_) | NodeOp::Check(_) => Some(vec![Part::Rows(place); node.inputs.len()]),
        NodeOp::View(view) => {
            let result = graph.ty(Value::of(id)).extents();
            Some(vec![through(view, &extents(0), &result, place, n)?])
        }
        NodeOp::Reduce { axes, .. } => {
            let kept = (0..rank(0)).filter(|axis| !axes.contains(axis)).nth(place.axis)?;
            Some(vec![at(kept)])
        }
        NodeOp::Scan { axis, .. } => (*axis != place.axis).then(|| vec![Part::Rows(place)]),
        NodeOp::Matmul(spec) => {
            let (left, right) = (spec.lhs_free(rank(0)), spec.rhs_free(rank(1)));
            let n_batch = spec.batch.len();
            Some(match place.axis.checked_sub(n_batch) {
                None => vec![at(spec.batch[place.axis].0), at(spec.batch[place.axis].1)],
                Some(axis) if axis < left.len() => vec![at(left[axis]), Part::All],
                Some(axis) => vec![Part::All, at(right[axis - left.len()])],
            })
        }
        NodeOp::Gather { axis, batch } => {
            let n_index = rank(1) - batch;
            Some(match place.axis {
                a if a < *batch => vec![at(a), at(a)],
                a if a < *axis => vec![at(a), Part::All],
                a if a < axis + n_index => vec![Part::All, at(a - axis + batch)],
                a => vec![at(a - n_index + 1), Part::All],
            })
        }
        NodeOp::Scatter { axis, batch, .. } => match place.axis {
            a if a < *batch => Some(vec![at(a); 3]),
            a if a < *axis => Some(vec![at(a), Part::All, at(a)]),
            a if a == *axis => None,
            a => Some(vec![at(a), Part::All, at(a + rank(1) - batch - 1)]),
        },
        NodeOp::Input(_)
        | NodeOp::Call(_)
        | NodeOp::Map(_)
        | NodeOp::Random { .. }
        | NodeOp::Loop { .. }
        | NodeOp::Cond => None,
    }
}

fn through(view: &View, operand: &[usize], result: &[usize], place: Place, n: usize) -> Option<Part> {
    let axis = place.axis;
    match view {
        View::Reshape => Some(Part::Rows(place.reshaped(result, operand, n)?)),
        View::Permute { perm } => Some(Part::Rows(Place { axis: perm[axis], ..place })),
        View::Broadcast { axes } => {
            let source =
                axes.iter().position(|&a| a == axis).filter(|&source| operand[source] == result[axis]);
            Some(source.map_or(Part::All, |axis| Part::Rows(Place { axis, ..place })))
        }
        View::Slice { start, step } => {
            let untouched = start[axis] == 0 && step[axis] == 1 && operand[axis] == result[axis];
            untouched.then_some(Part::Rows(place))
        }
        View::Pad { low, high, .. } => (low[axis] == 0 && high[axis] == 0).then_some(Part::Rows(place)),
        View::Window { axis: cut, .. } => match axis {
            before if before < *cut => Some(Part::Rows(place)),
            behind if behind > cut + 1 => Some(Part::Rows(Place { axis: behind - 1, ..place })),
            _ => None,
        },
    }
}
