//! Attention: a contraction, rows over its result, and a contraction of what comes of them, as one kernel.
//!
//! Scores `Σ_d query[b, i, d]·key[b, j, d]` go through maps and reductions along j; what comes of them weighs the
//! values: `Σ_j weight[b, i, j]·value[b, j, w]`. Neither scores nor weights go through memory. What the rows compute is
//! open: softmax with any mask, bias, noise or temperature, or another normalisation. Operands that are gathered,
//! repeated or converted on their way to a contraction are so inside the kernel.

use super::body::BodyBuilder;
use super::edges::{Edge, RealGraph, contract_extents, is_cheap};
use super::groups::{FusionGroups, Place, is_row_pattern, row_domain};
use super::{Abilities, Access, AttentionBody, Class, Domain, KernelBody, Operand, Source};
use crate::ir::{Contract, DType, Graph, Node, NodeId, NodeOp, Output, StateLink, Symbol, Value, View};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What an attend kernel is made of.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The contraction that makes the scores.
    scores: NodeId,
    /// Which operand of it holds the queries.
    query_side: usize,
    /// What weighs the values: the left operand of `output`.
    weights: NodeId,
    /// The contraction of weights and values.
    output: NodeId,
    /// The last of the maps that go on from its result, if there are any; what the kernel writes.
    end: NodeId,
    /// All nodes and where they live; nodes that only lead to an operand or a mask count as elements.
    pub members: BTreeMap<NodeId, Place>,
    /// Moved or indexed operands that are needed elsewhere too: the kernel reads through them.
    pub borrowed: BTreeSet<NodeId>,
}

/// Longest query, key or value: a kernel keeps a block of them, and of sums as long, close at hand.
pub const MAX_DEPTH: usize = 512;

/// Most nodes that are looked through for scores. Without a bound, each contraction of a long recurrence would look
/// through all steps before it.
const MAX_NODES: usize = 256;

/// The attention that ends in contraction `output`, if there is one whose scores and weights nobody else needs, and that
/// is a kernel on the device.
pub fn find(real: &RealGraph, output: NodeId, abilities: &Abilities) -> Option<Attention> {
    let is_able = |node: NodeId| abilities.attention_in_f64 || !handles_doubles(real.graph, node);
    let mut attention = search(real, output)?;
    let has_kernel =
        is_small_enough(real, output, abilities) && attention.members.keys().all(|&node| is_able(node));
    if !has_kernel || attention.escaping(real).next().is_some() {
        return None;
    }
    go_on(real, &mut attention, &is_able);
    take_in_rows(real, &mut attention.members, &is_able);
    take_in_maps(real, &mut attention, &is_able);
    let is_state = attention.members.keys().any(|&node| real.state[node]);
    (!is_state).then_some(attention)
}

/// Whether the device has a kernel for so many queries and keys.
fn is_small_enough(real: &RealGraph, output: NodeId, abilities: &Abilities) -> bool {
    let NodeOp::Contract(spec) = &real.graph.nodes[output].op else { return false };
    let (_, n_queries, _, n_keys) = contract_extents(real.graph, output, spec);
    n_queries <= abilities.most_queries && n_keys <= abilities.most_keys
}

/// Whether a node reads or makes numbers of `f64`.
fn handles_doubles(graph: &Graph, node: NodeId) -> bool {
    let read = graph.nodes[node].inputs.iter().map(|&input| graph.ty(input));
    read.chain([graph.ty(Value::of(node))]).any(|ty| ty.dtype == DType::F64)
}

impl Attention {
    /// Scores, or maps of them, that are used elsewhere too.
    fn escaping<'a>(&'a self, real: &'a RealGraph) -> impl Iterator<Item = NodeId> + 'a {
        let elements = self.members.iter().filter(|(node, place)| {
            **place == Place::Element && **node != self.output && self.escapes(real, **node)
        });
        elements.map(|(node, _)| *node)
    }

