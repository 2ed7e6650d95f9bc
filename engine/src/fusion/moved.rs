//! Maps that are computed where a later map reads them in another order: the pairs of rotary positions, and tensors side by
//! side.
//!
//! Maps join over the same points only, so that one read in another order would be stored. Computed at its reader, it is
//! evaluated as often, and its operands are read in that order instead.

use super::cost::CostModel;
use super::remade::MOST_PATHS;
use crate::ir::{Graph, Node, NodeId, NodeOp, Value, View};
use std::collections::{BTreeMap, BTreeSet};

/// The maps of a graph that their readers compute, of those that are materialized.
pub fn moved(graph: &Graph, materialized: &[bool], cost: &CostModel) -> BTreeSet<NodeId> {
    let maps = Maps::new(graph, materialized);
    let mut found = BTreeSet::new();
    for node in (0..graph.nodes.len()).rev() {
        let region = maps.region(node).filter(|_| !found.contains(&node));
        found.extend(
            region.filter(|region| maps.pays(region, cost)).into_iter().flat_map(|region| region.maps),
        );
    }
    found
}

/// A map, and maps that it alone is made of.
struct Region {
    maps: BTreeSet<NodeId>,
    /// What they are computed from.
    leaves: BTreeSet<Value>,
    /// The points of the map that reads the first one.
    n_points: usize,
}

/// A use of a node by a materialized one, through views and maps that are computed again anyway.
#[derive(Clone, Copy)]
struct Reader {
    node: NodeId,
    /// Whether it reads the elements in another order.
    is_moved: bool,
}

struct Maps<'g> {
    graph: &'g Graph,
    materialized: &'g [bool],
    /// By node: its uses; none if one of them may read an element twice, or the node is a result.
    readers: Vec<Option<Vec<Reader>>>,
}

impl<'g> Maps<'g> {
    fn new(graph: &'g Graph, materialized: &'g [bool]) -> Maps<'g> {
        let mut readers: Vec<Option<Vec<Reader>>> = vec![Some(vec![]); graph.nodes.len()];
        graph.roots().for_each(|root| readers[root.node] = None);
        for (node, Node { op, inputs, .. }) in graph.nodes.iter().enumerate().rev() {
            let own = if materialized[node] {
                Some(vec![Reader { node, is_moved: false }])
            } else {
                readers[node].clone()
            };
            let repeats = matches!(op, NodeOp::View(View::Broadcast { .. } | View::Window { .. }));
            let is_moved = matches!(op, NodeOp::View(view) if *view != View::Reshape);
            for input in inputs {
                let through = own.iter().flatten();
                let through =
                    through.map(|&reader| Reader { is_moved: is_moved || reader.is_moved, ..reader });
                match &mut readers[input.node] {
                    Some(readers) if own.is_some() && !repeats => readers.extend(through),
                    readers => *readers = None,
                }
            }
        }
        Maps { graph, materialized, readers }
    }

    fn is_map(&self, node: NodeId) -> bool {
        let Self { graph, materialized, .. } = self;
        let is_alone = graph.nodes[node].outputs.len() == 1 && graph.nodes[node].no_fuse.is_none();
        matches!(graph.nodes[node].op, NodeOp::Scalar(_)) && is_alone && materialized[node]
    }

    /// The maps that one map reads in another order, if nothing else reads this one. None if there are too many.
    fn region(&self, node: NodeId) -> Option<Region> {
        let readers = self.readers[node].as_ref()?;
        let reader = readers.first().filter(|reader| self.is_map(reader.node))?.node;
        let is_read_once = matches!(readers[..], [Reader { is_moved: true, .. }]);
        if !is_read_once || !self.is_map(node) {
            return None;
        }
        let n_points = self.graph.ty(Value::of(reader)).numel();
        let mut region = Region { maps: BTreeSet::from([node]), leaves: BTreeSet::new(), n_points };
        let mut open: BTreeSet<Value> = self.operands(node).collect();
        // Readers come behind what they read.
        while let Some(value) = open.pop_last() {
            let is_private = self.readers[value.node]
                .as_ref()
                .is_some_and(|readers| readers.iter().all(|reader| region.maps.contains(&reader.node)));
            if is_private && self.is_map(value.node) {
                region.maps.insert(value.node);
                open.extend(self.operands(value.node));
            } else {
                region.leaves.insert(value);
            }
            if region.maps.len() > MOST_PATHS {
                return None;
            }
        }
        (self.n_paths(&region, node, &mut BTreeMap::new()) <= MOST_PATHS).then_some(region)
    }

    /// The paths from a map of a region to what it is computed from, each of which its kernel walks.
    fn n_paths(&self, region: &Region, node: NodeId, known: &mut BTreeMap<NodeId, usize>) -> usize {
        let is_input = matches!(self.graph.nodes[node].op, NodeOp::Input(_));
        if is_input || self.materialized[node] && !region.maps.contains(&node) {
            return 1;
        }
        if let Some(&n) = known.get(&node) {
            return n;
        }
        let inputs = self.graph.nodes[node].inputs.iter();
        let n = inputs.map(|input| self.n_paths(region, input.node, known)).fold(0, usize::saturating_add);
        known.insert(node, n);
        n
    }

    /// The values that a map reads, through views and through maps that are computed again anyway.
    fn operands(&self, map: NodeId) -> impl Iterator<Item = Value> {
        let (mut found, mut open) = (BTreeSet::new(), self.graph.nodes[map].inputs.clone());
        while let Some(value) = open.pop() {
            let node = &self.graph.nodes[value.node];
            match (&node.op, self.materialized[value.node]) {
                (NodeOp::Input(_), _) | (_, true) => _ = found.insert(value),
                _ => open.extend(&node.inputs),
            }
        }
        found.into_iter()
    }

    /// Whether the reader should compute the maps of a region.
    fn pays(&self, region: &Region, cost: &CostModel) -> bool {
        let bytes = |value: Value| 2 * self.graph.ty(value).bytes();
        let is_moved = |node: NodeId| self.readers[node].iter().flatten().any(|reader| reader.is_moved);
        let stored = region.maps.iter().filter(|&&node| is_moved(node));
        let saved = stored.map(|&node| bytes(Value::of(node))).sum();
        // A leaf that maps of the region read in another order is stored in any case.
        let is_stored = |leaf: &Value| {
            let is_input = matches!(self.graph.nodes[leaf.node].op, NodeOp::Input(_));
            let readers = self.readers[leaf.node].as_ref();
            let is_read = |reader: &Reader| reader.is_moved && region.maps.contains(&reader.node);
            is_input || readers.is_some_and(|readers| readers.iter().any(is_read))
        };
        let added = region.leaves.iter().filter(|leaf| !is_stored(leaf)).map(|&leaf| bytes(leaf)).sum();
        let ops = region.maps.iter().map(|&node| cost.ops(&self.graph.nodes[node].op)).sum();
        cost.remaking_pays(region.n_points, [saved, added], ops)
    }
}
