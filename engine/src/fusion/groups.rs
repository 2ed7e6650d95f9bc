//! Which real nodes share a kernel.
//!
//! Every real node starts as a cluster of its own. Passes then grow clusters where that saves bytes and the kernel kind
//! can express the result; what cannot be joined gets a reason. The order of the passes is that of how much a kind of
//! kernel depends on its neighbours: contractions first, rows and maps last.

use super::attention::{self, Attention};
use super::edges::{Edge, RealGraph, contract_extents};
use super::order::GroupOrder;
use super::scatter::{self, Producers};
use super::{Access, Domain, RowConsumer, RowFolds, Settings};
use crate::ir::{Monoid, NodeId, NodeOp, Symbol, Value};
use crate::work::steps;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// What a cluster will become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Maps over so many points.
    Map(usize),
    /// Maps and reductions over rows.
    Row(Domain),
    /// A contraction (that node) with its epilogue; the domain is that of its result.
    Contract(NodeId, Domain),
    /// The attention of that number.
    Attention(usize),
    /// A scatter (that node) with what computes its operands.
    Scatter(NodeId),
    /// A kernel that takes nothing in: a scan.
    Alone,
    /// An op that brings its own kernel.
    Opaque,
}

/// Where in a cluster's domain a node lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At every point.
    Element,
    /// Once per row.
    Row,
    /// Beside the contraction: a sum of one of its operands.
    Side,
    /// Behind the contraction: it folds the rows of the result.
    Fold,
}

/// A set of real nodes that become one kernel.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What it will become.
    pub kind: Kind,
    /// Its nodes and where they live, ascending.
    pub members: Vec<(NodeId, Place)>,
}

/// Why two kernels are not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFused {
    /// Producer.
    pub from: Value,
    /// Consumer.
    pub to: NodeId,
    /// The rule that refused, and what it costs.
    pub reason: String,
}

/// An epilogue reads at most this many result-sized tensors besides the accumulator; with more of them a GEMM kernel
/// spends its time on the epilogue.
const MAX_EPILOGUE_READS: usize = 2;

/// Rows shorter than this are not worth handing over: a matrix of such rows is small, and read again from cache.
const LONG_ROW: usize = 256;

type Refusal = &'static str;

const KEPT_APART: Refusal = "`fuse: Never` keeps them apart";

/// The state of the fuser.
pub struct FusionGroups<'r, 'g> {
    real: &'r RealGraph<'g>,
    /// What attend kernels are made of.
    pub attentions: Vec<Attention>,
    /// By cluster: nodes of other clusters that it computes once more for itself.
    pub borrowed: HashMap<usize, BTreeSet<NodeId>>,
    /// What is read where borrowed nodes are computed once more.
    kept: BTreeSet<NodeId>,
    /// By node: its cluster, if it is real.
    pub of: Vec<Option<usize>>,
    /// Groups; merged ones are empty.
    pub clusters: Vec<Cluster>,
    /// Which clusters need which others.
    order: GroupOrder,
    /// By node: whether it may read from maps that draw random numbers. A node that does not never will: no kernel becomes
    /// a map.
    random: Vec<Cell<bool>>,
    settings: Settings,
}

impl<'r, 'g> FusionGroups<'r, 'g> {
    /// Every real node apart.
    pub fn new(real: &'r RealGraph<'g>, settings: Settings) -> FusionGroups<'r, 'g> {
        let nodes: Vec<NodeId> = (0..real.graph.nodes.len()).filter(|&node| real.real[node]).collect();
        let mut of = vec![None; real.graph.nodes.len()];
        nodes.iter().enumerate().for_each(|(id, &node)| of[node] = Some(id));
        let readers = |&node: &NodeId| real.users[node].iter().filter_map(|&user| of[user]).collect();
        let order = GroupOrder::new(nodes.iter().map(readers).collect());
        let random = random(real);
        let (attentions, borrowed, kept, clusters) = Default::default();
        let mut clusters =
            FusionGroups { real, attentions, borrowed, kept, of, clusters, order, random, settings };
        for node in nodes {
            let (kind, place) = clusters.initial(node);
            clusters.clusters.push(Cluster { kind, members: vec![(node, place)] });
        }
        clusters
    }

