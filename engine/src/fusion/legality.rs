//! Legality: which groups can become one kernel, and why others cannot.

use super::access::{Access, Axis};
use super::domain::{Class, Domain};
use super::graph::{Edge, FusionGraph};
use super::groups::{FusionGroups, Kind};
use super::kernel::matmul::Side;
use super::kernel::row_fold::RowConsumer;
use super::place::{Place, reduced_domain};
use super::shapes::operand_axes;
use crate::ir::{Binary, NodeId, NodeOp, RECOMPUTED, Scalar, Value, in_turn_with};
use crate::work::steps;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// The reason why two groups cannot become one.
pub type Refusal = &'static str;

const OTHER_POINTS: Refusal = "they visit different numbers of points";
const GATHERED: Refusal = "a gather needs its source in memory";
const NO_PROLOGUE: Refusal = "a library matmul has no prologue";
/// The most nodes of a kernel. It has long been bound by arithmetic then, and each join looks at all nodes of both groups.
const MOST_NODES: usize = 1024;

/// The group that two groups would become.
pub struct Joined {
    /// The kind of its kernel.
    pub kind: Kind,
    /// The places of its members.
    pub places: HashMap<NodeId, Place>,
}

/// The group that producer `from` and consumer `to` can become.
pub fn can_join(groups: &FusionGroups, from: usize, to: usize) -> Result<Joined, Refusal> {
    join_of(groups, from, to, || groups.order.surrounds(&[from, to]))
}

/// The same for groups that no path through a third group connects.
pub fn can_join_neighbour(groups: &FusionGroups, from: usize, to: usize) -> Result<Joined, Refusal> {
    join_of(groups, from, to, || false)
}

fn join_of(
    groups: &FusionGroups,
    from: usize,
    to: usize,
    surrounds: impl FnOnce() -> bool,
) -> Result<Joined, Refusal> {
    if groups.no_fuse(from) != groups.no_fuse(to) {
        let (from, to) = (groups.no_fuse(from), groups.no_fuse(to));
        let marks = || [from, to].into_iter().flatten();
        return Err(if marks().any(|mark| mark.ends_with(RECOMPUTED)) {
            "one of them recomputes a layer"
        } else if marks().any(|mark| in_turn_with(mark).is_some()) {
            "one of them is a part of an op whose parts run one after the other"
        } else {
            "`fuse: Never` keeps them apart"
        });
    }
    if groups.groups[from].members.len() + groups.groups[to].members.len() > MOST_NODES {
        return Err("a kernel of so many operations takes long to compile and saves little");
    }
    let kind = joined_kind(groups, from, to)?;
    let places = places(groups, kind, from, to)?;
    if surrounds() {
        return Err("a third kernel depends on one and feeds the other");
    }
    fits_operands(groups, &groups.nodes_of_both(from, to), &BTreeSet::new())?;
    Ok(Joined { kind, places })
}

