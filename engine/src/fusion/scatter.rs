//! Scatters: what only leads to their base, indices or updates is computed inside, and never stored.
//!
//! What others need as well is computed once more if that moves fewer bytes than storing it: a gradient is often a few
//! cheap maps of something gathered or repeated, which is much smaller.

use super::body::BodyBuilder;
use super::edges::{Edge, RealGraph, is_cheap};
use super::groups::FusionGroups;
use super::{Access, Class, Domain, FusedBody, KernelBody, Operand, ScatterBody};
use crate::ir::{Combine, DType, NodeId, NodeOp, Value, View};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Real nodes that a scatter computes inside.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    /// Those that nobody else needs.
    pub own: BTreeSet<NodeId>,
    /// Those that are computed elsewhere too.
    pub borrowed: BTreeSet<NodeId>,
    /// What borrowed ones read, which therefore has to be in memory.
    pub kept: BTreeSet<NodeId>,
}

/// A scatter takes in producers as long as it reads no more buffers than this.
const MAX_READS: usize = 16;
/// What is computed once more may take as long as so many additions at each point.
const MAX_COST_AGAIN: usize = 24;
/// How long a division or a transcendental takes, in additions.
const COST_OF_SLOW: usize = 8;

/// What scatter `node` had better compute than read, operand by operand, in a kernel of at most so many tensors.
pub fn producers(
    real: &RealGraph,
    clusters: &FusionGroups,
    node: NodeId,
    most_rows_checked: usize,
    most_operands: usize,
) -> Producers {
    let mut search = Search { real, clusters, node, most_operands, taken: BTreeSet::new() };
    if !real.state[node] {
        [1, 0, 2].into_iter().for_each(|operand| search.take_in(operand));
    } else if search.is_sum() && search.n_rows() <= most_rows_checked {
        // Kernels that write state check nothing on the way, but this one checks all before.
        search.take_in(1);
    }
    search.told_apart()
}

struct Search<'r, 'g> {
    real: &'r RealGraph<'g>,
    clusters: &'r FusionGroups<'r, 'g>,
    node: NodeId,
    most_operands: usize,
    taken: BTreeSet<NodeId>,
}

impl Search<'_, '_> {
    /// Takes in the maps that an operand is made by, if that is worth it.
    fn take_in(&mut self, operand: usize) {
        let edges = self.real.edges_of_operand(self.node, operand);
        let before = self.taken.clone();
        let points = [self.numel(self.real.graph.nodes[self.node].inputs[operand].node), self.n_rows()];
        let mut stack = edges.clone();
        while let Some(edge) = stack.pop() {
            if self.fits(&edge, points) && self.taken.insert(edge.producer.node) {
                stack.extend(self.real.edges[edge.producer.node].iter().cloned());
            }
        }
        if self.taken.len() > before.len() && !self.is_worth_it(&edges, &before) {
            self.taken = before;
        }
    }

    /// Whether what an edge reads can be computed at each point. What is slow is so only as often as it would be anyway.
    fn fits(&self, edge: &Edge, points: [usize; 2]) -> bool {
        let maker = edge.producer.node;
        let nodes = &self.real.graph.nodes;
        !edge.indexed
            && self.real.real[maker]
            && !self.real.root[maker]
            && nodes[maker].apart == nodes[self.node].apart
            && self.clusters.is_single_map(maker)
            && (self.cost(maker) < COST_OF_SLOW || points.contains(&self.numel(maker)))
    }

    /// Whether it adds numbers that a device adds to memory at once.
    fn is_sum(&self) -> bool {
        let dtype = self.real.graph.ty(Value::of(self.node)).dtype;
        let is_sum =
            matches!(self.real.graph.nodes[self.node].op, NodeOp::Scatter { combine: Combine::Add, .. });
        is_sum && matches!(dtype, DType::F32 | DType::I32 | DType::U32)
    }

    fn numel(&self, node: NodeId) -> usize {
        self.real.graph.ty(Value::of(node)).numel()
    }

    /// Rows of updates.
    fn n_rows(&self) -> usize {
        let [n_batch, n_before, _, n_indices, _] = extents(self.real, self.node);
        n_batch * n_before * n_indices
    }

    /// How long a map takes at each point, in additions.
    fn cost(&self, node: NodeId) -> usize {
        match &self.real.graph.nodes[node].op {
            NodeOp::View(_) => 0,
            NodeOp::Scalar(scalar) if is_cheap(scalar) => 1,
            NodeOp::Gather { .. } | NodeOp::Check(_) => 2,
            _ => COST_OF_SLOW,
        }
    }

    /// Whether storing the operand and reading it moves twice as many bytes or more: what is read once more may be left to
    /// a kernel of its own.
    fn is_worth_it(&self, edges: &[Edge], before: &BTreeSet<NodeId>) -> bool {
        let stored = edges.iter().map(|edge| edge.producer).filter(|value| self.taken.contains(&value.node));
        let stored: usize = stored.map(|value| self.real.graph.ty(value).bytes()).sum();
        let Producers { own, borrowed, .. } = self.told_apart();
        let cost: usize = borrowed.difference(before).map(|&node| self.cost(node)).sum();
        let reads = self.reads();
        // What only own nodes read would have been read by their kernels.
        let is_moved = |node: NodeId| self.real.users[node].iter().all(|user| own.contains(user));
        let again: usize =
            reads.iter().filter(|(value, _)| !is_moved(value.node)).map(|(_, bytes)| bytes).sum();
        let is_light = cost <= MAX_COST_AGAIN && again <= stored;
        is_light && reads.len() <= MAX_READS && self.n_operands(&reads) <= self.most_operands
    }