    fn initial(&self, node: NodeId) -> (Kind, Place) {
        let graph = self.real.graph;
        match &graph.nodes[node].op {
            NodeOp::Reduce { axes, .. } => {
                let extents = graph.ty(graph.nodes[node].inputs[0]).extents();
                (Kind::Row(row_domain(&extents, axes)), Place::Row)
            }
            NodeOp::Contract(contract) => {
                let (batch, m, n, _) = contract_extents(graph, node, contract);
                (Kind::Contract(node, Domain { outer: batch * m, row: n, inner: 1 }), Place::Element)
            }
            NodeOp::Scatter { .. } => (Kind::Scatter(node), Place::Element),
            NodeOp::Scan { .. } => (Kind::Alone, Place::Element),
            NodeOp::Call(_) => (Kind::Opaque, Place::Element),
            _ => (Kind::Map(graph.ty(Value::of(node)).numel()), Place::Element),
        }
    }

    /// Runs all passes.
    pub fn fuse(&mut self) {
        // Attention comes first, since it takes in what would be epilogues, rows and maps of their own.
        self.run("attention", Self::form_attentions);
        // Then epilogues: a bias and an activation belong to their GEMM rather than to what reads the result.
        self.run("epilogues", Self::grow_epilogues);
        // What folds the rows of a product saves storing it.
        self.run("row-folds", Self::join_row_folds);
        // Then sums that a GEMM can take along, before a row kernel claims them.
        self.run("side-sums", Self::join_side_sums);
        // Updates of a scatter are large: before others claim what makes them.
        self.run("scatters", Self::feed_scatters);
        self.run("edges", Self::join_edges);
        self.run("siblings", Self::join_siblings);
    }

    fn run(&mut self, pass: &str, grow: fn(&mut Self)) {
        if self.settings.runs(pass) {
            grow(self);
        }
    }

    // ---- Contractions.

    fn form_attentions(&mut self) {
        for node in 0..self.of.len() {
            let abilities = &self.settings.abilities;
            let Some(mut attention) = attention::find(self.real, node, abilities) else { continue };
            let parts: BTreeSet<usize> = attention.members.keys().filter_map(|&node| self.of[node]).collect();
            let are_single = parts.iter().all(|&part| self.clusters[part].members.len() == 1);
            let are_free = parts.iter().all(|&part| self.apart(part).is_none()) && self.settings.fuel > 0;
            let all: Vec<NodeId> = attention.members.keys().copied().collect();
            // To read through what others need too may take more tensors than to read it.
            if self.fit_one_kernel(&all, &attention.borrowed).is_err() {
                attention.borrowed.clear();
            }
            let fits = self.fit_one_kernel(&all, &attention.borrowed).is_ok();
            let parts: Vec<usize> = parts.into_iter().collect();
            let is_whole = are_single && are_free && !self.order.surrounds(&parts) && fits;
            let Some(to) = self.of[node].filter(|_| is_whole) else { continue };
            self.settings.fuel -= 1;
            self.order.merge(&parts, to);
            for part in parts {
                self.clusters[part].members.clear();
            }
            let members: Vec<(NodeId, Place)> = attention.members.iter().map(|(&n, &p)| (n, p)).collect();
            for &(member, _) in &members {
                self.of[member] = Some(to);
            }
            self.clusters[to] = Cluster { kind: Kind::Attention(self.attentions.len()), members };
            self.kept.extend(attention.kept(self.real));
            self.attentions.push(attention);
        }
    }

    fn grow_epilogues(&mut self) {
        for node in 0..self.of.len() {
            let Some(id) = self.of[node] else { continue };
            if !matches!(self.clusters[id].kind, Kind::Contract(anchor, _) if anchor == node) {
                continue;
            }
            if self.settings.fuel > 0 {
                self.grow_epilogue(id, node);
            }
        }
    }

    /// Takes in the chain of maps that starts at a contraction, as long as each value has the next map for its only
    /// user. A chain that ends at a map which cannot join is left to that map's kernel: it would save nothing.
    fn grow_epilogue(&mut self, id: usize, anchor: NodeId) {
        let before = self.clusters[id].clone();
        let mut taken: Vec<(usize, Cluster)> = vec![];
        let mut end = anchor;
        while let Some(next) = self.only_map_user(end) {
            let from = self.of[next].unwrap_or(id);
            let is_single = self.clusters[from].members.len() == 1;
            // Only the map reads what the chain makes, so no third kernel stands between them.
            let joined =
                if is_single { self.can_join_neighbour(id, from) } else { Err("it is part of a kernel") };
            if joined.is_err() {
                taken.into_iter().for_each(|(from, cluster)| self.put_back(from, cluster));
                self.clusters[id] = before;
                return;
            }
            taken.push((from, self.clusters[from].clone()));
            self.take_in(from, id, self.clusters[id].kind, |_| Place::Element);
            end = next;
        }
        self.settings.fuel -= (end != anchor) as usize;
        taken.iter().for_each(|&(from, _)| self.order.merge(&[from, id], id));
    }

