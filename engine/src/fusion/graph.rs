//! The graph as fusion sees it: materialized nodes, and edges between them.
//!
//! Constants, coordinates, views and short computations from the inputs are *recomputed*: every kernel that needs one
//! computes it. So are widening casts of floats. All other nodes are *materialized*. An edge leads from a materialized
//! consumer to a materialized producer or a graph input. Its access map composes the views of the recomputed nodes between
//! them.

use super::access::Access;
use super::convolution::Convolution;
use super::cost::{Change, CostModel};
use super::few_windows::FewWindows;
use super::kernel::matmul::UnevenAxes;
use super::moved::moved;
use super::remade::remade;
use super::settings::Settings;
use super::shapes::{OperandAxes, gather_index_view, matmul_spec, operand_axes};
use crate::ir::{Graph, Node, NodeId, NodeOp, Scalar, Value, View};
use std::collections::BTreeSet;

/// A dependency of a materialized node on a materialized producer or an input.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The tensor that is read.
    pub producer: Value,
    /// From the points of that operand to the elements of the producer.
    pub access: Access,
    /// Whether the producer is indexed by data (the source of a gather).
    pub indexed: bool,
    /// How many elements of it are read, at most.
    pub n_reads: usize,
}

/// A graph with its nodes divided into materialized and recomputed ones.
pub struct FusionGraph<'g> {
    /// The simplified primitive graph.
    pub ir: &'g Graph,
    /// The cost model of the device.
    pub cost: CostModel,
    /// Whether matmuls read uneven right matrices.
    uneven_matrices: bool,
    /// Whether matmuls that are convolutions read uneven matrices.
    convolutions: bool,
    /// Whether columns of any length are summed in one step, beside a matmul as well. Elsewhere long columns of several axes
    /// are split instead.
    pub sums_any_column: bool,
    /// Matmuls that read stacks of matrices where they lie; see [`super::stacks`].
    stacks: &'g BTreeSet<NodeId>,
    /// Added to the numbers of nodes that check.
    pub first_site: NodeId,
    /// By node: whether its result is stored unless fusion removes it. Inputs are neither materialized nor recomputed.
    pub materialized: Vec<bool>,
    /// By materialized node: its dependencies.
    pub edges: Vec<Vec<Edge>>,
    /// By node (materialized or input): materialized nodes that depend on it, ascending, once each.
    pub users: Vec<Vec<NodeId>>,
    /// By node: whether it is a result of the graph or a next state.
    pub root: Vec<bool>,
    /// By node: whether it is a next state.
    pub state: Vec<bool>,
    /// Whether nothing is checked, so that no kernel has to wait for an error flag.
    pub is_unchecked: bool,
}

impl<'g> FusionGraph<'g> {
    /// Divides the nodes of a simplified primitive graph. Without fusion, every node that computes something is
    /// materialized. Recomputed nodes are materialized until no node reads too many tensors for one kernel.
    pub fn new(graph: &'g Graph, settings: &Settings) -> FusionGraph<'g> {
        FusionGraph::reading(graph, settings, const { &BTreeSet::new() })
    }

    /// As [`FusionGraph::new`], but some matmuls read stacks of matrices where they lie.
    pub fn reading(graph: &'g Graph, settings: &Settings, stacks: &'g BTreeSet<NodeId>) -> FusionGraph<'g> {
        let n_nodes = graph.nodes.len();
        let cost = settings.cost_model();
        let mut divided = FusionGraph {
            ir: graph,
            cost,
            sums_any_column: settings.longest_column() == usize::MAX,
            uneven_matrices: settings.device.kernels.uneven_matrices,
            convolutions: settings.device.kernels.convolutions,
            stacks,
            first_site: settings.first_site,
            materialized: recomputed_ops(graph, settings.fuse, &cost).iter().map(Option::is_none).collect(),
            edges: vec![vec![]; n_nodes],
            users: vec![vec![]; n_nodes],
            root: vec![false; n_nodes],
            state: vec![false; n_nodes],
            is_unchecked: !graph.has_checks(),
        };
        if settings.fuse {
            divided.recompute_widened();
            for node in remade(graph, &divided.materialized, &cost) {
                divided.materialized[node] = false;
            }
            if settings.device.kernels.moved_maps {
                for node in moved(graph, &divided.materialized, &cost) {
                    divided.materialized[node] = false;
                }
            }
        }
        for root in graph.roots() {
            divided.root[root.node] = true;
        }
        for link in &graph.state {
            divided.state[link.next.node] = true;
        }
        divided.materialize_buffers();
        divided.limit_reads(settings.most_operands().saturating_sub(1));
        while divided.materialize_matrices() {}
        for node in 0..n_nodes {
            if divided.materialized[node] {
                divided.edges[node] = divided.edges_of(node);
            }
        }
        divided.link_users();
        divided
    }