    /// Real nodes that it reads from.
    fn makers<'a>(&'a self, real: &'a RealGraph) -> impl Iterator<Item = NodeId> + 'a {
        let edges = self.members.keys().chain(&self.borrowed).flat_map(|&node| &real.edges[node]);
        let makers = edges.filter(|edge| !edge.indexed).map(|edge| edge.producer.node);
        let is_known = |node: &NodeId| self.members.contains_key(node) || self.borrowed.contains(node);
        makers.filter(move |node| real.real[*node] && !is_known(node))
    }

    /// What is read through the borrowed nodes, which therefore has to be in memory.
    pub fn kept<'a>(&'a self, real: &'a RealGraph) -> impl Iterator<Item = NodeId> + 'a {
        let edges = self.borrowed.iter().flat_map(|&node| &real.edges[node]);
        let read = edges.map(|edge| edge.producer.node);
        let is_own = |node: &NodeId| self.members.contains_key(node) || self.borrowed.contains(node);
        read.filter(move |node| real.real[*node] && !is_own(node))
    }

    fn escapes(&self, real: &RealGraph, node: NodeId) -> bool {
        real.root[node] || real.users[node].iter().any(|user| !self.members.contains_key(user))
    }
}

// ---- The search.

/// Contraction, rows, contraction; the scores may have other users.
fn search(real: &RealGraph, output: NodeId) -> Option<Attention> {
    let graph = real.graph;
    let NodeOp::Contract(spec) = &graph.nodes[output].op else { return None };
    let (batch, m, width, n) = contract_extents(graph, output, spec);
    // Of a single key there is nothing to weigh, and of nothing, nothing.
    if batch * m * width == 0 || n < 2 || width > MAX_DEPTH || !graph.ty(Value::of(output)).dtype.is_float() {
        return None;
    }
    let domain = Domain { outer: batch * m, row: n, inner: 1 };
    let weights = dense_left_operand(real, output, spec)?;
    if real.root[weights] || real.users[weights].iter().any(|user| *user != output) {
        return None;
    }
    let above = reachable(real, weights, domain)?;
    // Without a reduction over scores there is nothing that a library product and its epilogue do not do as well.
    if above.values().all(|place| *place != Place::Row) {
        return None;
    }
    let is_product = |node: &&NodeId| matches!(graph.nodes[**node].op, NodeOp::Contract(_));
    above.keys().rev().filter(is_product).find_map(|&scores| {
        let query_side = query_side(graph, scores, [batch, m, n])?;
        let mut members = between(real, scores, &above);
        members.insert(output, Place::Element);
        let borrowed = BTreeSet::new();
        let attention = Attention { scores, query_side, weights, output, end: output, members, borrowed };
        let is_whole = attention.members.contains_key(&weights)
            && attention.members.values().any(|place| *place == Place::Row)
            && edges_fit(real, &attention, domain);
        is_whole.then_some(attention)
    })
}

/// The real node whose elements are those of the left operand as `[batch, rows, contracted]`, in that order.
fn dense_left_operand(real: &RealGraph, node: NodeId, spec: &Contract) -> Option<NodeId> {
    let (base, window) = real.strided(real.graph.nodes[node].inputs[0])?;
    let extents = real.graph.ty(real.graph.nodes[node].inputs[0]).extents();
    let perm = canonical_axes(spec, 0, extents.len(), false);
    let n_elements = extents.iter().product();
    let window = permuted(&window, &perm, &extents);
    (real.real[base.node] && window.is_identity(n_elements)).then_some(base.node)
}

fn permuted(window: &Access, perm: &[usize], extents: &[usize]) -> Access {
    let shape: Vec<usize> = perm.iter().map(|&axis| extents[axis]).collect();
    window.then(&View::Permute { perm: perm.to_vec() }, &shape)
}

