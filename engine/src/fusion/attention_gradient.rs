//! The search for gradients of attention: two matmuls with the same points, maps over both, and matmuls of their results.
//!
//! Backward, the scores `q·kᵀ` and the gradients of weights `dy·vᵀ` are computed again. Maps make weights and gradients of
//! scores of them, which are multiplied by `dy`, `q` and `k`. The maps may read values of rows, such as the logarithm of the
//! sum of exponentials. Nothing of the size of the scores goes through memory.

use super::attention::canonical_axes;
use super::cost::{ATTENTION_NODES, MAX_DEPTH};
use super::domain::{Class, Domain};
use super::graph::{Edge, FusionGraph};
use super::settings::Settings;
use super::shapes::{matmul_extents, matmul_spec};
use crate::ir::{DType, NodeId, NodeOp, View};
use std::collections::{BTreeMap, BTreeSet};

/// Most matmuls of results: gradients of queries, keys and values.
const MOST_SUMS: usize = 3;

/// The nodes of a kernel of a gradient of attention.
#[derive(Clone, Debug)]
pub struct AttentionGradient {
    /// The matmuls whose results meet at the points.
    pub products: [NodeId; 2],
    /// The matmuls of results of the maps.
    pub sums: BTreeMap<NodeId, Sum>,
    /// All nodes.
    pub members: BTreeSet<NodeId>,
}

/// A matmul of a value at the points.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// The node at the points that is its left operand.
    pub value: NodeId,
    /// Whether it sums over keys, or else over queries.
    pub over_keys: bool,
    /// The last map behind it, or the matmul itself: the node that the kernel stores.
    pub end: NodeId,
}

/// The gradient whose first product is this matmul, if the device has a kernel for it, and nothing of the size of its points
/// has other users.
pub fn find(graph: &FusionGraph, first: NodeId, settings: &Settings) -> Option<AttentionGradient> {
    if !settings.has_attention_gradients() {
        return None;
    }
    let (batch, m, n, _) = matmul_extents(graph.ir, first);
    let shape = [batch, m, n];
    if n < 2 || batch * m == 0 || !fits(graph, first, shape) {
        return None;
    }
    let mut search =
        Search { graph, shape, products: vec![first], maps: BTreeSet::new(), sums: BTreeMap::new() };
    search.follow(first)?;
    search.take_sources();
    search.finish()
}

/// Whether a matmul is a product at points of that shape, of floats of one type and short enough rows.
fn fits(graph: &FusionGraph, node: NodeId, shape: [usize; 3]) -> bool {
    let (batch, m, n, k) = matmul_extents(graph.ir, node);
    [batch, m, n] == shape && (1..=MAX_DEPTH).contains(&k) && accumulator(graph, node).is_float()
}

/// The type in which a matmul adds up.
fn accumulator(graph: &FusionGraph, matmul: NodeId) -> DType {
    graph.ir.ty(graph.ir.nodes[matmul].inputs[0]).dtype.accumulator()
}

struct Search<'r, 'g> {
    graph: &'r FusionGraph<'g>,
    shape: [usize; 3],
    products: Vec<NodeId>,
    maps: BTreeSet<NodeId>,
    sums: BTreeMap<NodeId, Sum>,
}

impl Search<'_, '_> {
    fn domain(&self) -> Domain {
        let [batch, m, n] = self.shape;
        Domain { outer: batch * m, row: n, inner: 1 }
    }

    fn n_points(&self) -> usize {
        self.domain().points(Class::Element)
    }

    fn has(&self, node: NodeId) -> bool {
        self.products.contains(&node) || self.maps.contains(&node)
    }

    /// Takes in all users of a product, and what they lead to; none if a user is no map of the points and no sum.
    fn follow(&mut self, first: NodeId) -> Option<()> {
        let mut open = vec![first];
        while let Some(node) = open.pop() {
            if self.graph.root[node] || self.graph.state[node] || self.maps.len() > ATTENTION_NODES {
                return None;
            }
            for &user in &self.graph.users[node] {
                if self.graph.is_matmul(user) {
                    let over_keys = self.sum_of(user, node)?;
                    self.sums.insert(user, Sum { value: node, over_keys, end: user });
                } else if !self.has(user) {
                    self.take_map(user, &mut open)?;
                }
            }
        }
        Some(())
    }

    /// Takes in a map of the points, and the maps that lead to it from the second product.
    fn take_map(&mut self, map: NodeId, open: &mut Vec<NodeId>) -> Option<()> {
        if !self.is_map(map) {
            return None;
        }
        self.maps.insert(map);
        open.push(map);
        let graph = self.graph;
        for edge in &graph.edges[map] {
            let producer = edge.producer.node;
            if self.has(producer) {
                continue;
            }
            if self.is_product(producer) {
                if self.products.len() > 1 || !fits(graph, producer, self.shape) {
                    return None;
                }
                self.products.push(producer);
                open.push(producer);
            } else if self.is_map(producer) && self.is_made_of_product(producer) {
                self.take_map(producer, open)?;
            }
        }
        Some(())
    }

    fn is_map(&self, node: NodeId) -> bool {
        matches!(self.graph.op(node), NodeOp::Scalar(_)) && self.graph.numel(node) == self.n_points()
    }

    fn is_product(&self, node: NodeId) -> bool {
        self.graph.is_matmul(node) && self.graph.numel(node) == self.n_points()
    }

