//! The search for attention: a matmul, rows over its result, and a matmul of their weights.
//!
//! Scores `Σ_d query[b, i, d]·key[b, j, d]` go through maps and reductions along j. Their weights weigh the values:
//! `Σ_j weight[b, i, j]·value[b, j, w]`. Neither scores nor weights go through memory. The rows are any maps and
//! reductions: softmax with a mask, bias, noise or temperature, or another normalisation. Operands that are gathered,
//! repeated or converted on their way to a matmul are so inside the kernel.

use super::access::Access;
use super::cost::{ATTENTION_NODES, MAX_DEPTH};
use super::domain::Domain;
use super::graph::{Edge, FusionGraph};
use super::place::Place;
use super::settings::Settings;
use super::shapes::{OperandAxes, matmul_extents, operand_axes};
use crate::ir::{DType, Graph, MatmulSpec, NodeId, NodeOp, Value, View};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of an attention kernel.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The matmul of queries and keys.
    pub scores: NodeId,
    /// The operand of `scores` that holds the queries.
    pub query_side: usize,
    /// The left operand of `output`.
    pub weights: NodeId,
    /// The matmul of weights and values.
    pub output: NodeId,
    /// The last map behind `output`, or `output` itself: the node that the kernel stores.
    pub end: NodeId,
    /// All nodes with their places; nodes that only lead to an operand or a mask count as elements.
    pub members: BTreeMap<NodeId, Place>,
    /// Whether many queries share their keys. Then queries, keys and values are read from memory as they are.
    pub is_shared: bool,
    /// Moved or indexed operands with other users: the kernel reads through them.
    pub duplicated: BTreeSet<NodeId>,
}

/// The attention that ends in matmul `output`, if its scores and weights have no other users. Whether the device has a
/// kernel for it depends on its body if it is shared or has many keys.
pub fn find(graph: &FusionGraph, output: NodeId, settings: &Settings) -> Option<Attention> {
    let is_able = |node: NodeId| settings.has_attention_in_f64() || !handles_doubles(graph.ir, node);
    let mut attention = search(graph, output, false)?;
    attention.is_shared = !settings.is_of_few(attention.n_queries(graph));
    let is_computable = attention.members.keys().all(|&node| is_able(node));
    if !is_computable || attention.escaping(graph).next().is_some() {
        return None;
    }
    add_end_maps(graph, &mut attention, &is_able);
    add_row_maps(graph, &mut attention.members, &is_able);
    add_operand_maps(graph, &mut attention, &is_able);
    let is_state = attention.members.keys().any(|&node| graph.state[node]);
    (!is_state).then_some(attention)
}

/// Whether a node reads or computes `f64`.
fn handles_doubles(graph: &Graph, node: NodeId) -> bool {
    let read = graph.nodes[node].inputs.iter().map(|&input| graph.ty(input));
    read.chain([graph.ty(Value::of(node))]).any(|ty| ty.dtype == DType::F64)
}

impl Attention {
    /// Queries that share their keys.
    pub fn n_queries(&self, graph: &FusionGraph) -> usize {
        matmul_extents(graph.ir, self.output).1
    }

    /// Keys of a query.
    pub fn n_keys(&self, graph: &FusionGraph) -> usize {
        matmul_extents(graph.ir, self.output).3
    }

    /// Scores, or maps of them, with users outside.
    pub fn escaping<'a>(&'a self, graph: &'a FusionGraph) -> impl Iterator<Item = NodeId> + 'a {
        let elements = self.members.iter().filter(|(node, place)| {
            **place == Place::Element && **node != self.output && self.escapes(graph, **node)
        });
        elements.map(|(node, _)| *node)
    }

    /// Materialized nodes that it reads and may compute itself.
    fn producers<'a>(&'a self, graph: &'a FusionGraph) -> impl Iterator<Item = NodeId> + 'a {
        let is_matmul = |node: NodeId| self.is_shared && [self.scores, self.output].contains(&node);
        let readers = self.members.keys().filter(move |node| !is_matmul(**node)).chain(&self.duplicated);
        let edges = readers.flat_map(|&node| &graph.edges[node]);
        let producers = edges.filter(|edge| !edge.indexed).map(|edge| edge.producer.node);
        let is_known = |node: &NodeId| self.members.contains_key(node) || self.duplicated.contains(node);
        producers.filter(move |node| graph.materialized[*node] && !is_known(node))
    }

    /// The nodes that duplicated nodes read, which must be in memory.
    pub fn must_store<'a>(&'a self, graph: &'a FusionGraph) -> impl Iterator<Item = NodeId> + 'a {
        let edges = self.duplicated.iter().flat_map(|&node| &graph.edges[node]);
        let read = edges.map(|edge| edge.producer.node);
        let is_own = |node: &NodeId| self.members.contains_key(node) || self.duplicated.contains(node);
        read.filter(move |node| graph.materialized[*node] && !is_own(node))
    }

    fn escapes(&self, graph: &FusionGraph, node: NodeId) -> bool {
        graph.root[node] || graph.users[node].iter().any(|user| !self.members.contains_key(user))
    }
}

// ---- The search.