    fn put_back(&mut self, id: usize, cluster: Cluster) {
        cluster.members.iter().for_each(|&(node, _)| self.of[node] = Some(id));
        self.clusters[id] = cluster;
    }

    /// The map that alone uses a node; the chain ends at the border of a node that is kept apart.
    fn only_map_user(&self, node: NodeId) -> Option<NodeId> {
        let [user] = self.real.users[node][..] else { return None };
        let is_map = self.of[user].is_some_and(|id| matches!(self.clusters[id].kind, Kind::Map(_)));
        let nodes = &self.real.graph.nodes;
        (is_map && !self.real.root[node] && nodes[node].apart == nodes[user].apart).then_some(user)
    }

    /// A product of long rows that only a fold of rows reads hands its tiles over.
    fn join_row_folds(&mut self) {
        for node in 0..self.of.len() {
            let Some(id) = self.of[node] else { continue };
            let [edge] = &self.real.edges[node][..] else { continue };
            let Some(target) = self.of[edge.producer.node] else { continue };
            let is_free = self.settings.fuel > 0 && self.apart(id) == self.apart(target);
            if is_free && self.folds_rows(node) && self.can_fold(target, node).is_ok() {
                self.settings.fuel -= 1;
                self.merge(id, target, self.clusters[target].kind, |_| Place::Fold);
            }
        }
    }

    /// Whether a node takes in rows of its one operand piece by piece, in a way that the device can.
    fn folds_rows(&self, node: NodeId) -> bool {
        let Some(consumer) = RowConsumer::of(self.real.graph, node) else { return false };
        match self.settings.abilities.row_folds {
            RowFolds::Any => true,
            RowFolds::Selections { most } => {
                consumer.selection().is_some_and(|selection| selection.k <= most)
            }
        }
    }

    /// Whether a node that folds rows can take them from contraction cluster `id` as they are computed.
    fn can_fold(&self, id: usize, node: NodeId) -> Result<(), Refusal> {
        let graph = self.real.graph;
        let Kind::Contract(_, domain) = self.clusters[id].kind else {
            return Err("only a contraction hands over its rows");
        };
        let value = graph.nodes[node].inputs[0];
        let extents = graph.ty(value).extents();
        let rows = match &graph.nodes[node].op {
            NodeOp::Reduce { axes, .. } => row_domain(&extents, axes),
            _ => row_domain(&extents, &[extents.len().saturating_sub(1)]),
        };
        let n_points = domain.points(super::Class::Element);
        let edge = &self.real.edges[node][0];
        if rows != domain || edge.indexed || !edge.access.is_identity(n_points) {
            return Err("its rows are not those of the product");
        }
        if domain.row < LONG_ROW {
            return Err("rows this short are read again sooner than handed over");
        }
        if !graph.ty(value).dtype.accumulator().eq(&graph.ty(value).dtype) {
            return Err("rows of half precision are stored");
        }
        if self.real.state[node] || self.clusters[id].members.iter().any(|member| member.1 == Place::Fold) {
            return Err("a product hands its rows to one reader, which writes no state");
        }
        let all: Vec<NodeId> =
            self.clusters[id].members.iter().map(|member| member.0).chain([node]).collect();
        self.fits_one_kernel(&all)?;
        let inside: HashSet<NodeId> = all.into_iter().collect();
        let members = self.clusters[id].members.iter().filter(|member| member.1 == Place::Element);
        match members.clone().any(|&(member, _)| self.is_written(member, &inside)) {
            true => Err("the product is needed elsewhere too"),
            false => Ok(()),
        }
    }

    /// Sums over the contracted axis of what a contraction reads anyway.
    fn join_side_sums(&mut self) {
        for node in 0..self.of.len() {
            let Some(id) = self.of[node] else { continue };
            let Some(anchor) = self.side_sum_anchor(node) else { continue };
            let target = self.of[anchor].unwrap_or(id);
            let is_free = self.settings.fuel > 0 && self.apart(id) == self.apart(target);
            let is_alone = self.clusters[id].members.len() == 1;
            let is_contract = matches!(self.clusters[target].kind, Kind::Contract(..));
            let all = merged(&self.clusters[id], &self.clusters[target]);
            let fits = is_alone && is_contract && self.fits_one_kernel(&all).is_ok();
            if is_free && fits && !self.order.surrounds(&[id, target]) {
                self.settings.fuel -= 1;
                self.merge(id, target, self.clusters[target].kind, |_| Place::Side);
            }
        }
    }

