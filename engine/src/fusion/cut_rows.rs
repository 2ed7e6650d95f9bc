//! Ranges of the rows that a reduction reads.
//!
//! A map that a kernel computes is computed for the range alone. A slice of its result would be read from memory, and so
//! the whole result would be stored.

use super::domain::Domain;
use super::rewrite::Rewrite;
use crate::ir::{DType, Graph, NodeId, NodeOp, Scalar, Type, Value, View};
use std::collections::{HashMap, HashSet};

/// A tensor that is smaller than the rows by this factor may be stored for a range.
const MUCH_SMALLER: usize = 16;

/// Some elements of each row of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowRange {
    /// The rows that the operand of the reduction consists of.
    pub domain: Domain,
    /// The first element.
    pub first: usize,
    /// The number of elements.
    pub count: usize,
}

impl RowRange {
    /// The type of the range of a value.
    fn ty(&self, dtype: DType) -> Type {
        Type::new(dtype, &[self.domain.outer, self.count, self.domain.inner])
    }
}

/// The ranges of values of a graph that is rewritten.
pub struct Cuts<'g> {
    graph: &'g Graph,
    /// The values that kernels write.
    in_memory: HashSet<Value>,
    /// The ranges that the new graph has, with the values that they are ranges of.
    known: HashMap<(Value, RowRange), Value>,
}

impl<'g> Cuts<'g> {
    /// Without ranges.
    pub fn new(graph: &'g Graph, in_memory: HashSet<Value>) -> Cuts<'g> {
        Cuts { graph, in_memory, known: HashMap::new() }
    }

    /// Whether ranges of a value need no large tensor that is not in memory yet.
    pub fn can_cut(&self, value: Value) -> bool {
        let n_points = self.graph.ty(value).numel();
        let (mut open, mut seen) = (vec![(value, true)], HashSet::new());
        while let Some((value, in_order)) = open.pop() {
            if !seen.insert((value, in_order)) || self.is_free(value, n_points) {
                continue;
            }
            let node = &self.graph.nodes[value.node];
            let in_order = match &node.op {
                NodeOp::View(View::Reshape) => in_order,
                NodeOp::View(_) => false,
                NodeOp::Scalar(_) if in_order => true,
                // Every kernel that reads a widened tensor widens it.
                NodeOp::Scalar(Scalar::Cast(to)) if self.graph.ty(node.inputs[0]).dtype.widens_to(*to) => {
                    false
                }
                _ => return false,
            };
            open.extend(node.inputs.iter().map(|&input| (input, in_order)));
        }
        true
    }

    /// Whether a value is in memory, takes no memory, or is small beside so many points.
    fn is_free(&self, value: Value, n_points: usize) -> bool {
        let op = &self.graph.nodes[value.node].op;
        matches!(op, NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::Iota { .. })
            || self.in_memory.contains(&value)
            || self.graph.ty(value).numel() * MUCH_SMALLER <= n_points
    }

    /// A range of an old value, `[outer, count, inner]`, for a reduction.
    pub fn cut(&mut self, rewrite: &mut Rewrite, reduction: NodeId, value: Value, range: RowRange) -> Value {
        if let Some(&known) = self.known.get(&(value, range)) {
            return known;
        }
        let graph = self.graph;
        let node = &graph.nodes[value.node];
        let ty = range.ty(graph.ty(value).dtype);
        let is_computed = !self.in_memory.contains(&value);
        let cut = match &node.op {
            NodeOp::View(View::Reshape) if is_computed => self.cut(rewrite, reduction, node.inputs[0], range),
            NodeOp::Scalar(_) | NodeOp::Const(_) if is_computed => {
                let mut inputs = vec![];
                for &input in &node.inputs {
                    inputs.push(self.cut(rewrite, reduction, input, range));
                }
                rewrite.beside(value.node, "range", node.op.clone(), inputs, ty)
            }
            _ => {
                let Domain { outer, row, inner } = range.domain;
                let x = rewrite.value(value);
                let whole = Type::new(ty.dtype, &[outer, row, inner]);
                let rows = rewrite.beside(reduction, "of", NodeOp::View(View::Reshape), vec![x], whole);
                let slice = View::Slice { start: vec![0, range.first, 0], step: vec![1; 3] };
                rewrite.beside(reduction, "range", NodeOp::View(slice), vec![rows], ty)
            }
        };
        self.known.insert((value, range), cut);
        cut
    }
}