    /// Tensors of the kernel: what is read by all that was taken, operands that were not, and the result.
    fn n_operands(&self, reads: &HashMap<Value, usize>) -> usize {
        let operands = self.real.edges[self.node].iter().map(|edge| edge.producer);
        let direct = operands.filter(|value| !self.taken.contains(&value.node)).collect::<HashSet<_>>();
        direct.into_iter().filter(|value| !reads.contains_key(value)).count() + reads.len() + 1
    }

    /// What is read by all that was taken, and how many bytes of it.
    fn reads(&self) -> HashMap<Value, usize> {
        let mut reads = HashMap::new();
        for &node in &self.taken {
            for edge in self.real.edges[node].iter().filter(|edge| self.is_read(edge)) {
                let size = self.real.graph.ty(edge.producer).dtype.size();
                let bytes = reads.entry(edge.producer).or_insert(0);
                *bytes = (edge.n_reads * size).max(*bytes);
            }
        }
        reads
    }

    /// Whether what an edge leads to is in memory.
    fn is_read(&self, edge: &Edge) -> bool {
        edge.indexed || !self.taken.contains(&edge.producer.node)
    }

    /// What nobody else needs, and the rest.
    fn told_apart(&self) -> Producers {
        let mut found = Producers::default();
        // The source of a gather is read from memory, also by a gather that the scatter computes.
        let inside = self.taken.iter().chain([&self.node]);
        let indexed = inside.flat_map(|&node| &self.real.edges[node]).filter(|edge| edge.indexed);
        let sources: BTreeSet<NodeId> = indexed.map(|edge| edge.producer.node).collect();
        // Users come after what they use.
        for &node in self.taken.iter().rev() {
            let is_own = |user: &NodeId| *user == self.node || found.own.contains(user);
            match !sources.contains(&node) && self.real.users[node].iter().all(is_own) {
                true => found.own.insert(node),
                false => found.borrowed.insert(node),
            };
        }
        let edges = found.borrowed.iter().flat_map(|&node| &self.real.edges[node]);
        found.kept = edges.filter(|edge| self.is_read(edge)).map(|edge| edge.producer.node).collect();
        found.kept.extend(sources);
        found
    }
}

/// Extents of a scatter; see [`ScatterBody::extents`].
fn extents(real: &RealGraph, node: NodeId) -> [usize; 5] {
    let (axis, batch, _) = spec(real, node);
    let [base, indices, _] = real.graph.nodes[node].inputs[..] else {
        crate::bug!("a scatter has three operands")
    };
    let (base, indices) = (real.graph.ty(base).extents(), real.graph.ty(indices).extents());
    let over = |axes: &[usize]| axes.iter().product::<usize>();
    [
        over(&base[..batch]),
        over(&base[batch..axis]),
        base[axis],
        over(&indices[batch..]),
        over(&base[axis + 1..]),
    ]
}

fn spec(real: &RealGraph, node: NodeId) -> (usize, usize, Combine) {
    match real.graph.nodes[node].op {
        NodeOp::Scatter { axis, batch, combine } => (axis, batch, combine),
        ref other => crate::bug!("{other:?} is no scatter"),
    }
}

/// The body and operands of a scatter that computes `inside`.
pub fn build(
    real: &RealGraph,
    inside: &HashSet<NodeId>,
    node: NodeId,
    in_order: bool,
) -> (KernelBody, Vec<Operand>) {
    let graph = real.graph;
    let (axis, batch, combine) = spec(real, node);
    let [base, indices, updates] = graph.nodes[node].inputs[..] else {
        crate::bug!("a scatter has three operands")
    };
    let extents = extents(real, node);
    let [n_batch, n_before, n_indexed, n_indices, n_after] = extents;
    let domain = |rows: usize| Domain { outer: n_batch * n_before * rows, row: n_after, inner: 1 };

    let mut builder = BodyBuilder::new(real, inside, None, domain(n_indices));
    let rank = graph.ty(indices).rank();
    let rows = graph.ty(updates).extents()[..axis + rank - batch].to_vec();
    let axes = (0..batch).chain((batch..rank).map(|i| i - batch + axis)).collect();
    let index = builder.row_value(indices, vec![(View::Broadcast { axes }, rows)]);
    let update = builder.value(updates, vec![]);
    let (updates, operands) = builder.finish(vec![]);

    let mut builder = BodyBuilder::new(real, inside, None, domain(n_indexed));
    builder.operands = operands;
    let value = builder.value(base, vec![]);
    let access = Access::strided(&[domain(n_indexed).points(Class::Element)], &[1]);
    let (base, operands): (FusedBody, _) =
        builder.finish(vec![(Value::of(node), value, access, Class::Element)]);
    let result = operands.len() - 1;
    let body = ScatterBody { extents, combine, in_order, base, updates, index, update, result };
    (KernelBody::Scatter(Box::new(body)), operands)
}