    /// The contraction that reads the same tensor and sums over the same axis as this reduction.
    fn side_sum_anchor(&self, node: NodeId) -> Option<NodeId> {
        let NodeOp::Reduce { monoid: Monoid::Sum, .. } = self.real.graph.nodes[node].op else { return None };
        let [edge] = &self.real.edges[node][..] else { return None };
        let users = self.real.users[edge.producer.node].iter().copied();
        users.filter(|&user| self.side_of(user, node).is_some()).find(|&user| user != node)
    }

    /// Which operand of contraction `anchor` the reduction `node` sums along the contracted axis.
    pub fn side_of(&self, anchor: NodeId, node: NodeId) -> Option<super::Side> {
        let graph = self.real.graph;
        let NodeOp::Contract(contract) = &graph.nodes[anchor].op else { return None };
        let NodeOp::Reduce { axes, .. } = &graph.nodes[node].op else { return None };
        if !contract.batch.is_empty() {
            return None;
        }
        let (summed, window) = self.real.strided(graph.nodes[node].inputs[0])?;
        // What the reduction keeps and what it sums, as strides of the buffer.
        let wanted = |axis: usize| axes.contains(&axis);
        let (sum_axes, kept_axes) = split(&window, &wanted);
        for (operand, side) in [(0, super::Side::Lhs), (1, super::Side::Rhs)] {
            let Some((buffer, window)) = self.real.strided(graph.nodes[anchor].inputs[operand]) else {
                continue;
            };
            let contracted = |axis: usize| {
                contract.contracted.iter().any(|&(l, r)| axis == if operand == 0 { l } else { r })
            };
            if buffer == summed && split(&window, &contracted) == (sum_axes.clone(), kept_axes.clone()) {
                return Some(side);
            }
        }
        None
    }

    // ---- Scatters.

    fn feed_scatters(&mut self) {
        for node in 0..self.of.len() {
            let Some(id) = self.of[node] else { continue };
            if !matches!(self.clusters[id].kind, Kind::Scatter(_)) || self.settings.fuel == 0 {
                continue;
            }
            let most_operands = self.settings.abilities.most_operands;
            let Producers { own, borrowed, kept } =
                scatter::producers(self.real, self, node, self.most_rows_checked(), most_operands);
            if !self.keep(kept) {
                continue;
            }
            self.settings.fuel -= !(own.is_empty() && borrowed.is_empty()) as usize;
            let parts: Vec<usize> = own.into_iter().filter_map(|node| self.of[node]).collect();
            self.order.merge(&[&parts[..], &[id]].concat(), id);
            for part in parts {
                self.take_in(part, id, Kind::Scatter(node), |_| Place::Element);
            }
            self.borrowed.insert(id, borrowed);
        }
    }

    /// Makes some nodes results of their kernels, unless one of those would take too many tensors then.
    fn keep(&mut self, nodes: BTreeSet<NodeId>) -> bool {
        let added: Vec<NodeId> = nodes.into_iter().filter(|&node| self.kept.insert(node)).collect();
        let fits = |id: usize| {
            let members: Vec<NodeId> = self.clusters[id].members.iter().map(|&(node, _)| node).collect();
            let borrowed = self.borrowed.get(&id).cloned().unwrap_or_default();
            self.fit_one_kernel(&members, &borrowed).is_ok()
        };
        let is_possible = added.iter().filter_map(|&node| self.of[node]).all(fits);
        if !is_possible {
            added.iter().for_each(|node| _ = self.kept.remove(node));
        }
        is_possible
    }

    fn most_rows_checked(&self) -> usize {
        match self.settings.deterministic {
            true => 0,
            false => self.settings.abilities.most_rows_checked,
        }
    }

    /// Whether a node is a map that has not been joined to anything.
    pub fn is_single_map(&self, node: NodeId) -> bool {
        let cluster = self.of[node].map(|id| &self.clusters[id]);
        cluster.is_some_and(|cluster| cluster.members.len() == 1 && matches!(cluster.kind, Kind::Map(_)))
    }

    // ---- Rows and maps.

    fn join_edges(&mut self) {
        for node in 0..self.of.len() {
            for edge in 0..self.real.edges.get(node).map_or(0, Vec::len) {
                let producer = self.real.edges[node][edge].producer.node;
                let (Some(from), Some(to)) = (self.of[producer], self.of[node]) else { continue };
                if from != to && self.saves_a_write(from, to) {
                    let _ = self.join(from, to);
                }
            }
        }
    }

    /// Rows and maps gain by every join: a tensor need not be read. A contraction has its epilogue by now, and takes in
    /// a map before it only if the map's result need not be written then.
    fn saves_a_write(&self, from: usize, to: usize) -> bool {
        let is_contract = |id: usize| matches!(self.clusters[id].kind, Kind::Contract(..));
        let only_there = |&(node, _): &(NodeId, Place)| {
            let mut users = self.real.users[node].iter().map(|&user| self.of[user]);
            !self.real.root[node] && users.all(|user| user == Some(to) || user == Some(from))
        };
        !is_contract(from) && (!is_contract(to) || self.clusters[from].members.iter().all(only_there))
    }

