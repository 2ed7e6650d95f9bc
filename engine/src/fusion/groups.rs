//! Fusion groups: sets of materialized nodes that become one kernel each.
//!
//! Every materialized node starts as a group of its own. Passes merge groups where that is legal and pays.

use super::attention::Attention;
use super::attention_gradient::AttentionGradient;
use super::domain::Domain;
use super::graph::FusionGraph;
use super::order::GroupOrder;
use super::place::{Place, reduced_domain};
use super::settings::Settings;
use super::shapes::matmul_extents;
use crate::ir::{NodeId, NodeOp, Symbol};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The kernel kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Maps over so many points.
    Map(usize),
    /// Maps and reductions over rows.
    Row(Domain),
    /// A matmul (that node) with its epilogue; the domain is that of its result.
    Matmul(NodeId, Domain),
    /// The attention of that number.
    Attention(usize),
    /// The gradient of attention of that number.
    AttentionGradient(usize),
    /// A scatter (that node) with the producers of its operands.
    Scatter(NodeId),
    /// One node that reads and writes whole tensors. It joins no other.
    Whole,
}

/// A set of materialized nodes that become one kernel.
#[derive(Clone, Debug)]
pub struct Group {
    /// The kind of the kernel.
    pub kind: Kind,
    /// Its nodes with their places, ascending.
    pub members: Vec<(NodeId, Place)>,
}

impl Group {
    /// Its nodes, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.members.iter().map(|member| member.0)
    }

    /// Whether it is a matmul with its epilogue.
    pub fn is_matmul(&self) -> bool {
        matches!(self.kind, Kind::Matmul(..))
    }

    /// Whether it is a node that no pass has joined to another.
    pub fn is_single(&self) -> bool {
        self.members.len() == 1
    }
}

/// The state of fusion: the groups and the paths between them.
pub struct FusionGroups<'r, 'g> {
    /// The graph.
    pub graph: &'r FusionGraph<'g>,
    /// The settings.
    pub settings: &'r Settings,
    /// Joins that are left.
    pub fuel: usize,
    /// The attentions, by their number.
    pub attentions: Vec<Attention>,
    /// The gradients of attention, by their number.
    pub gradients: Vec<AttentionGradient>,
    /// By group: nodes of other groups that it computes again.
    pub duplicated: HashMap<usize, BTreeSet<NodeId>>,
    /// Nodes that duplicated nodes read.
    pub must_store: BTreeSet<NodeId>,
    /// By node: its group, if it is materialized.
    pub group_of: Vec<Option<usize>>,
    /// The groups; merged ones are empty.
    pub groups: Vec<Group>,
    /// Paths between groups.
    pub order: GroupOrder,
    /// By node: whether it may read from maps that draw random numbers. A node that does not never will: no kernel
    /// becomes a map.
    pub may_draw: Vec<Cell<bool>>,
}

impl<'r, 'g> FusionGroups<'r, 'g> {
    /// One group per materialized node.
    pub fn new(graph: &'r FusionGraph<'g>, settings: &'r Settings) -> FusionGroups<'r, 'g> {
        let n_nodes = graph.ir.nodes.len();
        let nodes: Vec<NodeId> = (0..n_nodes).filter(|&node| graph.materialized[node]).collect();
        let mut group_of = vec![None; n_nodes];
        nodes.iter().enumerate().for_each(|(id, &node)| group_of[node] = Some(id));
        let readers = |&node: &NodeId| graph.users[node].iter().filter_map(|&user| group_of[user]).collect();
        let order = GroupOrder::new(nodes.iter().map(readers).collect());
        let groups = nodes.into_iter().map(|node| initial(graph, node)).collect();
        let (fuel, may_draw) = (settings.fuel, may_draw(graph));
        let (attentions, gradients, duplicated, must_store) = Default::default();
        FusionGroups {
            graph,
            settings,
            fuel,
            attentions,
            gradients,
            duplicated,
            must_store,
            group_of,
            groups,
            order,
            may_draw,
        }
    }

    /// The group of a node, if it is materialized.
    pub fn group(&self, node: NodeId) -> Option<&Group> {
        self.group_of[node].map(|id| &self.groups[id])
    }

    /// Whether a node belongs to a group of maps.
    pub fn is_map(&self, node: NodeId) -> bool {
        self.group_of[node].is_some_and(|id| self.is_of_maps(id))
    }