/// The scores, rows and output of an attention, without the maps around them; the scores may have other users, and the
/// weights if they are shared.
pub fn search(graph: &FusionGraph, output: NodeId, shares_weights: bool) -> Option<Attention> {
    let NodeOp::Matmul(spec) = graph.op(output) else { return None };
    let (batch, m, width, n) = matmul_extents(graph.ir, output);
    // A single key has the weight 1, and an empty result has no kernel.
    if batch * m * width == 0
        || n < 2
        || width > MAX_DEPTH
        || !graph.ir.ty(Value::of(output)).dtype.is_float()
    {
        return None;
    }
    let domain = Domain { outer: batch * m, row: n, inner: 1 };
    let weights = dense_left_operand(graph, output, spec)?;
    let has_other_users = graph.users[weights].iter().any(|user| *user != output);
    if graph.root[weights] || has_other_users && !shares_weights {
        return None;
    }
    let above = reachable(graph, weights, domain)?;
    // Without a reduction over scores, a library matmul with an epilogue is as fast.
    if above.values().all(|place| *place != Place::Row) {
        return None;
    }
    above.keys().rev().filter(|node| graph.is_matmul(**node)).find_map(|&scores| {
        let query_side = query_side(graph.ir, scores, [batch, m, n])?;
        let mut members = between(graph, scores, &above);
        members.insert(output, Place::Element);
        let duplicated = BTreeSet::new();
        let (end, is_shared) = (output, false);
        let attention =
            Attention { scores, query_side, weights, output, end, members, is_shared, duplicated };
        let is_whole = attention.members.contains_key(&weights)
            && attention.members.values().any(|place| *place == Place::Row)
            && edges_fit(graph, &attention, domain);
        is_whole.then_some(attention)
    })
}

/// The materialized node whose elements are those of the left operand as `[batch, rows, contracted]`, in that order.
fn dense_left_operand(graph: &FusionGraph, node: NodeId, spec: &MatmulSpec) -> Option<NodeId> {
    let (base, window) = graph.strided(graph.ir.nodes[node].inputs[0])?;
    let extents = graph.ir.ty(graph.ir.nodes[node].inputs[0]).extents();
    let n_elements = extents.iter().product();
    let window = permuted(&window, &canonical_axes(spec, 0, extents.len(), false), &extents);
    (graph.materialized[base.node] && window.is_identity(n_elements)).then_some(base.node)
}

fn permuted(window: &Access, perm: &[usize], extents: &[usize]) -> Access {
    let shape: Vec<usize> = perm.iter().map(|&axis| extents[axis]).collect();
    window.then(&View::Permute { perm: perm.to_vec() }, &shape)
}

/// Axes of a matmul's operand: batch, free and contracted ones, or contracted ones before free ones.
pub fn canonical_axes(spec: &MatmulSpec, side: usize, rank: usize, contracted_first: bool) -> Vec<usize> {
    let OperandAxes { batch, free, contracted } = operand_axes(spec, side, rank);
    if contracted_first { [batch, contracted, free].concat() } else { [batch, free, contracted].concat() }
}

/// The operand of a matmul that holds the queries, if its result is `[batch, m, n]`. With a single query per batch, the
/// result has the same layout either way.
fn query_side(graph: &Graph, scores: NodeId, [batch, m, n]: [usize; 3]) -> Option<usize> {
    let (its_batch, rows, columns, depth) = matmul_extents(graph, scores);
    match (its_batch == batch && (1..=MAX_DEPTH).contains(&depth), [rows, columns]) {
        (true, shape) if shape == [m, n] => Some(0),
        (true, shape) if m == 1 && shape == [n, 1] => Some(1),
        _ => None,
    }
}

/// The nodes above the weights over the same points and rows, down to matmuls; none if there are too many.
fn reachable(graph: &FusionGraph, weights: NodeId, domain: Domain) -> Option<BTreeMap<NodeId, Place>> {
    let mut above = BTreeMap::new();
    let mut stack = vec![(weights, Place::Element)];
    while let Some((node, place)) = stack.pop() {
        if above.len() > ATTENTION_NODES {
            return None;
        }
        let fits = Place::of(graph, node, domain) == Some(place);
        if !fits || above.insert(node, place).is_some() || graph.is_matmul(node) {
            continue;
        }
        for edge in &graph.edges[node] {
            if graph.materialized[edge.producer.node] {
                let from = place.of_producer(graph, node, edge, domain);
                stack.extend(from.map(|from| (edge.producer.node, from)));
            }
        }
    }
    Some(above)
}

/// The nodes that the scores go into, on the way to the weights.
fn between(graph: &FusionGraph, scores: NodeId, above: &BTreeMap<NodeId, Place>) -> BTreeMap<NodeId, Place> {
    let mut members = BTreeMap::from([(scores, Place::Element)]);
    for (&node, &place) in above.range(scores + 1..) {
        let depends = |edge: &Edge| members.contains_key(&edge.producer.node);
        if !graph.is_matmul(node) && graph.edges[node].iter().any(depends) {
            members.insert(node, place);
        }
    }
    members
}