    /// Groups over the same points that read a tensor in common read it once.
    fn join_siblings(&mut self) {
        for value in 0..self.of.len() {
            let n_points = self.real.graph.ty(Value::of(value)).numel();
            let users = self.real.users[value].iter().filter_map(|&user| self.of[user]);
            // Joining changes no number of points.
            let users: BTreeSet<usize> = users.filter(|&user| self.visits(user, n_points)).collect();
            let chains = self.order.chains(&users);
            for &user in &users {
                let near = self.order.near(&chains, user);
                let mut later = near.range(user + 1..).copied();
                let _ = later.find(|&other| self.join(user, other).is_ok());
            }
        }
    }

    /// Whether a cluster of maps or rows is over so many points.
    fn visits(&self, id: usize, n_points: usize) -> bool {
        match self.clusters[id].kind {
            Kind::Map(n) => n == n_points,
            Kind::Row(domain) => domain.points(super::Class::Element) == n_points,
            _ => false,
        }
    }

    fn join(&mut self, from: usize, to: usize) -> Result<(), Refusal> {
        if self.clusters[from].members.is_empty() || self.clusters[to].members.is_empty() {
            return Err("one of them is gone");
        }
        if self.settings.fuel == 0 {
            return Err("there is no fuel left");
        }
        let joined = self.can_join(from, to)?;
        self.settings.fuel -= 1;
        let places = joined.places;
        self.merge(from, to, joined.kind, |node| places[&node]);
        Ok(())
    }

    fn merge(&mut self, from: usize, to: usize, kind: Kind, place: impl Fn(NodeId) -> Place) {
        self.order.merge(&[from, to], to);
        self.take_in(from, to, kind, place);
    }

    /// Moves all members of one cluster to another.
    fn take_in(&mut self, from: usize, to: usize, kind: Kind, place: impl Fn(NodeId) -> Place) {
        let mut members = std::mem::take(&mut self.clusters[from].members);
        let is_contract = matches!(kind, Kind::Contract(..));
        let kept = std::mem::take(&mut self.clusters[to].members);
        members.iter_mut().for_each(|member| member.1 = place(member.0));
        members
            .extend(kept.into_iter().map(|(node, old)| (node, if is_contract { old } else { place(node) })));
        members.sort_by_key(|member| member.0);
        for &(node, _) in &members {
            self.of[node] = Some(to);
        }
        self.clusters[to] = Cluster { kind, members };
    }

    // ---- Whether two clusters can be one.

    /// What joining producer cluster `from` and consumer cluster `to` would give.
    fn can_join(&self, from: usize, to: usize) -> Result<Joined, Refusal> {
        if self.apart(from) != self.apart(to) {
            return Err(KEPT_APART);
        }
        let joined = self.shape_of_join(from, to)?;
        if self.order.surrounds(&[from, to]) {
            return Err("a third kernel stands between them");
        }
        self.fits_one_kernel(&merged(&self.clusters[from], &self.clusters[to]))?;
        Ok(joined)
    }

    /// The same if it is known that no path leads from one to the other through a third.
    fn can_join_neighbour(&self, from: usize, to: usize) -> Result<Joined, Refusal> {
        if self.apart(from) != self.apart(to) {
            return Err(KEPT_APART);
        }
        let joined = self.shape_of_join(from, to)?;
        self.fits_one_kernel(&merged(&self.clusters[from], &self.clusters[to]))?;
        Ok(joined)
    }

    /// The node that is kept apart and that a cluster belongs to, if there is one.
    fn apart(&self, cluster: usize) -> Option<&Symbol> {
        self.clusters[cluster]
            .members
            .first()
            .and_then(|&(node, _)| self.real.graph.nodes[node].apart.as_ref())
    }