    /// Whether a group is of maps alone.
    pub fn is_of_maps(&self, id: usize) -> bool {
        matches!(self.groups[id].kind, Kind::Map(_))
    }

    /// The node with `fuse: Never` that a group belongs to, if there is one.
    pub fn no_fuse(&self, group: usize) -> Option<&Symbol> {
        self.groups[group].nodes().next().and_then(|node| self.graph.ir.nodes[node].no_fuse.as_ref())
    }

    /// Whether groups can become a kernel of a kind of its own. No pass has joined them to others, no mark keeps them apart,
    /// and no path leads through a further group.
    pub fn may_become_one(&self, parts: &[usize]) -> bool {
        let nodes = parts.iter().flat_map(|&part| self.groups[part].nodes());
        let are_single = parts.iter().all(|&part| self.groups[part].is_single());
        are_single && self.graph.may_share_kernel(nodes) && !self.order.surrounds(parts)
    }

    /// The nodes of two groups, ascending.
    pub fn nodes_of_both(&self, a: usize, b: usize) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.groups[a].nodes().chain(self.groups[b].nodes()).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Whether a member is read outside of its group, or is a result.
    pub fn is_written(&self, node: NodeId, inside: &HashSet<NodeId>) -> bool {
        self.graph.root[node]
            || self.must_store.contains(&node)
            || self.graph.users[node]
                .iter()
                .any(|&user| !inside.contains(&user) && !self.is_duplicated(node, user))
    }

    /// Whether the kernel of `user` computes a node of another kernel again.
    pub fn is_duplicated(&self, node: NodeId, user: NodeId) -> bool {
        let duplicated = self.group_of[user].and_then(|id| self.duplicated.get(&id));
        duplicated.is_some_and(|duplicated| duplicated.contains(&node))
    }

    /// Merges group `from` into group `to`; `place` gives the places in the merged domain.
    pub fn merge(&mut self, from: usize, to: usize, kind: Kind, place: impl Fn(NodeId) -> Place) {
        self.order.merge(&[from, to], to);
        self.move_members(from, to, kind, place);
    }

    /// Moves all members of one group to another. A matmul's own members keep their places.
    pub fn move_members(&mut self, from: usize, to: usize, kind: Kind, place: impl Fn(NodeId) -> Place) {
        let mut members = std::mem::take(&mut self.groups[from].members);
        let is_matmul = matches!(kind, Kind::Matmul(..));
        let own = std::mem::take(&mut self.groups[to].members);
        members.iter_mut().for_each(|member| member.1 = place(member.0));
        members.extend(own.into_iter().map(|(node, old)| (node, if is_matmul { old } else { place(node) })));
        members.sort_by_key(|member| member.0);
        self.replace(to, Group { kind, members });
    }

    /// Makes a group the one of its members.
    pub fn replace(&mut self, id: usize, group: Group) {
        group.nodes().for_each(|node| self.group_of[node] = Some(id));
        self.groups[id] = group;
    }
}

fn initial(graph: &FusionGraph, node: NodeId) -> Group {
    let (kind, place) = match graph.op(node) {
        NodeOp::Reduce { .. } => (Kind::Row(reduced_domain(graph, node)), Place::Row),
        NodeOp::Matmul(_) => {
            let (batch, m, n, _) = matmul_extents(graph.ir, node);
            (Kind::Matmul(node, Domain { outer: batch * m, row: n, inner: 1 }), Place::Element)
        }
        NodeOp::Scatter { .. } => (Kind::Scatter(node), Place::Element),
        op if op.is_whole() => (Kind::Whole, Place::Element),
        _ => (Kind::Map(graph.numel(node)), Place::Element),
    };
    Group { kind, members: vec![(node, place)] }
}

/// By node: whether it draws random numbers or depends on a materialized node that does.
fn may_draw(graph: &FusionGraph) -> Vec<Cell<bool>> {
    let mut may_draw: Vec<Cell<bool>> = vec![];
    for (node, edges) in graph.edges.iter().enumerate() {
        let draws = matches!(graph.op(node), NodeOp::Random { .. });
        may_draw.push(Cell::new(draws || edges.iter().any(|edge| may_draw[edge.producer.node].get())));
    }
    may_draw
}
