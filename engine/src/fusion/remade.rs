//! Maps that later kernels compute again instead of reading: what lies between a matmul and the matmuls of the backward pass.
//!
//! A map that is used before and after another matmul would be stored between two kernels. Where several such maps follow
//! from one tensor, that tensor alone is stored. The derivative of GELU, for one, needs an exponential, an error function and
//! a comparison, all of the same sum. Where that takes too long, those are not stored that follow from another one by a few
//! operations.

use super::cost::CostModel;
use crate::ir::{Graph, NodeId, NodeOp, Value, View};
use std::collections::{BTreeMap, BTreeSet};

/// A kernel walks each path to the tensors that it reads.
pub const MOST_PATHS: usize = 64;
/// A tensor that is repeated so often is read in no time, such as the mean of a row.
const FEWEST_REPEATS: usize = 64;

/// The maps of a graph that every user computes, of those that are materialized.
pub fn remade(graph: &Graph, materialized: &[bool], cost: &CostModel) -> BTreeSet<NodeId> {
    let maps = Maps::new(graph, materialized);
    let mut late: BTreeMap<Value, BTreeSet<NodeId>> = BTreeMap::new();
    for node in 0..graph.nodes.len() {
        match maps.sources[node] {
            Source::Of(anchor) if maps.is_map(node) && maps.is_used_late(node) => {
                _ = late.entry(anchor).or_default().insert(node)
            }
            _ => {}
        }
    }
    let found = late.into_iter().flat_map(|(anchor, late)| {
        let between = maps.between(&late);
        let bytes = |value: Value| 2 * graph.ty(value).bytes();
        let saved = late.iter().map(|&node| bytes(Value::of(node))).sum();
        let is_kept = maps.is_used_late(anchor.node) || maps.is_in_memory(anchor.node);
        let added = if is_kept { 0 } else { bytes(anchor) };
        let pays = cost.remaking_pays(graph.ty(anchor).numel(), [saved, added], maps.ops(&between, cost));
        let kept = is_kept.then_some(anchor.node);
        if pays { between } else { maps.that_follow_from_stored(kept.into_iter().collect(), &late, cost) }
    });
    found.collect()
}

/// What a value is computed from, by maps alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Constants and coordinates.
    Nothing,
    /// A small tensor, repeated.
    Repeated,
    /// One tensor of its size, point by point.
    Of(Value),
    /// Anything else: it is a tensor that others may follow from.
    Itself,
}

struct Maps<'g> {
    graph: &'g Graph,
    users: Vec<Vec<NodeId>>,
    /// By node: the most matmuls on a path to it, itself included.
    phases: Vec<usize>,
    /// By node: whether it is in memory in any case.
    is_stored: Vec<bool>,
    sources: Vec<Source>,
    /// By node: the number of paths to it from the tensor that it follows from.
    n_paths: Vec<usize>,
}