    fn shape_of_join(&self, from: usize, to: usize) -> Result<Joined, Refusal> {
        let (a, b) = (&self.clusters[from], &self.clusters[to]);
        if a.members.iter().chain(&b.members).any(|member| member.1 == Place::Fold) {
            return Err("a product that hands over its rows has nothing more to give");
        }
        let kind = match (a.kind, b.kind) {
            (Kind::Opaque, _) | (_, Kind::Opaque) => {
                return Err("an opaque kernel reads and writes whole tensors in memory");
            }
            (Kind::Scatter(_), _) => return Err("a scatter writes its result in no order"),
            (_, Kind::Scatter(_)) => {
                return Err("a scatter takes in maps that only it needs, or that read less than they write");
            }
            (Kind::Alone, _) | (_, Kind::Alone) => return Err("a scan takes nothing in"),
            (Kind::Attention(_), _) | (_, Kind::Attention(_)) => {
                return Err("an attention takes in its scores, weights and operands only");
            }
            (Kind::Contract(..), Kind::Contract(..)) => return Err("one contraction feeds another"),
            (Kind::Contract(_, domain), Kind::Row(_)) if domain.row > 0 => {
                return Err("a library GEMM cannot reduce rows in its epilogue");
            }
            (Kind::Row(_), Kind::Contract(..)) => {
                return Err("a library GEMM has no prologue, and its epilogue no rows");
            }
            (Kind::Contract(anchor, domain), Kind::Map(n)) => self.epilogue(anchor, domain, n, b, from)?,
            (Kind::Map(n), Kind::Contract(anchor, domain)) => self.epilogue(anchor, domain, n, a, to)?,
            (Kind::Map(n), Kind::Map(m)) if n == m => Kind::Map(n),
            (Kind::Map(_), Kind::Map(_)) => return Err("they visit different numbers of points"),
            (Kind::Row(domain), Kind::Map(n)) | (Kind::Map(n), Kind::Row(domain)) => {
                if n != domain.points(super::Class::Element) && n != domain.points(super::Class::Row) {
                    return Err("they visit different numbers of points");
                }
                Kind::Row(domain)
            }
            (Kind::Row(d), Kind::Row(e)) if d == e => Kind::Row(d),
            (Kind::Row(_), Kind::Row(_)) => return Err("they reduce over different rows"),
            (Kind::Contract(..), Kind::Row(_)) => return Err("an empty contraction"),
        };
        let places = self.places(kind, a, b)?;
        Ok(Joined { kind, places })
    }

    /// Whether the maps of `other` can run on the result of a contraction.
    fn epilogue(
        &self,
        anchor: NodeId,
        domain: Domain,
        n: usize,
        other: &Cluster,
        id: usize,
    ) -> Result<Kind, Refusal> {
        if n != domain.points(super::Class::Element) {
            return Err("it visits another number of points than the GEMM's result has");
        }
        let reads_result = other.members.iter().all(|&(node, _)| {
            self.real.edges[node].iter().all(|edge| edge.producer.node != anchor || !edge.indexed)
        });
        if !reads_result {
            return Err("a gather needs its source in memory");
        }
        if other.members.iter().any(|&(node, _)| self.real.state[node]) {
            return Err("state is written only by kernels that wait for the step's error flag");
        }
        if other.members.iter().any(|&(node, _)| self.feeds_operand(anchor, node)) {
            return Err("a library GEMM has no prologue");
        }
        if other.members.iter().any(|&(node, _)| self.draws(node)) {
            return Err("a library GEMM draws no random numbers");
        }
        if self.result_sized_reads(id, other, n) > MAX_EPILOGUE_READS {
            return Err("the epilogue would read more tensors than it saves");
        }
        Ok(Kind::Contract(anchor, domain))
    }

    /// Whether a map draws random numbers, or reads from maps that do.
    fn draws(&self, node: NodeId) -> bool {
        let is_map =
            |node: NodeId| self.of[node].is_some_and(|id| matches!(self.clusters[id].kind, Kind::Map(_)));
        // Many paths may lead to one map: each is looked at once, the nearest first.
        let (mut open, mut seen) = (VecDeque::from([node]), HashSet::from([node]));
        while let Some(node) = open.pop_front() {
            steps(1);
            if !self.random[node].get() || !is_map(node) {
                continue;
            }
            if matches!(self.real.graph.nodes[node].op, NodeOp::Random { .. }) {
                return true;
            }
            let producers = self.real.edges[node].iter().map(|edge| edge.producer.node);
            open.extend(producers.filter(|&producer| seen.insert(producer)));
        }
        seen.into_iter().for_each(|node| self.random[node].set(false));
        false
    }

    fn feeds_operand(&self, anchor: NodeId, node: NodeId) -> bool {
        self.real.edges[anchor].iter().any(|edge| edge.producer.node == node)
    }

    fn result_sized_reads(&self, id: usize, other: &Cluster, n: usize) -> usize {
        let inside: HashSet<NodeId> =
            self.clusters[id].members.iter().chain(&other.members).map(|&(node, _)| node).collect();
        let anchor = |node: NodeId| matches!(self.real.graph.nodes[node].op, NodeOp::Contract(_));
        let edges = inside.iter().filter(|&&node| !anchor(node)).flat_map(|&node| &self.real.edges[node]);
        let outside = edges.filter(|edge| !inside.contains(&edge.producer.node));
        let big: HashSet<Value> = outside
            .map(|edge| edge.producer)
            .filter(|&value| self.real.graph.ty(value).numel() >= n)
            .collect();
        big.len()
    }

