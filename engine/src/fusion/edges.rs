//! What the fuser sees of a graph: real nodes, and edges between them with everything cheap folded away.
//!
//! Constants, coordinates, views and small integer-like computations are *inline*: they are never a kernel of their
//! own, every kernel that needs one computes it. What remains is *real*. An edge leads from a real consumer to a real
//! producer (or a graph input) and carries the access map that the inline nodes between them amount to.

use super::Access;
use crate::ir::{Contract, Graph, NodeId, NodeOp, Scalar, Unary, Value, View};
use std::collections::BTreeSet;

/// A dependency of a real node on a real producer or an input.
#[derive(Clone, Debug)]
pub struct Edge {
    /// What is read.
    pub producer: Value,
    /// From the points of that operand to the elements of the producer.
    pub access: Access,
    /// Whether the producer is indexed by data (the source of a gather).
    pub indexed: bool,
    /// How many elements of it are read, at most.
    pub n_reads: usize,
}

/// The graph with inline nodes told apart.
pub struct RealGraph<'g> {
    /// The simplified primitive graph.
    pub graph: &'g Graph,
    /// By node: whether it can be a kernel. Inputs are neither real nor inline.
    pub real: Vec<bool>,
    /// By real node: what it depends on.
    pub edges: Vec<Vec<Edge>>,
    /// By node (real or input): real nodes that depend on it, ascending, once each.
    pub users: Vec<Vec<NodeId>>,
    /// By node: whether it is a result of the graph or a next state.
    pub root: Vec<bool>,
    /// By node: whether it is a next state.
    pub state: Vec<bool>,
}

/// Inline computations are recomputed wherever they are used, so they have to stay this small (elements) and short
/// (scalar primitives), all the way from the inputs. What is computed from coordinates alone, such as a causal mask, may
/// be of any size: reading it would take longer.
const INLINE_ELEMENTS: usize = 1 << 16;
const INLINE_COST: usize = 24;