impl<'g> Maps<'g> {
    fn new(graph: &'g Graph, materialized: &[bool]) -> Maps<'g> {
        let n_nodes = graph.nodes.len();
        let (users, mut phases) = (graph.users(), vec![]);
        for node in &graph.nodes {
            let before = node.inputs.iter().map(|input| phases[input.node]).max().unwrap_or(0);
            phases.push(before + usize::from(matches!(node.op, NodeOp::Matmul(_))));
        }
        let mut maps =
            Maps { graph, users, phases, is_stored: vec![false; n_nodes], sources: vec![], n_paths: vec![] };
        for root in graph.roots() {
            maps.is_stored[root.node] = true;
        }
        for node in 0..n_nodes {
            maps.is_stored[node] |= maps.is_read_as_tensor(node);
        }
        for (node, &is_materialized) in materialized.iter().enumerate() {
            let inputs = graph.nodes[node].inputs.iter();
            let n_paths = inputs.map(|input| maps.n_paths[input.node]).fold(0, usize::saturating_add);
            let source = maps.source(node, is_materialized);
            let is_short = n_paths <= MOST_PATHS;
            maps.sources.push(if is_short { source } else { Source::Itself });
            maps.n_paths.push(match source {
                Source::Nothing | Source::Repeated => 0,
                Source::Of(_) if is_short => n_paths,
                _ => 1,
            });
        }
        maps
    }

    /// Whether a user reads a node at other points than its own, or as a whole.
    fn is_read_as_tensor(&self, node: NodeId) -> bool {
        self.users[node].iter().any(|&user| match &self.graph.nodes[user].op {
            NodeOp::Scalar(_) | NodeOp::Reduce { .. } => false,
            NodeOp::View(View::Reshape) => self.is_stored[user] || self.is_read_as_tensor(user),
            _ => true,
        })
    }

    /// Whether a tensor is stored even if no later kernel reads it. A matmul is not part of a kernel that reduces its rows and
    /// uses them again, such as one that subtracts their mean.
    fn is_in_memory(&self, node: NodeId) -> bool {
        let is_matmul = matches!(self.graph.nodes[node].op, NodeOp::Matmul(_));
        self.is_stored[node] || is_matmul && self.is_reduced(node)
    }

    fn is_reduced(&self, node: NodeId) -> bool {
        self.users[node].iter().any(|&user| match &self.graph.nodes[user].op {
            NodeOp::Reduce { .. } => true,
            NodeOp::View(View::Reshape) => self.is_reduced(user),
            _ => false,
        })
    }

    fn source(&self, id: NodeId, is_materialized: bool) -> Source {
        let node = &self.graph.nodes[id];
        let is_alone = node.outputs.len() == 1 && node.no_fuse.is_none();
        match &node.op {
            NodeOp::Const(_) | NodeOp::Iota { .. } => Source::Nothing,
            NodeOp::View(View::Reshape) => self.of_input(node.inputs[0]),
            NodeOp::View(_) if self.sources[node.inputs[0].node] == Source::Nothing => Source::Nothing,
            NodeOp::View(View::Broadcast { .. }) if self.is_repeated(id) => Source::Repeated,
            NodeOp::Scalar(_) if is_alone && !(is_materialized && self.is_stored[id]) => {
                let mut inputs = node.inputs.iter().map(|&input| self.of_input(input));
                let same = inputs.try_fold(Source::Nothing, |all, input| match (all, input) {
                    (all, Source::Nothing) | (all @ Source::Of(_), Source::Repeated) => Some(all),
                    (Source::Nothing | Source::Repeated, input) => Some(input),
                    (all, input) => (all == input).then_some(all),
                });
                match same {
                    Some(Source::Of(anchor)) if !self.has_size(anchor, id) => Source::Itself,
                    // As large as the tensors that follow from it.
                    Some(Source::Repeated) | None => Source::Itself,
                    Some(same) => same,
                }
            }
            _ => Source::Itself,
        }
    }

    /// Whether a view repeats a tensor often, by one axis or by several that follow each other.
    fn is_repeated(&self, view: NodeId) -> bool {
        let mut base = self.graph.nodes[view].inputs[0];
        while let NodeOp::View(View::Broadcast { .. } | View::Reshape) = self.graph.nodes[base.node].op {
            base = self.graph.nodes[base.node].inputs[0];
        }
        FEWEST_REPEATS * self.graph.ty(base).numel() <= self.graph.ty(Value::of(view)).numel()
    }

    fn is_map(&self, node: NodeId) -> bool {
        matches!(self.graph.nodes[node].op, NodeOp::Scalar(_))
    }

    /// What a user of a value computes it from.
    fn of_input(&self, input: Value) -> Source {
        match self.sources[input.node] {
            Source::Itself => Source::Of(input),
            source => source,
        }
    }

    fn has_size(&self, anchor: Value, node: NodeId) -> bool {
        self.graph.ty(anchor).numel() == self.graph.ty(Value::of(node)).numel()
    }

    /// Whether a map or a reduction behind a further matmul uses a node.
    fn is_used_late(&self, node: NodeId) -> bool {
        self.users[node].iter().any(|&user| match &self.graph.nodes[user].op {
            NodeOp::View(View::Reshape) => self.is_used_late(user),
            NodeOp::Matmul(_) => false,
            _ => self.phases[user] > self.phases[node],
        })
    }

    /// Of maps that follow from one tensor, those that follow by a few operations from a node that is stored in any case, which
    /// may be another of these maps: `1 - y` from a sigmoid `y`.
    fn that_follow_from_stored(
        &self,
        mut stored: BTreeSet<NodeId>,
        late: &BTreeSet<NodeId>,
        cost: &CostModel,
    ) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        for &node in late {
            match self.between_stored(&stored, node) {
                Some(between) if cost.is_done_again(self.ops(&between, cost)) => found.extend(between),
                _ => _ = stored.insert(node),
            }
        }
        found
    }

    /// The maps between one of some nodes and a node that follows from it alone; none if it follows from other tensors, too.
    fn between_stored(&self, stored: &BTreeSet<NodeId>, node: NodeId) -> Option<BTreeSet<NodeId>> {
        let (mut found, mut ends, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![node]);
        while let Some(node) = open.pop() {
            match self.sources[node] {
                _ if stored.contains(&node) => _ = ends.insert(node),
                Source::Itself => return None,
                Source::Of(_) if !self.is_map(node) || found.insert(node) => {
                    open.extend(self.graph.nodes[node].inputs.iter().map(|input| input.node))
                }
                _ => {}
            }
        }
        (ends.len() == 1).then_some(found)
    }

    /// Operations per element of some nodes.
    fn ops(&self, nodes: &BTreeSet<NodeId>, cost: &CostModel) -> usize {
        nodes.iter().map(|&node| cost.ops(&self.graph.nodes[node].op)).sum()
    }

    /// The maps between an anchor and some nodes that follow from it, these included.
    fn between(&self, late: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        let (mut found, mut open) = (BTreeSet::new(), late.iter().copied().collect::<Vec<_>>());
        while let Some(node) = open.pop() {
            let is_map = self.is_map(node);
            let is_view = matches!(self.graph.nodes[node].op, NodeOp::View(View::Reshape));
            let follows = matches!(self.sources[node], Source::Of(_)) && (is_map || is_view);
            if follows && (is_view || found.insert(node)) {
                open.extend(self.graph.nodes[node].inputs.iter().map(|input| input.node));
            }
        }
        found
    }
}