    /// Gives every member a place in the joint domain, or says which edge does not fit.
    fn places(&self, kind: Kind, a: &Cluster, b: &Cluster) -> Result<HashMap<NodeId, Place>, Refusal> {
        let domain = match kind {
            Kind::Map(n) => Domain { outer: 1, row: n, inner: 1 },
            Kind::Row(domain) | Kind::Contract(_, domain) => domain,
            Kind::Alone | Kind::Opaque | Kind::Attention(_) | Kind::Scatter(_) => {
                return Err("a kernel of its own kind takes nothing in");
            }
        };
        let members: Vec<NodeId> = merged(a, b);
        let sides = a.members.iter().chain(&b.members).filter(|member| member.1 == Place::Side);
        let mut places: HashMap<NodeId, Place> = sides.copied().collect();
        for &node in &members {
            if places.contains_key(&node) {
                continue;
            }
            let place =
                self.natural_place(node, kind, domain).ok_or("they visit different numbers of points")?;
            places.insert(node, place);
        }
        for &node in &members {
            if places[&node] == Place::Side || matches!(kind, Kind::Contract(anchor, _) if anchor == node) {
                continue;
            }
            for edge in &self.real.edges[node] {
                let Some(&producer) = places.get(&edge.producer.node) else { continue };
                self.edge_fits(edge, node, places[&node], producer, domain)?;
            }
        }
        Ok(places)
    }

    fn natural_place(&self, node: NodeId, kind: Kind, domain: Domain) -> Option<Place> {
        if matches!(self.real.graph.nodes[node].op, NodeOp::Reduce { .. }) {
            return Some(Place::Row);
        }
        let n_points = self.real.graph.ty(Value::of(node)).numel();
        if n_points == domain.points(super::Class::Element) {
            Some(Place::Element)
        } else if n_points == domain.points(super::Class::Row) && matches!(kind, Kind::Row(_)) {
            Some(Place::Row)
        } else {
            None
        }
    }

    fn edge_fits(
        &self,
        edge: &Edge,
        node: NodeId,
        to: Place,
        from: Place,
        domain: Domain,
    ) -> Result<(), Refusal> {
        if edge.indexed {
            return Err("a gather needs its source in memory");
        }
        let is_reduce = matches!(self.real.graph.nodes[node].op, NodeOp::Reduce { .. });
        let reads_at = if is_reduce { Place::Element } else { to };
        let fits = match (from, reads_at) {
            (Place::Element, Place::Element) => edge.access.is_identity(domain.points(super::Class::Element)),
            (Place::Row, Place::Row) => edge.access.is_identity(domain.points(super::Class::Row)),
            (Place::Row, Place::Element) => is_row_pattern(&edge.access, domain),
            _ => false,
        };
        if fits { Ok(()) } else { Err("the consumer reads other elements than its own") }
    }

    /// Whether a kernel of these members takes no more tensors than the device lets one take.
    fn fits_one_kernel(&self, members: &[NodeId]) -> Result<(), Refusal> {
        self.fit_one_kernel(members, &BTreeSet::new())
    }

    /// The same of a kernel that computes some nodes of other kernels once more.
    fn fit_one_kernel(&self, members: &[NodeId], borrowed: &BTreeSet<NodeId>) -> Result<(), Refusal> {
        let inside: HashSet<NodeId> = members.iter().copied().collect();
        let reads: HashSet<Value> = members
            .iter()
            .chain(borrowed)
            .flat_map(|&node| &self.real.edges[node])
            .map(|edge| edge.producer)
            .filter(|value| !inside.contains(&value.node) && !borrowed.contains(&value.node))
            .collect();
        // Sums beside a contraction are stored for its epilogue, too.
        let is_contract = |node: &&NodeId| matches!(self.real.graph.nodes[**node].op, NodeOp::Contract(_));
        let anchors: Vec<NodeId> = members.iter().filter(is_contract).copied().collect();
        let is_side = |node: NodeId| anchors.iter().any(|&anchor| self.side_of(anchor, node).is_some());
        let written = members.iter().filter(|&&node| self.is_written(node, &inside) || is_side(node));
        let n_writes: usize = written.map(|&node| self.real.graph.nodes[node].outputs.len()).sum();
        match reads.len() + n_writes <= self.settings.abilities.most_operands {
            true => Ok(()),
            false => Err("one kernel would need too many buffers"),
        }
    }

