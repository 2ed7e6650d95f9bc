//! Scatters: a scatter computes its updates, indices and base (docs/decisions/039-scatter-fusion.md).

use super::pass::{Example, FusionPass};
use crate::fusion::cost::Change;
use crate::fusion::graph::Edge;
use crate::fusion::groups::{FusionGroups, Group, Kind};
use crate::fusion::legality::fits_operands;
use crate::fusion::place::Place;
use crate::fusion::shapes::ScatterShape;
use crate::ir::{Combine, DType, NodeId, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The most that a kernel computes its producers, on average.
const MOST_PLACES: usize = 4;

/// The pass `scatters`.
pub struct Scatters;

impl FusionPass for Scatters {
    fn name(&self) -> &'static str {
        "scatters"
    }

    fn about(&self) -> &'static str {
        "Joins a scatter and the maps that lead to it. A map with other users is duplicated if that moves fewer bytes."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph histogram {
                input idx: i32[2000]
                input weights: f32[2000, 64]
                zero: f32[] = .const(0.0)
                base: f32[1000, 64] = .broadcast(zero, axes=[])
                checked: i32[2000] = .check(idx, bound=1000)
                updates: f32[2000, 64] = .tanh(weights)
                y: f32[1000, 64] = .scatter_add(base, checked, updates, axis=0)
                output y = y
            }",
            with: "scatter: idx weights -> y",
            without: "map: weights -> updates\nscatter: idx updates -> y",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for node in 0..groups.group_of.len() {
            let Some(id) = groups.group_of[node] else { continue };
            if !matches!(groups.groups[id].kind, Kind::Scatter(_)) || groups.fuel == 0 {
                continue;
            }
            let Producers { own, duplicated, must_store } = producers(groups, node);
            if !store_all(groups, must_store) {
                continue;
            }
            groups.fuel -= !(own.is_empty() && duplicated.is_empty()) as usize;
            let parts: Vec<usize> = own.into_iter().filter_map(|node| groups.group_of[node]).collect();
            groups.order.merge(&[&parts[..], &[id]].concat(), id);
            for part in parts {
                groups.move_members(part, id, Kind::Scatter(node), |_| Place::Element);
            }
            groups.duplicated.insert(id, duplicated);
        }
    }
}

/// Makes nodes results of their kernels, unless one of those would have too many buffers then.
fn store_all(groups: &mut FusionGroups, nodes: BTreeSet<NodeId>) -> bool {
    let added: Vec<NodeId> = nodes.into_iter().filter(|&node| groups.must_store.insert(node)).collect();
    let fits = |id: usize| {
        let members: Vec<NodeId> = groups.groups[id].nodes().collect();
        let duplicated = groups.duplicated.get(&id).cloned().unwrap_or_default();
        fits_operands(groups, &members, &duplicated).is_ok()
    };
    let is_possible = added.iter().filter_map(|&node| groups.group_of[node]).all(fits);
    if !is_possible {
        added.iter().for_each(|node| _ = groups.must_store.remove(node));
    }
    is_possible
}

/// Nodes that a scatter computes.
#[derive(Clone, Debug, Default)]
struct Producers {
    /// Nodes without other users.
    own: BTreeSet<NodeId>,
    /// Nodes that other kernels compute too.
    duplicated: BTreeSet<NodeId>,
    /// Nodes that the kernel reads for duplicated ones, which must be in memory.
    must_store: BTreeSet<NodeId>,
}

/// The producers that scatter `node` should compute rather than read, operand by operand.
fn producers(groups: &FusionGroups, node: NodeId) -> Producers {
    let shape = ScatterShape::of(groups.graph.ir, node);
    let mut search = Search { groups, node, shape, taken: BTreeSet::new() };
    if !groups.graph.state[node] {
        [1, 0, 2].into_iter().for_each(|operand| search.add_producers(operand));
    } else if search.is_sum() && search.shape.n_rows() <= groups.settings.most_rows_checked() {
        // Kernels that write state have no assertions, except that this one checks all rows first.
        search.add_producers(1);
    }
    search.producers()
}

struct Search<'r, 'g> {
    groups: &'r FusionGroups<'r, 'g>,
    node: NodeId,
    shape: ScatterShape,
    taken: BTreeSet<NodeId>,
}

impl Search<'_, '_> {
    /// Adds the maps that lead to an operand, if that pays.
    fn add_producers(&mut self, operand: usize) {
        let graph = self.groups.graph;
        let edges = graph.edges_of_operand(self.node, operand);
        let before = self.taken.clone();
        let points = [graph.ir.ty(self.shape.operands[operand]).numel(), self.shape.n_rows()];
        let mut stack = edges.clone();
        while let Some(edge) = stack.pop() {
            if self.fits(&edge, points) && self.taken.insert(edge.producer.node) {
                stack.extend(graph.edges[edge.producer.node].iter().cloned());
            }
        }
        if self.taken.len() > before.len() && !self.pays(&edges, &before) {
            self.taken = before;
        }
    }

    /// Whether the scatter can compute the producer of an edge at each point. It computes a slow one no more often than
    /// the producer's own kernel would.
    fn fits(&self, edge: &Edge, points: [usize; 2]) -> bool {
        let (graph, node) = (self.groups.graph, edge.producer.node);
        let nodes = &graph.ir.nodes;
        !edge.indexed
            && graph.materialized[node]
            && !graph.root[node]
            && nodes[node].no_fuse == nodes[self.node].no_fuse
            && self.groups.is_map(node)
            && self.groups.group(node).is_some_and(Group::is_single)
            && (graph.cost.is_fast(&nodes[node].op) || points.contains(&graph.numel(node)))
    }