/// The kind of the kernel of two groups.
fn joined_kind(groups: &FusionGroups, from: usize, to: usize) -> Result<Kind, Refusal> {
    let (a, b) = (&groups.groups[from], &groups.groups[to]);
    if a.members.iter().chain(&b.members).any(|member| member.1 == Place::Fold) {
        return Err("a matmul fold already takes the rows of this product");
    }
    let visits =
        |domain: Domain, n: usize| [Class::Element, Class::Row].map(|c| domain.points(c)).contains(&n);
    match (a.kind, b.kind) {
        (Kind::Whole, _) | (_, Kind::Whole) => Err("one of them reads and writes whole tensors in memory"),
        (Kind::Scatter(_), _) => Err("a scatter writes its result in no order"),
        (_, Kind::Scatter(_)) => Err(
            "a scatter takes in maps that have no other user, or whose inputs are smaller than their result",
        ),
        (Kind::Attention(_), _) | (_, Kind::Attention(_)) => {
            Err("an attention takes in its scores, weights and operands only")
        }
        (Kind::AttentionGradient(_), _) | (_, Kind::AttentionGradient(_)) => {
            Err("a gradient of attention takes in what lies between its products and sums only")
        }
        (Kind::Matmul(..), Kind::Matmul(..)) => Err("one matmul feeds another"),
        (Kind::Matmul(_, domain), Kind::Row(_)) if domain.row > 0 => {
            Err("a library matmul cannot reduce rows in its epilogue")
        }
        (Kind::Row(_), Kind::Matmul(..)) => Err(NO_PROLOGUE),
        (Kind::Matmul(..), Kind::Row(_)) => Err("the matmul is empty"),
        (Kind::Matmul(anchor, domain), Kind::Map(n)) => epilogue(groups, anchor, domain, n, from, to),
        (Kind::Map(n), Kind::Matmul(anchor, domain)) => epilogue(groups, anchor, domain, n, to, from),
        (Kind::Map(n), Kind::Map(m)) if n == m => Ok(Kind::Map(n)),
        (Kind::Row(domain), Kind::Map(n)) | (Kind::Map(n), Kind::Row(domain)) if visits(domain, n) => {
            Ok(Kind::Row(domain))
        }
        (Kind::Map(_) | Kind::Row(_), Kind::Map(_)) | (Kind::Map(_), Kind::Row(_)) => Err(OTHER_POINTS),
        (Kind::Row(d), Kind::Row(e)) if d == e => Ok(Kind::Row(d)),
        (Kind::Row(_), Kind::Row(_)) => Err("they reduce over different rows"),
    }
}

/// Whether the maps of group `other` can run in the epilogue of a matmul.
fn epilogue(
    groups: &FusionGroups,
    anchor: NodeId,
    domain: Domain,
    n_points: usize,
    matmul: usize,
    other: usize,
) -> Result<Kind, Refusal> {
    let graph = groups.graph;
    let maps = || groups.groups[other].nodes();
    if n_points != domain.points(Class::Element) {
        return Err("it visits another number of points than the matmul's result has");
    }
    let gathers = |node: NodeId| graph.edges[node].iter().any(|e| e.producer.node == anchor && e.indexed);
    if maps().any(gathers) {
        return Err(GATHERED);
    }
    if maps().any(|node| graph.state[node] && !adds_to_state(graph, node)) {
        return Err(
            "state is written by kernels that wait for the step's error flag, or add a product without checks before",
        );
    }
    if maps().any(|node| graph.edges[anchor].iter().any(|edge| edge.producer.node == node)) {
        return Err(NO_PROLOGUE);
    }
    if maps().any(|node| draws(groups, node)) {
        return Err("a library matmul draws no random numbers");
    }
    match graph.cost.epilogue_pays(result_sized_reads(groups, matmul, other, n_points), n_points) {
        true => Ok(Kind::Matmul(anchor, domain)),
        false => Err("the epilogue would read more tensors than it saves"),
    }
}

/// Whether a next state is a sum that no failed check holds up. A library adds such a sum to its product.
fn adds_to_state(graph: &FusionGraph, node: NodeId) -> bool {
    graph.is_unchecked && matches!(graph.op(node), NodeOp::Scalar(Scalar::Binary(Binary::Add)))
}

/// Whether a map draws random numbers, or reads from maps that do.
fn draws(groups: &FusionGroups, node: NodeId) -> bool {
    // Many paths may lead to one map: each map is visited once, the nearest first.
    let (mut open, mut seen) = (VecDeque::from([node]), HashSet::from([node]));
    while let Some(node) = open.pop_front() {
        steps(1);
        if !groups.may_draw[node].get() || !groups.is_map(node) {
            continue;
        }
        if matches!(groups.graph.op(node), NodeOp::Random { .. }) {
            return true;
        }
        let producers = groups.graph.edges[node].iter().map(|edge| edge.producer.node);
        open.extend(producers.filter(|&producer| seen.insert(producer)));
    }
    seen.into_iter().for_each(|node| groups.may_draw[node].set(false));
    false
}

