//! Gradients of a softmax between two matmuls, as the gradient of attention computes them.
//!
//! Weights `w` weigh values: `y = w·v`. The gradient of the softmax subtracts `Σ_j w[i, j]·dw[i, j]`, where `dw = dy·vᵀ`.
//! That is `Σ_c dy[i, c]·y[i, c]`, so no sum over the weights is needed.

use super::access::Access;
use super::attention::canonical_axes;
use super::domain::Domain;
use super::graph::FusionGraph;
use super::place::reduced_domain;
use super::rewrite::Rewrite;
use super::settings::Settings;
use super::shapes::{matmul_extents, matmul_spec};
use crate::ir::{Binary, Graph, MatmulSpec, Monoid, Node, NodeId, NodeOp, Scalar, Symbol, Type, Value, View};
use std::collections::{HashMap, HashSet};

/// The graph in which sums of weights times their gradients are sums of results times theirs, and the names of the matmuls
/// whose left operands are these weights.
pub fn sums_of_results(graph: &Graph) -> (Graph, HashSet<Symbol>) {
    let divided = FusionGraph::new(graph, &Settings::default());
    let found: HashMap<NodeId, Found> =
        (0..graph.nodes.len()).filter_map(|node| Some((node, find(&divided, node)?))).collect();
    if found.is_empty() {
        return (graph.clone(), HashSet::new());
    }
    let turned = turned_matmuls(&divided, &found);
    let mut rewrite = Rewrite::new(graph);
    for id in 0..graph.nodes.len() {
        let value = match found.get(&id) {
            Some(found) => rewrite.sum_of_result(id, found),
            None if turned.contains(&id) => rewrite.turned(id),
            None => rewrite.copied(id),
        };
        rewrite.map.push(value);
    }
    let results = found.values().map(|found| graph.nodes[found.result].outputs[0].name.clone()).collect();
    (rewrite.finish(), results)
}

/// A sum of weights times their gradients.
struct Found {
    /// The matmul of weights and values.
    result: NodeId,
    /// The matmul of the gradient of the result and values.
    slope: NodeId,
}

/// What a sum over rows of points adds up, if it is such a sum.
fn find(graph: &FusionGraph, node: NodeId) -> Option<Found> {
    let NodeOp::Reduce { monoid: Monoid::Sum, .. } = graph.op(node) else { return None };
    let [edge] = &graph.edges[node][..] else { return None };
    let product = edge.producer.node;
    let n_points = graph.numel(product);
    let is_product = matches!(graph.op(product), NodeOp::Scalar(Scalar::Binary(Binary::Mul)))
        && edge.access.is_identity(n_points);
    let [a, b] = &graph.edges[product][..] else { return None };
    let reads_own = [a, b].iter().all(|edge| !edge.indexed && edge.access.is_identity(n_points));
    if !is_product || !reads_own {
        return None;
    }
    let domain = reduced_domain(graph, node);
    [(a, b), (b, a)].into_iter().find_map(|(weights, slope)| {
        let (weights, slope) = (weights.producer.node, slope.producer.node);
        let (batch, m, n, _) = graph.is_matmul(slope).then(|| matmul_extents(graph.ir, slope))?;
        if domain != (Domain { outer: batch * m, row: n, inner: 1 }) {
            return None;
        }
        // Halves weigh by rounded weights.
        let rounded = graph.users[weights].iter().copied().filter(|&user| is_rounding(graph, user));
        let weighing: Vec<NodeId> = rounded.chain([weights]).collect();
        let users = weighing
            .iter()
            .flat_map(|&weights| graph.users[weights].iter().map(move |&user| (weights, user)));
        let results = users.filter(|&(_, user)| user < node);
        // The sum over results must be the shorter one: the identity holds in both directions.
        let is_shorter = |user: NodeId| graph.numel(user) < n_points;
        let mut results =
            results.filter(|&(weights, user)| is_shorter(user) && is_result(graph, user, weights, slope));
        Some(Found { result: results.next()?.1, slope })
    })
}

/// Whether a node rounds floats to a smaller type.
fn is_rounding(graph: &FusionGraph, node: NodeId) -> bool {
    let from = graph.ir.nodes[node].inputs.first().map(|&input| graph.ir.ty(input).dtype);
    match graph.op(node) {
        NodeOp::Scalar(Scalar::Cast(to)) => from.is_some_and(|from| to.widens_to(from)),
        _ => false,
    }
}

/// Whether a matmul weighs by `weights` the values whose products with a gradient of its result are `slope`.
fn is_result(graph: &FusionGraph, result: NodeId, weights: NodeId, slope: NodeId) -> bool {
    if !graph.is_matmul(result) {
        return false;
    }
    let (batch, m, n, width) = matmul_extents(graph.ir, slope);
    let ty = |node: NodeId, side: usize| graph.ir.ty(graph.ir.nodes[node].inputs[side]);
    let is_weighed = operand(graph, result, 0, false)
        .is_some_and(|(base, window)| base.node == weights && window.is_identity(batch * m * n));
    let [values, again] = [operand(graph, result, 1, true), operand(graph, slope, 1, false)];
    let same_values = values.is_some() && values.map(normalized) == again.map(normalized);
    // The gradient lies like the result.
    let rank = ty(slope, 0).rank();
    let is_straight = canonical_axes(matmul_spec(graph.ir, slope), 0, rank, false).into_iter().eq(0..rank);
    matmul_extents(graph.ir, result) == (batch, m, width, n)
        && is_weighed
        && same_values
        && is_straight
        && graph.ir.ty(Value::of(result)) == ty(slope, 0)
        && graph.ir.ty(Value::of(slope)).dtype == ty(slope, 0).dtype
}