/// Axes of a contraction's operand: batch, then free and contracted ones, or those two the other way round.
fn canonical_axes(spec: &Contract, side: usize, rank: usize, contracted_first: bool) -> Vec<usize> {
    let pick = |pairs: &[(usize, usize)]| -> Vec<usize> {
        pairs.iter().map(|&(l, r)| if side == 0 { l } else { r }).collect()
    };
    let free = if side == 0 { spec.lhs_free(rank) } else { spec.rhs_free(rank) };
    let (batch, contracted) = (pick(&spec.batch), pick(&spec.contracted));
    if contracted_first { [batch, contracted, free].concat() } else { [batch, free, contracted].concat() }
}

/// Which operand of a contraction holds the queries, if its result is `[batch, m, n]`; of a single query a batch the
/// result looks alike either way.
fn query_side(graph: &Graph, scores: NodeId, [batch, m, n]: [usize; 3]) -> Option<usize> {
    let NodeOp::Contract(spec) = &graph.nodes[scores].op else { return None };
    let (its_batch, rows, columns, depth) = contract_extents(graph, scores, spec);
    match (its_batch == batch && (1..=MAX_DEPTH).contains(&depth), [rows, columns]) {
        (true, shape) if shape == [m, n] => Some(0),
        (true, shape) if m == 1 && shape == [n, 1] => Some(1),
        _ => None,
    }
}

/// What the weights are computed from over the same points and rows, down to contractions; none if that is too much.
fn reachable(real: &RealGraph, weights: NodeId, domain: Domain) -> Option<BTreeMap<NodeId, Place>> {
    let mut above = BTreeMap::new();
    let mut stack = vec![(weights, Place::Element)];
    while let Some((node, place)) = stack.pop() {
        if above.len() > MAX_NODES {
            return None;
        }
        let fits = place_of(real, node, domain) == Some(place);
        if !fits || above.insert(node, place).is_some() || is_contract(real, node) {
            continue;
        }
        for edge in &real.edges[node] {
            if real.real[edge.producer.node] {
                stack.extend(place_read(real, node, place, edge, domain).map(|p| (edge.producer.node, p)));
            }
        }
    }
    Some(above)
}

fn is_contract(real: &RealGraph, node: NodeId) -> bool {
    matches!(real.graph.nodes[node].op, NodeOp::Contract(_))
}

/// Where a node would live among the points of the rows.
fn place_of(real: &RealGraph, node: NodeId, domain: Domain) -> Option<Place> {
    let graph = real.graph;
    let n_points = graph.ty(Value::of(node)).numel();
    match &graph.nodes[node].op {
        NodeOp::Scatter { .. } | NodeOp::Scan { .. } => None,
        NodeOp::Reduce { axes, .. } => {
            let extents = graph.ty(graph.nodes[node].inputs[0]).extents();
            (row_domain(&extents, axes) == domain).then_some(Place::Row)
        }
        _ if n_points == domain.points(Class::Element) => Some(Place::Element),
        _ if n_points == domain.points(Class::Row) => Some(Place::Row),
        _ => None,
    }
}

/// Where the producer of an edge lives, if each point reads its own element or that of its row.
fn place_read(real: &RealGraph, node: NodeId, place: Place, edge: &Edge, domain: Domain) -> Option<Place> {
    let is_reduce = matches!(real.graph.nodes[node].op, NodeOp::Reduce { .. });
    let own = |class: Class| edge.access.is_identity(domain.points(class));
    match if is_reduce { Place::Element } else { place } {
        _ if edge.indexed => None,
        Place::Element if own(Class::Element) => Some(Place::Element),
        Place::Element if is_row_pattern(&edge.access, domain) => Some(Place::Row),
        Place::Row if own(Class::Row) => Some(Place::Row),
        _ => None,
    }
}

/// The nodes that the scores go into, on the way to the weights.
fn between(real: &RealGraph, scores: NodeId, above: &BTreeMap<NodeId, Place>) -> BTreeMap<NodeId, Place> {
    let mut members = BTreeMap::from([(scores, Place::Element)]);
    for (&node, &place) in above.range(scores + 1..) {
        let depends = |edge: &Edge| members.contains_key(&edge.producer.node);
        if !is_contract(real, node) && real.edges[node].iter().any(depends) {
            members.insert(node, place);
        }
    }
    members
}