/// The number of tensors of the result's size that an epilogue reads besides the accumulator.
fn result_sized_reads(groups: &FusionGroups, matmul: usize, other: usize, n_points: usize) -> usize {
    let graph = groups.graph;
    let inside: HashSet<NodeId> = groups.groups[matmul].nodes().chain(groups.groups[other].nodes()).collect();
    let maps = inside.iter().filter(|&&node| !graph.is_matmul(node));
    let reads = maps.flat_map(|&node| &graph.edges[node]).map(|edge| edge.producer);
    let is_large = |value: &Value| graph.ir.ty(*value).numel() >= n_points;
    let reads: HashSet<Value> =
        reads.filter(|value| !inside.contains(&value.node)).filter(is_large).collect();
    reads.len()
}

/// The places of all members in the merged domain, or the first edge that does not fit.
fn places(
    groups: &FusionGroups,
    kind: Kind,
    from: usize,
    to: usize,
) -> Result<HashMap<NodeId, Place>, Refusal> {
    let graph = groups.graph;
    let domain = match kind {
        Kind::Map(n) => Domain::flat(n),
        Kind::Row(domain) | Kind::Matmul(_, domain) => domain,
        _ => return Err("a kernel of its own kind takes nothing in"),
    };
    let mut places = HashMap::new();
    for &(node, place) in groups.groups[from].members.iter().chain(&groups.groups[to].members) {
        let place = if place == Place::Side { Some(place) } else { Place::of(graph, node, domain) };
        places.insert(node, place.ok_or(OTHER_POINTS)?);
    }
    let is_anchor = |node: NodeId| matches!(kind, Kind::Matmul(anchor, _) if anchor == node);
    for node in groups.nodes_of_both(from, to) {
        let place = places[&node];
        if place == Place::Side || is_anchor(node) {
            continue;
        }
        for edge in &graph.edges[node] {
            let Some(&producer) = places.get(&edge.producer.node) else { continue };
            if edge.indexed {
                return Err(GATHERED);
            }
            if !place.reads_own(graph, node, edge, producer, domain) {
                return Err("the consumer reads other elements than its own");
            }
        }
    }
    Ok(places)
}

/// Whether a kernel of these members, with duplicated nodes, has no more buffers than the device allows.
pub fn fits_operands(
    groups: &FusionGroups,
    members: &[NodeId],
    duplicated: &BTreeSet<NodeId>,
) -> Result<(), Refusal> {
    let graph = groups.graph;
    let inside: HashSet<NodeId> = members.iter().copied().collect();
    let edges = members.iter().chain(duplicated).flat_map(|&node| &graph.edges[node]);
    // The table of a gather lies in memory, even if the kernel computes elements of it elsewhere.
    let is_computed = |edge: &Edge| duplicated.contains(&edge.producer.node) && !edge.indexed;
    let is_read = |edge: &&Edge| !inside.contains(&edge.producer.node) && !is_computed(edge);
    let reads: HashSet<Value> = edges.filter(is_read).map(|edge| edge.producer).collect();
    // The epilogue of a matmul reads its side sums from memory.
    let anchors: Vec<NodeId> = members.iter().filter(|&&node| graph.is_matmul(node)).copied().collect();
    let is_side = |node: NodeId| anchors.iter().any(|&anchor| side_of(graph, anchor, node).is_some());
    let written = members.iter().filter(|&&node| groups.is_written(node, &inside) || is_side(node));
    let n_writes: usize = written.map(|&node| graph.ir.nodes[node].outputs.len()).sum();
    match reads.len() + n_writes <= groups.settings.most_operands() {
        true => Ok(()),
        false => Err("one kernel would need too many buffers"),
    }
}