/// An operand of a matmul as a window on a buffer, its axes in canonical order.
fn operand(
    graph: &FusionGraph,
    matmul: NodeId,
    side: usize,
    contracted_first: bool,
) -> Option<(Value, Access)> {
    let value = graph.ir.nodes[matmul].inputs[side];
    let (base, window) = graph.strided(value)?;
    let extents = graph.ir.ty(value).extents();
    let perm = canonical_axes(matmul_spec(graph.ir, matmul), side, extents.len(), contracted_first);
    let shape: Vec<usize> = perm.iter().map(|&axis| extents[axis]).collect();
    Some((base, window.then(&View::Permute { perm }, &shape)))
}

fn normalized((base, window): (Value, Access)) -> (Value, Access) {
    (base, window.normalized())
}

/// Matmuls of the points behind a gradient of weights that have the points on their right: they yield the transpose of a sum
/// over queries, which the views behind them transpose back.
fn turned_matmuls(graph: &FusionGraph, found: &HashMap<NodeId, Found>) -> HashSet<NodeId> {
    let mut open: Vec<NodeId> = found.values().map(|found| found.slope).collect();
    let (mut points, mut turned) = (HashSet::new(), HashSet::new());
    while let Some(node) = open.pop() {
        for &user in &graph.users[node] {
            let is_map =
                matches!(graph.op(user), NodeOp::Scalar(_)) && graph.numel(user) == graph.numel(node);
            if is_map && points.insert(user) {
                open.push(user);
            }
            let is_right = graph.is_matmul(user)
                && graph.strided(graph.ir.nodes[user].inputs[1]).is_some_and(|(base, _)| base.node == node)
                && graph.strided(graph.ir.nodes[user].inputs[0]).is_some_and(|(base, _)| base.node != node);
            if is_right {
                turned.insert(user);
            }
        }
    }
    turned
}

impl Rewrite<'_> {
    /// The sum of a result times its gradient, in place of that of weights times theirs.
    fn sum_of_result(&mut self, id: NodeId, found: &Found) -> NodeId {
        let slope = self.value(self.old.nodes[found.slope].inputs[0]);
        let result = Value::of(self.map[found.result]);
        let dtype = self.old.ty(Value::of(id)).dtype;
        let ty = self.new.ty(result).with_dtype(dtype);
        let factors = [("slope", slope), ("result", result)].map(|(name, factor)| {
            let is_wide = self.new.ty(factor).dtype == dtype;
            let cast = NodeOp::Scalar(Scalar::Cast(dtype));
            if is_wide { factor } else { self.beside(id, name, cast, vec![factor], ty.clone()) }
        });
        let last = ty.rank() - 1;
        let product = NodeOp::Scalar(Scalar::Binary(Binary::Mul));
        let product = self.beside(id, "products", product, factors.to_vec(), ty.clone());
        let rows = Type { shape: ty.shape[..last].to_vec(), ..ty };
        let sum = NodeOp::Reduce { monoid: Monoid::Sum, axes: vec![last] };
        let sum = self.beside(id, "sums", sum, vec![product], rows);
        let node = Node { op: NodeOp::View(View::Reshape), inputs: vec![sum], ..self.old.nodes[id].clone() };
        self.new.push(node)
    }

    /// A matmul with its operands exchanged, and the transpose of its result.
    fn turned(&mut self, id: NodeId) -> NodeId {
        let node = &self.old.nodes[id];
        let spec = matmul_spec(self.old, id);
        let swapped = |pairs: &[(usize, usize)]| pairs.iter().map(|&(l, r)| (r, l)).collect();
        let turned =
            MatmulSpec::new(swapped(&spec.batch), swapped(&spec.contracted)).with_precision(spec.precision);
        let inputs = [1, 0].map(|side| self.value(node.inputs[side])).to_vec();
        let n_free = |side: usize| {
            let rank = self.old.ty(node.inputs[side]).rank();
            if side == 0 { spec.lhs_free(rank).len() } else { spec.rhs_free(rank).len() }
        };
        let (n_batch, n_left, n_right) = (spec.batch.len(), n_free(0), n_free(1));
        let perm: Vec<usize> = (0..n_batch)
            .chain(n_batch + n_right..n_batch + n_right + n_left)
            .chain(n_batch..n_batch + n_right)
            .collect();
        let ty = self.old.ty(Value::of(id)).clone();
        let mut shape = ty.shape.clone();
        perm.iter().zip(&ty.shape).for_each(|(&from, extent)| shape[from] = extent.clone());
        let ty = Type { shape, ..ty };
        let product = self.beside(id, "turned", NodeOp::Matmul(turned), inputs, ty);
        let node = Node { op: NodeOp::View(View::Permute { perm }), inputs: vec![product], ..node.clone() };
        self.new.push(node)
    }
}