/// Whether members read each other at their own points only.
fn edges_fit(real: &RealGraph, attention: &Attention, domain: Domain) -> bool {
    let Attention { scores, weights, output, members, .. } = attention;
    let reads =
        |node: NodeId| real.edges[node].iter().filter(|edge| members.contains_key(&edge.producer.node));
    let rows_fit =
        members.iter().filter(|(node, _)| ![scores, output].contains(node)).all(|(&node, &place)| {
            let read = |edge: &Edge| place_read(real, node, place, edge, domain);
            reads(node).all(|edge| read(edge) == members.get(&edge.producer.node).copied())
        });
    rows_fit && reads(*output).all(|edge| edge.producer.node == *weights) && reads(*output).count() == 1
}

/// Takes in the maps that go on from the result, as long as each value has the next map for its only user.
fn go_on(real: &RealGraph, attention: &mut Attention, is_able: &dyn Fn(NodeId) -> bool) {
    let n_points = real.graph.ty(Value::of(attention.output)).numel();
    while let [user] = real.users[attention.end][..] {
        let is_map = matches!(real.graph.nodes[user].op, NodeOp::Scalar(_) | NodeOp::View(_));
        // What was there before the scores depends on nothing in here.
        let fits_in = |edge: &Edge| match edge.producer.node {
            node if node == attention.end => edge.access.is_identity(n_points),
            node => node < attention.scores && !edge.indexed,
        };
        let fits = is_map
            && is_able(user)
            && !real.root[attention.end]
            && real.graph.ty(Value::of(user)).numel() == n_points
            && real.edges[user].iter().all(fits_in);
        if !fits {
            return;
        }
        attention.members.insert(user, Place::Element);
        attention.end = user;
    }
}

/// Maps of row values alone, such as the logarithm of a sum.
fn take_in_rows(real: &RealGraph, members: &mut BTreeMap<NodeId, Place>, is_able: &dyn Fn(NodeId) -> bool) {
    let is_row = |members: &BTreeMap<NodeId, Place>, node: NodeId| members.get(&node) == Some(&Place::Row);
    let mut stack: Vec<NodeId> =
        members.iter().filter(|(_, place)| **place == Place::Row).map(|(node, _)| *node).collect();
    while let Some(row) = stack.pop() {
        let n_rows = real.graph.ty(Value::of(row)).numel();
        for &user in &real.users[row] {
            let own = |edge: &Edge| {
                real.is_input(edge.producer.node)
                    || is_row(members, edge.producer.node) && edge.access.is_identity(n_rows)
            };
            let fits = matches!(real.graph.nodes[user].op, NodeOp::Scalar(_))
                && real.graph.ty(Value::of(user)).numel() == n_rows
                && real.edges[user].iter().all(own);
            if fits && is_able(user) && !members.contains_key(&user) {
                members.insert(user, Place::Row);
                stack.push(user);
            }
        }
    }
}

/// Maps that only lead to members: moved or indexed operands, masks computed from coordinates. They are computed
/// wherever they are read, so they must be cheap, or be read once. What merely moves elements is read through even if it
/// is needed elsewhere.
fn take_in_maps(real: &RealGraph, attention: &mut Attention, is_able: &dyn Fn(NodeId) -> bool) {
    let n_scores = real.graph.ty(Value::of(attention.scores)).numel();
    let is_own = |attention: &Attention, maker: NodeId| {
        is_light(real, maker, n_scores) && !attention.escapes(real, maker) && !is_indexed(real, maker)
    };
    let next_own = |attention: &Attention| {
        attention.makers(real).find(|&maker| is_able(maker) && is_own(attention, maker))
    };
    while let Some(maker) = next_own(attention) {
        attention.members.insert(maker, Place::Element);
    }
    let next_moved = |attention: &Attention| {
        attention.makers(real).find(|&maker| is_able(maker) && is_move(&real.graph.nodes[maker].op))
    };
    while let Some(maker) = next_moved(attention) {
        attention.borrowed.insert(maker);
    }
}