/// The operand of matmul `anchor` that the reduction `node` sums along the contracted axis.
pub fn side_of(graph: &FusionGraph, anchor: NodeId, node: NodeId) -> Option<Side> {
    let NodeOp::Matmul(spec) = graph.op(anchor) else { return None };
    let NodeOp::Reduce { axes, .. } = graph.op(node) else { return None };
    if !spec.batch.is_empty() {
        return None;
    }
    let (summed, window) = graph.strided(graph.ir.nodes[node].inputs[0])?;
    let split = |window: &Access, summed: &[usize]| split_axes(window, summed, graph.sums_any_column);
    let wanted = split(&window, axes);
    [Side::Lhs, Side::Rhs].into_iter().zip(0..).find_map(|(side, operand)| {
        let value = graph.ir.nodes[anchor].inputs[operand];
        let (buffer, window) = graph.strided(value)?;
        let axes = operand_axes(spec, operand, window.levels[0].axes.len());
        (buffer == summed && split(&window, &axes.contracted) == wanted).then_some(side)
    })
}

/// Axes of a window: those that are summed, and the rest; with `joins`, neighbours that lie in memory as one axis are one.
fn split_axes(window: &Access, summed: &[usize], joins: bool) -> (Vec<Axis>, Vec<Axis>) {
    let axes = window.levels[0].axes.iter().enumerate();
    let (summed, kept): (Vec<_>, Vec<_>) = axes.partition(|(axis, _)| summed.contains(axis));
    let joined = |axes: Vec<(usize, &Axis)>| {
        let mut joined: Vec<Axis> = vec![];
        for (_, &axis) in axes {
            match joined.last_mut() {
                Some(outer) if joins && outer.stride == axis.stride * axis.extent as i64 => {
                    *outer = Axis { extent: outer.extent * axis.extent, stride: axis.stride };
                }
                _ => joined.push(axis),
            }
        }
        joined
    };
    (joined(summed), joined(kept))
}

/// The row reduction of a node, if the device can fuse it into matmul group `id`.
pub fn row_reduction(groups: &FusionGroups, id: usize, node: NodeId) -> Option<RowConsumer> {
    let Kind::Matmul(_, domain) = groups.groups[id].kind else { return None };
    let consumer = RowConsumer::behind(groups.graph.ir, node, domain.row);
    consumer.filter(|consumer| groups.settings.can_fold(consumer))
}

/// Whether a row reduction can take the rows of matmul group `id` as they are computed.
pub fn can_fold(groups: &FusionGroups, id: usize, node: NodeId) -> Result<(), Refusal> {
    let (graph, group) = (groups.graph, &groups.groups[id]);
    let Kind::Matmul(_, domain) = group.kind else {
        return Err("only a matmul has rows to fold");
    };
    let value = graph.ir.nodes[node].inputs[0];
    let ty = graph.ir.ty(value);
    let rows = match graph.op(node) {
        NodeOp::Reduce { .. } => reduced_domain(graph, node),
        _ => Domain::of_reduction(&ty.extents(), &[ty.rank().saturating_sub(1)]),
    };
    let rows = match row_reduction(groups, id, node) {
        // The blocks of a row follow each other.
        Some(RowConsumer::Blocks { columns, .. })
            if rows.points(Class::Row) * columns == domain.points(Class::Element) =>
        {
            domain
        }
        _ => rows,
    };
    let edge = &graph.edges[node][0];
    if rows != domain || edge.indexed || !edge.access.is_identity(domain.points(Class::Element)) {
        return Err("its rows are not those of the product");
    }
    if !graph.cost.fold_pays(domain.row) {
        return Err("rows this short are faster to store and read from cache");
    }
    if graph.state[node] || group.members.iter().any(|member| member.1 == Place::Fold) {
        return Err("a matmul has one row reduction, which writes no state");
    }
    let all: Vec<NodeId> = group.nodes().chain([node]).collect();
    fits_operands(groups, &all, &BTreeSet::new())?;
    let inside: HashSet<NodeId> = all.into_iter().collect();
    let is_stored =
        |&(member, place): &(NodeId, Place)| place == Place::Element && groups.is_written(member, &inside);
    match group.members.iter().any(is_stored) {
        true => Err(OTHER_USERS),
        false => Ok(()),
    }
}

/// Said of a product with more users than one row reduction.
pub const OTHER_USERS: Refusal = "the product has other users";