/// Whether members read each other at their own points only.
fn edges_fit(graph: &FusionGraph, attention: &Attention, domain: Domain) -> bool {
    let Attention { scores, weights, output, members, .. } = attention;
    let reads =
        |node: NodeId| graph.edges[node].iter().filter(|edge| members.contains_key(&edge.producer.node));
    let rows_fit =
        members.iter().filter(|(node, _)| ![scores, output].contains(node)).all(|(&node, &place)| {
            let read = |edge: &Edge| place.of_producer(graph, node, edge, domain);
            reads(node).all(|edge| read(edge) == members.get(&edge.producer.node).copied())
        });
    rows_fit && reads(*output).all(|edge| edge.producer.node == *weights) && reads(*output).count() == 1
}

/// Adds the maps behind the result, as long as each value has the next map for its only user.
fn add_end_maps(graph: &FusionGraph, attention: &mut Attention, is_able: &dyn Fn(NodeId) -> bool) {
    let n_points = graph.numel(attention.output);
    while let [user] = graph.users[attention.end][..] {
        let is_map = matches!(graph.op(user), NodeOp::Scalar(_) | NodeOp::View(_));
        // Nodes before the scores depend on no member.
        let fits_in = |edge: &Edge| match edge.producer.node {
            node if node == attention.end => edge.access.is_identity(n_points),
            node => node < attention.scores && !edge.indexed,
        };
        let fits = is_map
            && is_able(user)
            && !graph.root[attention.end]
            && graph.have_one_mark(user, attention.end)
            && graph.numel(user) == n_points
            && graph.edges[user].iter().all(fits_in);
        if !fits {
            return;
        }
        attention.members.insert(user, Place::Element);
        attention.end = user;
    }
}

/// Adds maps of row values alone, such as the logarithm of a sum.
fn add_row_maps(
    graph: &FusionGraph,
    members: &mut BTreeMap<NodeId, Place>,
    is_able: &dyn Fn(NodeId) -> bool,
) {
    let is_row = |members: &BTreeMap<NodeId, Place>, node: NodeId| members.get(&node) == Some(&Place::Row);
    let mut stack: Vec<NodeId> =
        members.iter().filter(|(_, place)| **place == Place::Row).map(|(node, _)| *node).collect();
    while let Some(row) = stack.pop() {
        let n_rows = graph.numel(row);
        for &user in &graph.users[row] {
            let own = |edge: &Edge| {
                graph.is_input(edge.producer.node)
                    || is_row(members, edge.producer.node) && edge.access.is_identity(n_rows)
            };
            let fits = matches!(graph.op(user), NodeOp::Scalar(_))
                && graph.numel(user) == n_rows
                && graph.have_one_mark(user, row)
                && graph.edges[user].iter().all(own);
            if fits && is_able(user) && !members.contains_key(&user) {
                members.insert(user, Place::Row);
                stack.push(user);
            }
        }
    }
}

/// Adds maps that only lead to members: moved or indexed operands, and masks computed from coordinates. They are computed
/// at each read, so they must be fast, or be read once. Nodes that only move elements are duplicated if they have other
/// users.
fn add_operand_maps(graph: &FusionGraph, attention: &mut Attention, is_able: &dyn Fn(NodeId) -> bool) {
    let n_scores = graph.numel(attention.scores);
    let is_own = |attention: &Attention, node: NodeId| {
        let is_factor = |user: &NodeId| [attention.scores, attention.output].contains(user);
        let is_read_as_it_is = attention.is_shared && graph.users[node].iter().any(is_factor);
        is_light(graph, node, n_scores)
            && !attention.escapes(graph, node)
            && !is_indexed(graph, node)
            && !is_read_as_it_is
            && graph.have_one_mark(node, attention.output)
    };
    let next_own = |attention: &Attention| {
        attention.producers(graph).find(|&node| is_able(node) && is_own(attention, node))
    };
    while let Some(node) = next_own(attention) {
        attention.members.insert(node, Place::Element);
    }
    let next_moved = |attention: &Attention| {
        let is_free = |node: NodeId| is_able(node) && graph.have_one_mark(node, attention.output);
        attention.producers(graph).find(|&node| is_free(node) && is_move(graph.op(node)))
    };
    while let Some(node) = next_moved(attention) {
        attention.duplicated.insert(node);
    }
}

/// Whether a node gathers from a value, which must be in memory then.
fn is_indexed(graph: &FusionGraph, node: NodeId) -> bool {
    let mut edges = graph.users[node].iter().flat_map(|&user| &graph.edges[user]);
    edges.any(|edge| edge.indexed && edge.producer.node == node)
}

fn is_light(graph: &FusionGraph, node: NodeId, n_scores: usize) -> bool {
    match graph.op(node) {
        op @ NodeOp::Scalar(_) => graph.cost.is_fast(op) || graph.numel(node) == n_scores,
        NodeOp::Random { .. } => graph.numel(node) == n_scores,
        op => is_move(op),
    }
}

fn is_move(op: &NodeOp) -> bool {
    matches!(op, NodeOp::View(_) | NodeOp::Gather { .. } | NodeOp::Check { .. })
}