impl<'g> RealGraph<'g> {
    /// Looks at a simplified primitive graph; `fuse: false` keeps every node apart that has work to do. No real node reads
    /// more than `most_operands` tensors, less the one that it writes, if inline nodes can be helped by becoming real.
    pub fn new(graph: &'g Graph, fuse: bool, most_operands: usize) -> RealGraph<'g> {
        let n_nodes = graph.nodes.len();
        let mut seen = RealGraph {
            graph,
            real: inline_costs(graph, fuse).iter().map(Option::is_none).collect(),
            edges: vec![vec![]; n_nodes],
            users: vec![vec![]; n_nodes],
            root: vec![false; n_nodes],
            state: vec![false; n_nodes],
        };
        for root in graph.roots() {
            seen.root[root.node] = true;
        }
        for link in &graph.state {
            seen.state[link.next.node] = true;
        }
        seen.materialize();
        seen.limit_reads(most_operands.saturating_sub(1));
        for node in 0..n_nodes {
            if seen.real[node] {
                seen.edges[node] = seen.edges_of(node);
            }
        }
        seen.link_users();
        seen
    }

    /// Whether a node is a graph input.
    pub fn is_input(&self, node: NodeId) -> bool {
        matches!(self.graph.nodes[node].op, NodeOp::Input(_))
    }

    /// Inline nodes whose value has to exist in memory become real: results, and operands that need a strided or dense
    /// buffer but cannot be read as one through the views.
    fn materialize(&mut self) {
        for root in self.graph.roots() {
            self.real[root.node] |= !self.is_input(root.node);
        }
        for id in 0..self.graph.nodes.len() {
            let node = &self.graph.nodes[id];
            for (operand, &input) in node.inputs.iter().enumerate() {
                let fits = match &node.op {
                    NodeOp::Contract(_) => self.strided(input).is_some(),
                    NodeOp::Gather { .. } if operand == 0 => self.strided(input).is_some(),
                    NodeOp::Scan { .. } => !self.is_inline(input.node),
                    // A kernel that writes state checks nothing on the way.
                    NodeOp::Scatter { .. } if self.state[id] => !self.is_inline(input.node),
                    NodeOp::Call(_) => self.dense(input).is_some(),
                    _ => true,
                };
                self.real[input.node] |= !fits || self.crosses_border(id, input);
            }
        }
    }

    /// Makes inline nodes real, of a node's operands those first that read most, until no node reads more than `most`
    /// tensors.
    fn limit_reads(&mut self, most: usize) {
        // By inline node: the tensors that it is computed from.
        let mut sources: Vec<BTreeSet<Value>> = vec![BTreeSet::new(); self.graph.nodes.len()];
        for id in 0..self.graph.nodes.len() {
            let inputs = &self.graph.nodes[id].inputs;
            loop {
                let mut reads = BTreeSet::new();
                for input in inputs {
                    match self.is_inline(input.node) {
                        true => reads.extend(sources[input.node].iter().copied()),
                        false => drop(reads.insert(*input)),
                    }
                }
                let inline = inputs.iter().map(|input| input.node).filter(|&node| self.is_inline(node));
                match inline.max_by_key(|&node| sources[node].len()) {
                    Some(largest) if reads.len() > most && sources[largest].len() > 1 => {
                        self.real[largest] = true;
                    }
                    _ => {
                        sources[id] = reads;
                        break;
                    }
                }
            }
        }
    }

    /// Whether a node reads from another one that is kept apart, or is kept apart itself and reads what others compute.
    fn crosses_border(&self, node: NodeId, input: Value) -> bool {
        let (from, to) = (&self.graph.nodes[input.node], &self.graph.nodes[node]);
        let is_leaf = matches!(from.op, NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::Iota { .. });
        from.apart != to.apart && !is_leaf && (from.apart.is_some() || self.strided(input).is_none())
    }

    fn is_inline(&self, node: NodeId) -> bool {
        !self.real[node] && !self.is_input(node)
    }

    /// A value as a strided window on a buffer, if views over a real value or input are all there is to it: the
    /// buffer, and one axis per axis of the value.
    pub fn strided(&self, value: Value) -> Option<(Value, Access)> {
        let mut chain = vec![];
        let mut base = value;
        while self.is_inline(base.node) {
            let NodeOp::View(view) = &self.graph.nodes[base.node].op else { return None };
            chain.push((view, self.graph.ty(base).extents()));
            base = self.graph.nodes[base.node].inputs[0];
        }
        let access = through(&self.graph.ty(base).extents(), chain.iter().rev().map(|(v, s)| (*v, &s[..])));
        (access.levels.len() == 1 && access.levels[0].guards.is_empty()).then_some((base, access))
    }

    /// The buffer that holds a value as it is, dense and row-major: the value itself if it is real, or what it is
    /// another shape of.
    pub fn dense(&self, value: Value) -> Option<Value> {
        let (buffer, access) = self.strided(value)?;
        let numel = self.graph.ty(value).numel();
        let is_same = numel == 0 || access.is_identity(numel);
        (self.graph.ty(buffer).numel() == numel && is_same).then_some(buffer)
    }

    fn edges_of(&self, node: NodeId) -> Vec<Edge> {
        (0..self.graph.nodes[node].inputs.len())
            .flat_map(|operand| self.edges_of_operand(node, operand))
            .collect()
    }

    /// What one operand of a node depends on.
    pub fn edges_of_operand(&self, node: NodeId, operand: usize) -> Vec<Edge> {
        let mut edges = vec![];
        self.walk(node, operand, &mut vec![], &mut edges);
        edges
    }

    /// Follows operand `operand` of `node` down through inline nodes; `chain` holds the views met so far, outermost
    /// first.
    fn walk(&self, node: NodeId, operand: usize, chain: &mut Vec<(View, Vec<usize>)>, edges: &mut Vec<Edge>) {
        let value = self.graph.nodes[node].inputs[operand];
        let indexed = matches!(self.graph.nodes[node].op, NodeOp::Gather { .. }) && operand == 0;
        let pushed = operand_view(self.graph, node, operand);
        let depth = chain.len();
        chain.extend(pushed);
        if self.is_inline(value.node) && !indexed {
            for operand in 0..self.graph.nodes[value.node].inputs.len() {
                self.walk(value.node, operand, chain, edges);
            }
        } else {
            let base = if indexed { self.strided(value).map_or(value, |(base, _)| base) } else { value };
            let views = chain.iter().rev().map(|(view, shape)| (view, &shape[..]));
            let access = match indexed {
                true => Access::dense(&self.graph.ty(base).extents()),
                false => through(&self.graph.ty(base).extents(), views),
            };
            let n_reads = self.graph.ty(base).numel().min(self.graph.ty(Value::of(node)).numel());
            edges.push(Edge { producer: base, access, indexed, n_reads });
        }
        chain.truncate(depth);
    }

    fn link_users(&mut self) {
        for node in 0..self.edges.len() {
            for edge in &self.edges[node] {
                let users = &mut self.users[edge.producer.node];
                if users.last() != Some(&node) {
                    users.push(node);
                }
            }
        }
    }
}

/// How the points of a node relate to those of its operand beyond being the same: the index operand of a gather
/// repeats along the source's axes, and a view is its own view.
fn operand_view(graph: &Graph, node: NodeId, operand: usize) -> Option<(View, Vec<usize>)> {
    match (&graph.nodes[node].op, operand) {
        (NodeOp::Gather { axis, batch }, 1) => {
            Some((gather_index_view(graph, node, *axis, *batch), graph.ty(Value::of(node)).extents()))
        }
        (NodeOp::View(view), _) => Some((view.clone(), graph.ty(Value::of(node)).extents())),
        _ => None,
    }
}

/// The broadcast that lays a gather's indices over its result.
pub fn gather_index_view(graph: &Graph, node: NodeId, axis: usize, batch: usize) -> View {
    let rank = graph.ty(graph.nodes[node].inputs[1]).rank();
    View::Broadcast { axes: (0..batch).chain((batch..rank).map(|i| i - batch + axis)).collect() }
}

/// The access map of views over a dense tensor, innermost view first.
pub fn through<'v>(extents: &[usize], views: impl Iterator<Item = (&'v View, &'v [usize])>) -> Access {
    views.fold(Access::dense(extents), |access, (view, shape)| access.then(view, shape))
}