/// Whether somebody reads a value where data say, for which it has to be in memory.
fn is_indexed(real: &RealGraph, node: NodeId) -> bool {
    let mut edges = real.users[node].iter().flat_map(|&user| &real.edges[user]);
    edges.any(|edge| edge.indexed && edge.producer.node == node)
}

fn is_light(real: &RealGraph, node: NodeId, n_scores: usize) -> bool {
    match &real.graph.nodes[node].op {
        NodeOp::Scalar(scalar) => is_cheap(scalar) || real.graph.ty(Value::of(node)).numel() == n_scores,
        NodeOp::Random { .. } => real.graph.ty(Value::of(node)).numel() == n_scores,
        op => is_move(op),
    }
}

fn is_move(op: &NodeOp) -> bool {
    matches!(op, NodeOp::View(_) | NodeOp::Gather { .. } | NodeOp::Check { .. })
}

// ---- The kernel.

/// The body and operands of an attend kernel.
pub fn build(real: &RealGraph, clusters: &FusionGroups, attention: &Attention) -> (KernelBody, Vec<Operand>) {
    let graph = real.graph;
    let Attention { scores, query_side, weights, output, end: last, ref members, ref borrowed } = *attention;
    let inside: HashSet<NodeId> = members.keys().chain(borrowed).copied().collect();
    let (batch, m, width, n) = contract_extents(graph, output, contract(graph, output));
    let (_, _, _, k) = contract_extents(graph, scores, contract(graph, scores));
    let domain = |rows: usize, row: usize| Domain { outer: batch * rows, row, inner: 1 };
    let mut operands = vec![];
    let mut source = |node: NodeId, side: usize, contracted_first: bool, domain: Domain| {
        source(real, &inside, &mut operands, [node, side], contracted_first, domain)
    };
    let query = source(scores, query_side, false, domain(m, k));
    let key = source(scores, 1 - query_side, false, domain(n, k));
    let value = source(output, 1, true, domain(n, width));

    let mut rows = BodyBuilder::new(real, &inside, Some(scores), domain(m, n));
    rows.operands = operands;
    let weight = rows.value(Value::of(weights), vec![]);
    let is_row =
        |(node, place): &(&NodeId, &Place)| **place == Place::Row && clusters.is_written(**node, &inside);
    let written: Vec<NodeId> = members.iter().filter(is_row).map(|(node, _)| *node).collect();
    let row_stores = written.into_iter().map(|node| {
        let (reg, access) = rows.store(Value::of(node), Class::Row);
        (Value::of(node), reg, access, Class::Row)
    });
    let row_stores = row_stores.collect();
    let mut end = BodyBuilder::new(real, &inside, Some(output), domain(m, width));
    end.operands = std::mem::take(&mut rows.operands);
    let (reg, access) = end.store(Value::of(last), Class::Element);
    rows.operands = std::mem::take(&mut end.operands);
    let (rows, operands) = rows.finish(row_stores);
    end.operands = operands;
    let (end, operands) = end.finish(vec![(Value::of(last), reg, access, Class::Element)]);
    let dtype = graph.ty(Value::of(output)).dtype;
    let body = AttentionBody { batch, m, n, k, width, dtype, query, key, value, rows, weight, end };
    (KernelBody::Attention(Box::new(body)), operands)
}

fn contract(graph: &Graph, node: NodeId) -> &Contract {
    match &graph.nodes[node].op {
        NodeOp::Contract(spec) => spec,
        _ => crate::bug!("`{}` is no contraction", graph.nodes[node].name()),
    }
}