    /// Whether a member's value leaves its cluster.
    pub fn is_written(&self, node: NodeId, inside: &HashSet<NodeId>) -> bool {
        self.real.root[node]
            || self.kept.contains(&node)
            || self.real.users[node]
                .iter()
                .any(|user| !inside.contains(user) && !self.is_borrowed(node, *user))
    }

    /// Whether the kernel of `user` computes a node of another kernel once more.
    fn is_borrowed(&self, node: NodeId, user: NodeId) -> bool {
        let borrowed = self.of[user].and_then(|id| self.borrowed.get(&id));
        borrowed.is_some_and(|borrowed| borrowed.contains(&node))
    }

    /// Every edge between two kernels, with the reason why it stayed one.
    pub fn not_fused(&self) -> Vec<NotFused> {
        let mut edges = vec![];
        for node in 0..self.of.len() {
            let Some(to) = self.of[node] else { continue };
            let first = edges.len();
            for edge in &self.real.edges[node] {
                let Some(from) = self.of[edge.producer.node] else { continue };
                let is_read_through = matches!(self.clusters[to].kind, Kind::Attention(number)
                    if self.attentions[number].borrowed.contains(&edge.producer.node));
                if from != to
                    && !is_read_through
                    && !self.is_borrowed(edge.producer.node, node)
                    && !edges[first..].iter().any(|e: &NotFused| e.from == edge.producer)
                {
                    edges.push(self.reason(edge, node, from, to));
                }
            }
        }
        edges
    }

    /// Whether some pass is off or has run out of fuel, so that what could be joined may not be.
    fn is_held_back(&self) -> bool {
        super::PASSES.iter().any(|pass| !self.settings.runs(pass))
    }

    fn reason(&self, edge: &Edge, node: NodeId, from: usize, to: usize) -> NotFused {
        let refusal = match self.can_join(from, to) {
            Err(_) if self.folds_rows(node) && matches!(self.clusters[from].kind, Kind::Contract(..)) => {
                self.can_fold(from, node).err().unwrap_or("the product is needed elsewhere too")
            }
            Err(refusal) => refusal,
            Ok(_) if self.is_held_back() => "the settings hold fusion back",
            Ok(_) => "the value is needed elsewhere too, so joining would save nothing",
        };
        let bytes = 2 * self.real.graph.ty(edge.producer).bytes();
        NotFused {
            from: edge.producer,
            to: node,
            reason: format!("{refusal} ({bytes} bytes through memory)"),
        }
    }
}

struct Joined {
    kind: Kind,
    places: HashMap<NodeId, Place>,
}

/// By node: whether it draws random numbers or depends on a real node that does.
fn random(real: &RealGraph) -> Vec<Cell<bool>> {
    let mut random: Vec<Cell<bool>> = vec![];
    for (node, edges) in real.edges.iter().enumerate() {
        let draws = matches!(real.graph.nodes[node].op, NodeOp::Random { .. });
        random.push(Cell::new(draws || edges.iter().any(|edge| random[edge.producer.node].get())));
    }
    random
}

fn merged(a: &Cluster, b: &Cluster) -> Vec<NodeId> {
    let mut members: Vec<NodeId> = a.members.iter().chain(&b.members).map(|&(node, _)| node).collect();
    members.sort_unstable();
    members
}

/// `(outer, row, inner)` of a reduction over adjacent axes.
pub fn row_domain(extents: &[usize], axes: &[usize]) -> Domain {
    let first = axes.first().copied().unwrap_or(0);
    let last = axes.last().copied().unwrap_or(0);
    Domain {
        outer: extents[..first].iter().product(),
        row: axes.iter().map(|&axis| extents[axis]).product(),
        inner: extents[(last + 1).min(extents.len())..].iter().product(),
    }
}

/// Whether all points of a row read the row's own element.
pub fn is_row_pattern(access: &Access, domain: Domain) -> bool {
    let pattern = Access::strided(&[domain.outer, domain.row, domain.inner], &[domain.inner as i64, 0, 1]);
    access.normalized() == pattern.normalized()
}

/// Strides and extents of a window, those that `chosen` picks and the rest.
#[allow(clippy::type_complexity)]
fn split(window: &Access, chosen: &dyn Fn(usize) -> bool) -> (Vec<(usize, i64)>, Vec<(usize, i64)>) {
    let axes = window.levels[0].axes.iter().enumerate();
    let (a, b): (Vec<_>, Vec<_>) = axes.partition(|(axis, _)| chosen(*axis));
    let plain =
        |axes: Vec<(usize, &super::Axis)>| axes.into_iter().map(|(_, a)| (a.extent, a.stride)).collect();
    (plain(a), plain(b))
}