/// By node: what recomputing it costs, in scalar primitives from the inputs; `None` for real nodes.
fn inline_costs(graph: &Graph, fuse: bool) -> Vec<Option<usize>> {
    let mut costs: Vec<Option<usize>> = vec![];
    let mut reads: Vec<bool> = vec![];
    for node in &graph.nodes {
        let is_input = matches!(node.op, NodeOp::Input(_));
        let reads_memory = is_input || node.inputs.iter().any(|input| reads[input.node]);
        reads.push(reads_memory);
        let is_large = reads_memory && node.outputs[0].ty.numel() > INLINE_ELEMENTS;
        let own = match &node.op {
            NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::Input(_) => Some(0),
            NodeOp::View(_) => {
                // A view of something real is still inline: its cost is that of reading.
                costs.push(Some(costs[node.inputs[0].node].unwrap_or(0)));
                continue;
            }
            _ if !fuse || node.apart.is_some() || is_large => None,
            NodeOp::Scalar(scalar) if node.outputs[0].ty.numel() == 1 || is_cheap(scalar) => Some(1),
            NodeOp::Gather { .. } | NodeOp::Check(_) => Some(2),
            _ => None,
        };
        costs.push(own.and_then(|own| total(graph, &costs, node, own)));
    }
    costs
}

fn total(graph: &Graph, costs: &[Option<usize>], node: &crate::ir::Node, own: usize) -> Option<usize> {
    let mut cost = own;
    for input in &node.inputs {
        cost += costs[input.node]?;
        // A view hides whether what it views is real.
        if !from_inputs(graph, costs, input.node) {
            return None;
        }
    }
    (cost <= INLINE_COST).then_some(cost)
}

fn from_inputs(graph: &Graph, costs: &[Option<usize>], node: NodeId) -> bool {
    match &graph.nodes[node].op {
        NodeOp::View(_) => from_inputs(graph, costs, graph.nodes[node].inputs[0].node),
        _ => costs[node].is_some(),
    }
}

/// Whether a scalar primitive takes about as long as an addition.
pub fn is_cheap(scalar: &Scalar) -> bool {
    use crate::ir::Binary;
    match scalar {
        Scalar::Unary(op) => matches!(
            op,
            Unary::Neg
                | Unary::Abs
                | Unary::Sign
                | Unary::Floor
                | Unary::Ceil
                | Unary::Trunc
                | Unary::Round
                | Unary::Not
                | Unary::IsNan
        ),
        Scalar::Binary(op) => !matches!(op, Binary::Pow | Binary::Div | Binary::Rem),
        Scalar::Select | Scalar::MulAdd | Scalar::Cast(_) => true,
        Scalar::Foreign(_) => false,
    }
}

/// Extents of a contraction in canonical form: `(batch, m, n, k)`.
pub fn contract_extents(graph: &Graph, node: NodeId, contract: &Contract) -> (usize, usize, usize, usize) {
    let lhs = graph.ty(graph.nodes[node].inputs[0]).extents();
    let rhs = graph.ty(graph.nodes[node].inputs[1]).extents();
    let over =
        |axes: Vec<usize>, extents: &[usize]| axes.iter().map(|&axis| extents[axis]).product::<usize>();
    (
        over(contract.batch.iter().map(|p| p.0).collect(), &lhs),
        over(contract.lhs_free(lhs.len()), &lhs),
        over(contract.rhs_free(rhs.len()), &rhs),
        over(contract.contracted.iter().map(|p| p.0).collect(), &lhs),
    )
}