    /// Recomputes widening casts of floats: the narrow value takes fewer bytes, however many kernels read it.
    fn recompute_widened(&mut self) {
        for (id, node) in self.ir.nodes.iter().enumerate() {
            let NodeOp::Scalar(Scalar::Cast(to)) = node.op else { continue };
            if self.ir.ty(node.inputs[0]).dtype.widens_to(to) && node.fuses_freely() {
                self.materialized[id] = false;
            }
        }
    }

    /// The op of a node.
    pub fn op(&self, node: NodeId) -> &'g NodeOp {
        &self.ir.nodes[node].op
    }

    /// Whether a node is a matmul.
    pub fn is_matmul(&self, node: NodeId) -> bool {
        matches!(self.op(node), NodeOp::Matmul(_))
    }

    /// Whether two nodes bear the same mark, or none; see [`Node::no_fuse`].
    pub fn have_one_mark(&self, a: NodeId, b: NodeId) -> bool {
        self.ir.nodes[a].no_fuse == self.ir.nodes[b].no_fuse
    }

    /// Whether marks let nodes share a kernel: they bear none, or recompute the same layer.
    pub fn may_share_kernel(&self, mut nodes: impl Iterator<Item = NodeId>) -> bool {
        let Some(first) = nodes.next() else { return true };
        self.ir.nodes[first].fuses_freely() && nodes.all(|node| self.have_one_mark(first, node))
    }

    /// Number of elements of a node's first result.
    pub fn numel(&self, node: NodeId) -> usize {
        self.ir.ty(Value::of(node)).numel()
    }

    /// Whether a node is a graph input.
    pub fn is_input(&self, node: NodeId) -> bool {
        matches!(self.op(node), NodeOp::Input(_))
    }

    /// Materializes recomputed nodes whose value must be in memory: results, and operands that need a strided or dense
    /// buffer but cannot be read as one through the views.
    fn materialize_buffers(&mut self) {
        for root in self.ir.roots() {
            self.materialized[root.node] |= !self.is_input(root.node);
        }
        for id in 0..self.ir.nodes.len() {
            let node = &self.ir.nodes[id];
            if let NodeOp::Matmul(_) = node.op {
                let copied = (0..2).filter(|&side| !self.is_read_stack(id, side));
                let copied: Vec<Value> = copied.map(|side| node.inputs[side]).collect();
                copied.into_iter().for_each(|input| self.materialize_source(input));
            }
            for (operand, &input) in node.inputs.iter().enumerate() {
                let fits = match &node.op {
                    NodeOp::Matmul(_) => {
                        self.strided(input).is_some()
                            || self.uneven(id, operand).is_some()
                            || self.is_read_stack(id, operand)
                    }
                    NodeOp::Gather { .. } if operand == 0 => self.strided(input).is_some(),
                    // A kernel that writes state has no assertions.
                    NodeOp::Scatter { .. } if self.state[id] => {
                        !self.is_recomputed(input.node) || operand == 1 && !self.checks(input.node)
                    }
                    op if op.is_whole() => self.dense(input).is_some(),
                    _ => true,
                };
                self.materialized[input.node] |= !fits || self.crosses_no_fuse(id, input);
            }
        }
    }

    /// Whether computing a node from what is in memory checks anything.
    fn checks(&self, node: NodeId) -> bool {
        let mut inputs = self.ir.nodes[node].inputs.iter();
        matches!(self.op(node), NodeOp::Check(_))
            || inputs.any(|input| self.is_recomputed(input.node) && self.checks(input.node))
    }

    /// Materializes the operands of matmuls that are matrices no longer, since a part of their views is stored for others.
    /// Returns whether there were any.
    fn materialize_matrices(&mut self) -> bool {
        let matmuls = (0..self.ir.nodes.len()).filter(|&id| self.is_matmul(id));
        let operands = matmuls.flat_map(|id| [0, 1].map(|side| (id, side, self.ir.nodes[id].inputs[side])));
        let is_lost = |&(id, side, input): &(NodeId, usize, Value)| {
            self.strided(input).is_none() && self.uneven(id, side).is_none() && !self.is_read_stack(id, side)
        };
        let lost: Vec<NodeId> = operands.filter(is_lost).map(|(_, _, input)| input.node).collect();
        lost.iter().for_each(|&node| self.materialized[node] = true);
        !lost.is_empty()
    }

    /// Materializes the smallest value that the operand of a product repeats, if the product can then read it: an image
    /// with its border, of which the operand has overlapping windows. If the operand must be copied, the copy reads such
    /// an image rather than look for its border in every window. Where products read uneven matrices it need not be.
    fn materialize_source(&mut self, input: Value) {
        if !self.is_recomputed(input.node) || self.strided(input).is_some() {
            return;
        }
        let numel = |value: Value| self.ir.ty(value).numel();
        let least_repeats = if self.uneven_matrices || self.convolutions { 1 } else { 2 };
        let (mut views, mut source) = (vec![], input);
        let (mut smallest, mut padded) = (None, None);
        while let NodeOp::View(view) = self.op(source.node) {
            if !self.is_recomputed(source.node) {
                break;
            }
            if matches!(view, View::Pad { .. }) && least_repeats * numel(source) <= numel(input) {
                padded = padded.or(Some(source));
            }
            views.insert(0, (view, self.ir.ty(source).extents()));
            source = self.ir.nodes[source.node].inputs[0];
            let shapes = views.iter().map(|(view, shape)| (*view, &shape[..]));
            let access = through(&self.ir.ty(source).extents(), shapes);
            let is_strided = is_one_level(&access);
            if is_strided && numel(source) < smallest.map_or(numel(input), numel) {
                smallest = Some(source);
            }
        }
        if let Some(source) = smallest.or(padded) {
            self.materialized[source.node] |= !self.is_input(source.node);
        }
    }

    /// Materializes recomputed nodes until no node reads more than `most` tensors. Of a node's operands, the one with most
    /// reads comes first.
    fn limit_reads(&mut self, most: usize) {
        // By recomputed node: the tensors that it is computed from.
        let mut sources: Vec<BTreeSet<Value>> = vec![BTreeSet::new(); self.ir.nodes.len()];
        for id in 0..self.ir.nodes.len() {
            let inputs = &self.ir.nodes[id].inputs;
            loop {
                let mut reads = BTreeSet::new();
                for input in inputs {
                    match self.is_recomputed(input.node) {
                        true => reads.extend(sources[input.node].iter().copied()),
                        false => drop(reads.insert(*input)),
                    }
                }
                let nodes = inputs.iter().map(|input| input.node);
                match nodes.filter(|&node| self.is_recomputed(node)).max_by_key(|&node| sources[node].len()) {
                    Some(largest) if reads.len() > most && sources[largest].len() > 1 => {
                        self.materialized[largest] = true;
                    }
                    _ => {
                        sources[id] = reads;
                        break;
                    }
                }
            }
        }
    }

    /// Whether one of two nodes has `fuse: Never` without the other, so that the value between them is stored.
    fn crosses_no_fuse(&self, node: NodeId, input: Value) -> bool {
        let (from, to) = (&self.ir.nodes[input.node], &self.ir.nodes[node]);
        let is_leaf = matches!(from.op, NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::Iota { .. });
        from.no_fuse != to.no_fuse && !is_leaf && (from.no_fuse.is_some() || self.strided(input).is_none())
    }

    /// Whether every user computes a node.
    pub fn is_recomputed(&self, node: NodeId) -> bool {
        !self.materialized[node] && !self.is_input(node)
    }

    /// A value as a strided window on a buffer, if it consists of views over a materialized value or an input: the buffer,
    /// and one axis per axis of the value.
    pub fn strided(&self, value: Value) -> Option<(Value, Access)> {
        self.view_of(value).filter(|(_, access)| is_one_level(access))
    }

    /// The buffer that a value consists of views over, and the map from the value's elements to the buffer's.
    fn view_of(&self, value: Value) -> Option<(Value, Access)> {
        let mut chain = vec![];
        let mut base = value;
        while self.is_recomputed(base.node) {
            let NodeOp::View(view) = &self.ir.nodes[base.node].op else { return None };
            chain.push((view, self.ir.ty(base).extents()));
            base = self.ir.nodes[base.node].inputs[0];
        }
        let access = through(&self.ir.ty(base).extents(), chain.iter().rev().map(|(v, s)| (*v, &s[..])));
        Some((base, access))
    }

    /// An operand of a matmul as an uneven matrix on a buffer, if the device reads such matrices: the buffer, the offset of
    /// the first element, and the axes.
    pub fn uneven(&self, node: NodeId, side: usize) -> Option<(Value, i64, UnevenAxes)> {
        let dtype = self.ir.ty(self.ir.nodes[node].inputs[side]).dtype;
        let is_read = self.uneven_matrices && side == 1 && dtype.is_float() && dtype.accumulator() == dtype;
        (is_read || self.is_convolution(node) || self.is_few_windows(node))
            .then(|| self.matrix(node, side))
            .flatten()
    }

    /// Whether an operand of a matmul is a stack of matrices that it reads where they lie, without one stride from matrix to
    /// matrix.
    pub fn is_read_stack(&self, node: NodeId, side: usize) -> bool {
        let is_stack = || {
            let axes = self.matrix(node, side).map(|(_, _, axes)| axes);
            axes.is_some_and(|axes| axes.rows.len() == 1 && axes.columns.len() == 1)
        };
        self.stacks.contains(&node) && self.strided(self.ir.nodes[node].inputs[side]).is_none() && is_stack()
    }

    /// Whether the device has a library that computes a matmul as a convolution.
    fn is_convolution(&self, node: NodeId) -> bool {
        let convolution = || {
            let [lhs, rhs] = [0, 1].map(|side| self.matrix(node, side));
            let ((_, _, lhs), (_, offset, rhs)) = (lhs?, rhs?);
            Convolution::of_axes([&lhs, &rhs], offset)
        };
        let is_float = || self.ir.ty(self.ir.nodes[node].inputs[0]).dtype.is_float();
        self.convolutions && is_float() && convolution().is_some()
    }

    /// Whether a kernel reads the windows of a matmul where they lie, since they are multiplied by a few rows.
    fn is_few_windows(&self, node: NodeId) -> bool {
        let few = || {
            let [lhs, rhs] = [0, 1].map(|side| self.matrix(node, side));
            let ((_, _, lhs), (_, _, rhs)) = (lhs?, rhs?);
            FewWindows::of_axes([&lhs, &rhs])
        };
        let is_float = || self.ir.ty(self.ir.nodes[node].inputs[0]).dtype.is_float();
        !self.uneven_matrices && is_float() && few().is_some_and(FewWindows::is_short)
    }

    /// An operand of a matmul as a matrix on a buffer that it consists of views over.
    fn matrix(&self, node: NodeId, side: usize) -> Option<(Value, i64, UnevenAxes)> {
        let value = self.ir.nodes[node].inputs[side];
        let extents = self.ir.ty(value).extents();
        let (buffer, access) = self.view_of(value)?;
        let (offset, by_axis) = access.axes_by_axis(&extents)?;
        let axes = operand_axes(matmul_spec(self.ir, node), side, extents.len());
        let OperandAxes { batch, free, contracted } = axes;
        let (rows, columns) = if side == 0 { (free, contracted) } else { (contracted, free) };
        let [batch, rows, columns] =
            [batch, rows, columns].map(|axes| axes.iter().flat_map(|&axis| by_axis[axis].clone()).collect());
        Some((buffer, offset, UnevenAxes { batch, rows, columns }))
    }

    /// The buffer that holds a value dense and row-major: the value itself if it is materialized, or the one that it
    /// reshapes.
    pub fn dense(&self, value: Value) -> Option<Value> {
        let (buffer, access) = self.strided(value)?;
        let numel = self.ir.ty(value).numel();
        let is_same = numel == 0 || access.is_identity(numel);
        (self.ir.ty(buffer).numel() == numel && is_same).then_some(buffer)
    }

    fn edges_of(&self, node: NodeId) -> Vec<Edge> {
        (0..self.ir.nodes[node].inputs.len())
            .flat_map(|operand| self.edges_of_operand(node, operand))
            .collect()
    }

    /// The dependencies of one operand of a node.
    pub fn edges_of_operand(&self, node: NodeId, operand: usize) -> Vec<Edge> {
        let mut edges = vec![];
        self.walk(node, operand, &mut vec![], &mut edges);
        edges
    }

    /// Follows operand `operand` of `node` down through recomputed nodes; `chain` holds the views on the way, outermost
    /// first.
    fn walk(&self, node: NodeId, operand: usize, chain: &mut Vec<(View, Vec<usize>)>, edges: &mut Vec<Edge>) {
        let value = self.ir.nodes[node].inputs[operand];
        let indexed = matches!(self.ir.nodes[node].op, NodeOp::Gather { .. }) && operand == 0;
        let pushed = operand_view(self.ir, node, operand);
        let depth = chain.len();
        chain.extend(pushed);
        if self.is_recomputed(value.node) && !indexed {
            for operand in 0..self.ir.nodes[value.node].inputs.len() {
                self.walk(value.node, operand, chain, edges);
            }
        } else {
            let base = if indexed { self.strided(value).map_or(value, |(base, _)| base) } else { value };
            let views = chain.iter().rev().map(|(view, shape)| (view, &shape[..]));
            let access = match indexed {
                true => Access::dense(&self.ir.ty(base).extents()),
                false => through(&self.ir.ty(base).extents(), views),
            };
            let n_reads = self.ir.ty(base).numel().min(self.numel(node));
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

/// Whether a map is one level without guards.
pub fn is_one_level(access: &Access) -> bool {
    access.levels.len() == 1 && access.levels[0].guards.is_empty()
}

/// The view between the points of a node and those of its operand, if there is one: the index operand of a gather
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

/// The access map of views over a dense tensor, innermost view first.
pub fn through<'v>(extents: &[usize], views: impl Iterator<Item = (&'v View, &'v [usize])>) -> Access {
    views.fold(Access::dense(extents), |access, (view, shape)| access.then(view, shape))
}

/// By node: the operations of recomputing it from the inputs; `None` for materialized nodes.
fn recomputed_ops(graph: &Graph, fuse: bool, cost: &CostModel) -> Vec<Option<usize>> {
    let mut ops: Vec<Option<usize>> = vec![];
    let mut reads: Vec<bool> = vec![];
    for node in &graph.nodes {
        let is_input = matches!(node.op, NodeOp::Input(_));
        let reads_inputs = is_input || node.inputs.iter().any(|input| reads[input.node]);
        reads.push(reads_inputs);
        if matches!(node.op, NodeOp::View(_)) {
            // A view of a materialized node is recomputed by reading through it.
            ops.push(Some(ops[node.inputs[0].node].unwrap_or(0)));
            continue;
        }
        let is_leaf = is_input || matches!(node.op, NodeOp::Const(_) | NodeOp::Iota { .. });
        let may_recompute = is_leaf || fuse && node.fuses_freely();
        let own = cost.recomputed_ops(node, reads_inputs).filter(|_| may_recompute);
        ops.push(own.and_then(|own| total_ops(graph, &ops, node, own, cost)));
    }
    ops
}

fn total_ops(
    graph: &Graph,
    ops: &[Option<usize>],
    node: &Node,
    own: usize,
    cost: &CostModel,
) -> Option<usize> {
    let mut ops_added = own;
    for input in &node.inputs {
        ops_added += ops[input.node]?;
        if !is_from_inputs(graph, ops, input.node) {
            return None;
        }
    }
    cost.pays(Change { ops_added, ..Change::default() }).then_some(ops_added)
}

/// Whether a node is recomputed, and not a view of a materialized one.
fn is_from_inputs(graph: &Graph, ops: &[Option<usize>], node: NodeId) -> bool {
    match &graph.nodes[node].op {
        NodeOp::View(_) => is_from_inputs(graph, ops, graph.nodes[node].inputs[0].node),
        _ => ops[node].is_some(),
    }
}