    /// Whether it adds numbers that a device adds to memory atomically.
    fn is_sum(&self) -> bool {
        let dtype = self.groups.graph.ir.ty(Value::of(self.node)).dtype;
        self.shape.combine == Combine::Add && matches!(dtype, DType::F32 | DType::I32 | DType::U32)
    }

    /// Whether computing an operand moves no more bytes than storing it, and takes few operations. The tensors that
    /// duplicated nodes read are read twice.
    fn pays(&self, edges: &[Edge], before: &BTreeSet<NodeId>) -> bool {
        let graph = self.groups.graph;
        let stored = edges.iter().map(|edge| edge.producer).filter(|value| self.taken.contains(&value.node));
        let bytes_saved = stored.map(|value| graph.ir.ty(value).bytes()).sum();
        let Producers { own, duplicated, .. } = self.producers();
        let ops_added = duplicated.difference(before).map(|&node| graph.cost.ops(graph.op(node))).sum();
        let reads = self.reads();
        // A tensor that only own nodes read would have been read by their kernels.
        let is_moved = |node: NodeId| graph.users[node].iter().all(|user| own.contains(user));
        let again = reads.iter().filter(|(value, _)| !is_moved(value.node));
        let bytes_added = again.map(|(_, bytes)| bytes).sum();
        graph.cost.pays(Change { launches_saved: own.len(), bytes_saved, bytes_added, ops_added })
            && reads.len() <= graph.cost.scatter_reads
            && self.n_places() <= MOST_PLACES.saturating_mul(self.taken.len())
            && self.n_operands(&reads) <= self.groups.settings.most_operands()
    }

    /// How often the kernel computes its producers. A node that another one reads at a second place is computed for each,
    /// so a chain of sums of neighbours doubles with each link.
    fn n_places(&self) -> usize {
        let graph = self.groups.graph;
        // By node: how often it is computed for users at their own points, at most, and for all others.
        let mut places: HashMap<NodeId, [usize; 2]> = HashMap::new();
        let mut total: usize = 0;
        for &node in [&self.node].into_iter().chain(self.taken.iter().rev()) {
            let own = places.get(&node).map_or(1, |[own, others]| own.saturating_add(*others));
            total = total.saturating_add(own);
            let mut seen: Vec<&Edge> = vec![];
            for edge in graph.edges[node].iter().filter(|edge| self.taken.contains(&edge.producer.node)) {
                let is_same = |other: &&Edge| other.producer == edge.producer && other.access == edge.access;
                if seen.iter().any(is_same) {
                    continue;
                }
                seen.push(edge);
                let [at_own, at_others] = places.entry(edge.producer.node).or_insert([0, 0]);
                match edge.access.is_identity(graph.numel(node)) {
                    true => *at_own = (*at_own).max(own),
                    false => *at_others = at_others.saturating_add(own),
                }
            }
        }
        total
    }

    /// Tensors of the kernel: reads of its producers, operands without one, and the result.
    fn n_operands(&self, reads: &HashMap<Value, usize>) -> usize {
        let operands = self.groups.graph.edges[self.node].iter().map(|edge| edge.producer);
        let direct = operands.filter(|value| !self.taken.contains(&value.node)).collect::<HashSet<_>>();
        direct.into_iter().filter(|value| !reads.contains_key(value)).count() + reads.len() + 1
    }

    /// Tensors that the producers read, with the bytes of them.
    fn reads(&self) -> HashMap<Value, usize> {
        let mut reads = HashMap::new();
        for &node in &self.taken {
            for edge in self.groups.graph.edges[node].iter().filter(|edge| self.is_read(edge)) {
                let size = self.groups.graph.ir.ty(edge.producer).dtype.size();
                let bytes = reads.entry(edge.producer).or_insert(0);
                *bytes = (edge.n_reads * size).max(*bytes);
            }
        }
        reads
    }

    /// Whether the producer of an edge is read from memory.
    fn is_read(&self, edge: &Edge) -> bool {
        edge.indexed || !self.taken.contains(&edge.producer.node)
    }

    /// The producers, divided by their users.
    fn producers(&self) -> Producers {
        let mut found = Producers::default();
        // The source of a gather is read from memory, also by a gather that the scatter computes.
        let inside = self.taken.iter().chain([&self.node]);
        let indexed = inside.flat_map(|&node| &self.groups.graph.edges[node]).filter(|edge| edge.indexed);
        let sources: BTreeSet<NodeId> = indexed.map(|edge| edge.producer.node).collect();
        // Users come after their producers.
        for &node in self.taken.iter().rev() {
            let is_own = |user: &NodeId| *user == self.node || found.own.contains(user);
            match !sources.contains(&node) && self.groups.graph.users[node].iter().all(is_own) {
                true => found.own.insert(node),
                false => found.duplicated.insert(node),
            };
        }
        let edges = found.duplicated.iter().flat_map(|&node| &self.groups.graph.edges[node]);
        found.must_store = edges.filter(|edge| self.is_read(edge)).map(|edge| edge.producer.node).collect();
        found.must_store.extend(sources);
        found
    }
}