    /// Whether a product leads to a map, by few maps.
    fn is_made_of_product(&self, map: NodeId) -> bool {
        let mut above = BTreeSet::new();
        let mut open = vec![map];
        while let Some(node) = open.pop() {
            let producers = self.graph.edges[node].iter().map(|edge| edge.producer.node);
            for producer in producers.filter(|&producer| self.is_product(producer) || self.is_map(producer)) {
                if self.is_product(producer) {
                    return true;
                }
                if above.len() < ATTENTION_NODES && above.insert(producer) {
                    open.push(producer);
                }
            }
        }
        false
    }

    /// Whether a matmul sums a node at the points over keys or over queries, with the node as its dense left operand and
    /// nothing of the points in the right one.
    fn sum_of(&self, matmul: NodeId, node: NodeId) -> Option<bool> {
        let graph = self.graph;
        let value = graph.ir.nodes[matmul].inputs[0];
        let (base, window) = graph.strided(value)?;
        let (_, _, width, _) = matmul_extents(graph.ir, matmul);
        let right = graph.edges_of_operand(matmul, 1);
        let is_own = base.node == node && right.iter().all(|edge| edge.producer.node != node);
        if !is_own || !(1..=MAX_DEPTH).contains(&width) {
            return None;
        }
        let extents = graph.ir.ty(value).extents();
        let is_dense = |contracted_first: bool| {
            let perm = canonical_axes(matmul_spec(graph.ir, matmul), 0, extents.len(), contracted_first);
            let shape: Vec<usize> = perm.iter().map(|&axis| extents[axis]).collect();
            window.then(&View::Permute { perm }, &shape).is_identity(self.n_points())
        };
        let (batch, free, _, contracted) = matmul_extents(graph.ir, matmul);
        let [own_batch, m, n] = self.shape;
        match batch == own_batch {
            true if [free, contracted] == [m, n] && is_dense(false) => Some(true),
            true if [free, contracted] == [n, m] && is_dense(true) => Some(false),
            _ => None,
        }
    }

    /// Takes in maps that lead to the points alone, such as noise and masks.
    fn take_sources(&mut self) {
        let graph = self.graph;
        let is_source = |search: &Search, node: NodeId| {
            let is_map = matches!(graph.op(node), NodeOp::Scalar(_) | NodeOp::Random { .. });
            is_map
                && graph.materialized[node]
                && graph.have_one_mark(node, search.products[0])
                && graph.numel(node) == search.n_points()
                && !search.has(node)
                && !graph.root[node]
                && graph.users[node].iter().all(|user| search.maps.contains(user))
        };
        loop {
            let edges = self.maps.iter().flat_map(|&map| &graph.edges[map]);
            let mut producers = edges.filter(|edge| !edge.indexed).map(|edge| edge.producer.node);
            let Some(source) = producers.find(|&node| is_source(self, node)) else { return };
            self.maps.insert(source);
        }
    }

    /// Takes in the maps behind each sum, as long as each value has the next map for its only user. Their other operands
    /// come before the products, so they depend on no member.
    fn take_end_maps(&mut self) -> Vec<NodeId> {
        let graph = self.graph;
        let first = self.products.iter().min().copied().unwrap_or(0);
        let mut ends = vec![];
        for sum in self.sums.values_mut() {
            let n_points = graph.numel(sum.end);
            while let [user] = graph.users[sum.end][..] {
                let fits_in = |edge: &Edge| match edge.producer.node {
                    node if node == sum.end => edge.access.is_identity(n_points),
                    node => node < first && !edge.indexed,
                };
                let fits = matches!(graph.op(user), NodeOp::Scalar(_) | NodeOp::View(_))
                    && !graph.root[sum.end]
                    && !graph.state[user]
                    && graph.have_one_mark(user, sum.end)
                    && graph.numel(user) == n_points
                    && graph.edges[user].iter().all(fits_in);
                if !fits {
                    break;
                }
                ends.push(user);
                sum.end = user;
            }
        }
        ends
    }

    /// The kernel, if all of its nodes read each other at their own points only.
    fn finish(mut self) -> Option<AttentionGradient> {
        let graph = self.graph;
        let products: [NodeId; 2] = self.products.clone().try_into().ok()?;
        let ends = self.take_end_maps();
        let is_own = |edge: &Edge| !edge.indexed && edge.access.is_identity(self.n_points());
        let reads_own = self
            .maps
            .iter()
            .all(|&map| graph.edges[map].iter().filter(|edge| self.has(edge.producer.node)).all(is_own));
        let over = |keys: bool| self.sums.values().any(|sum| sum.over_keys == keys);
        let dtype = accumulator(graph, products[0]);
        let is_of_type = |node: NodeId| accumulator(graph, node) == dtype;
        let fits = reads_own
            && over(true)
            && over(false)
            && self.sums.len() <= MOST_SUMS
            && self.sums.keys().all(|&sum| is_of_type(sum) && !self.has(sum))
            && self.sums.values().all(|sum| !graph.state[sum.end])
            && is_of_type(products[1]);
        let members =
            self.maps.iter().chain(&products).chain(self.sums.keys()).chain(&ends).copied().collect();
        fits.then_some(AttentionGradient { products, sums: self.sums, members })
    }
}