/// An operand of a contraction, computed where it is read.
fn source(
    real: &RealGraph,
    inside: &HashSet<NodeId>,
    operands: &mut Vec<Operand>,
    [node, side]: [usize; 2],
    contracted_first: bool,
    domain: Domain,
) -> Source {
    let graph = real.graph;
    let value = graph.nodes[node].inputs[side];
    let extents = graph.ty(value).extents();
    let perm = canonical_axes(contract(graph, node), side, extents.len(), contracted_first);
    let shape: Vec<usize> = perm.iter().map(|&axis| extents[axis]).collect();
    let mut builder = BodyBuilder::new(real, inside, None, domain);
    builder.operands = std::mem::take(operands);
    let value = builder.value(value, vec![(View::Permute { perm }, shape)]);
    let (tile, found) = builder.finish(vec![]);
    *operands = found;
    Source { tile, value }
}

// ---- Scores that are needed again.

/// The graph with scores computed once more for whoever needs them beside an attention (its gradient, for one): the
/// attention then is one kernel, and no scores wait in memory from the forward to the backward pass.
pub fn separate_scores(graph: &Graph) -> Graph {
    let real = RealGraph::new(graph, true, super::MAX_OPERANDS);
    let found = (0..graph.nodes.len()).filter_map(|node| search(&real, node));
    let found: Vec<Attention> = found.filter(|found| found.escaping(&real).next().is_some()).collect();
    if found.is_empty() {
        return graph.clone();
    }
    let mut members = BTreeSet::new();
    let mut elements = BTreeSet::new();
    for attention in &found {
        members.extend(attention.members.keys().copied());
        let is_element =
            |(node, place): &(&NodeId, &Place)| **place == Place::Element && **node != attention.output;
        elements.extend(attention.members.iter().filter(is_element).map(|(node, _)| *node));
    }
    Separation { real: &real, members, elements, map: vec![], again: HashMap::new() }.run()
}

struct Separation<'r, 'g> {
    real: &'r RealGraph<'g>,
    /// All nodes of attentions.
    members: BTreeSet<NodeId>,
    /// Those of them that are computed twice.
    elements: BTreeSet<NodeId>,
    /// By old node: the new one that attentions use.
    map: Vec<NodeId>,
    /// By old node: the new one that all others use, if it is another one.
    again: HashMap<NodeId, NodeId>,
}

impl Separation<'_, '_> {
    fn run(mut self) -> Graph {
        let old = self.real.graph;
        let mut new = Graph::new(old.name.clone());
        let mut taken: HashSet<Symbol> =
            old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()).collect();
        for (id, node) in old.nodes.iter().enumerate() {
            let is_member = self.members.contains(&id);
            let leads_on =
                !self.real.real[id] && node.inputs.iter().any(|input| self.again.contains_key(&input.node));
            let copied = leads_on || self.elements.contains(&id);
            let inner = self.moved(node, is_member || copied);
            self.map.push(new.push(inner));
            if copied {
                let mut outer = self.moved(node, false);
                outer.outputs.iter_mut().for_each(|output| rename(output, &mut taken));
                self.again.insert(id, new.push(outer));
            }
        }
        let moved = |value: &Value| self.value(value, false);
        new.outputs = old.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
        let link = |link: &StateLink| StateLink { input: self.map[link.input], next: moved(&link.next) };
        new.state = old.state.iter().map(link).collect();
        new.pruned()
    }

    fn moved(&self, node: &Node, inside: bool) -> Node {
        let inputs = node.inputs.iter().map(|input| self.value(input, inside)).collect();
        Node { inputs, ..node.clone() }
    }

    fn value(&self, value: &Value, inside: bool) -> Value {
        let again = self.again.get(&value.node).filter(|_| !inside);
        Value { node: again.copied().unwrap_or(self.map[value.node]), port: value.port }
    }
}

fn rename(output: &mut Output, taken: &mut HashSet<Symbol>) {
    while !taken.insert(output.name.clone()) {
        output.name = format!("{}.again", output.name).into();
    }
}
