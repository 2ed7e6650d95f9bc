//! The graph: typed nodes in topological order.

use super::{
    Attrs, Body, Combine, Literal, MatmulSpec, Monoid, OpInterface, Requirement, Scalar, Symbol, Type, View,
};
use crate::diag::Span;
use crate::work::steps;
use std::collections::HashSet;
use std::sync::Arc;

/// Index of a node within its graph. Nodes are in definition order, so an operand has a smaller index than its user.
pub type NodeId = usize;

/// One result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    /// The node.
    pub node: NodeId,
    /// The index of the result.
    pub port: usize,
}

impl Value {
    /// The first result of a node.
    pub const fn of(node: NodeId) -> Value {
        Value { node, port: 0 }
    }
}

/// The kind of a graph input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// Data: passed at each step, or resident for a whole stage.
    Data,
    /// A trained parameter, held by the session.
    Param,
    /// Other state that is carried from step to step, such as an optimizer's moments. It starts at zero unless a
    /// parameter of the pipeline gives its initial value.
    State,
    /// A value that a plan of its own computes before the steps, see [`Plan::once`](crate::plan::Plan::once).
    Once,
    /// The number of the current step, `i32[]`, counted from 0, kept on the device.
    Step,
}

impl InputKind {
    /// The keyword in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            InputKind::Data => "input",
            InputKind::Param => "param",
            InputKind::State => "state",
            InputKind::Once => "once",
            InputKind::Step => "step",
        }
    }
}

/// A registered op with its settings.
#[derive(Clone, Debug)]
pub struct Call {
    /// The op.
    pub op: Arc<dyn OpInterface>,
    /// All attributes, defaults filled in.
    pub attrs: Attrs,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.op.name() == other.op.name() && self.attrs == other.attrs
    }
}

/// The operation of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeOp {
    /// A graph input.
    Input(InputKind),
    /// A tensor filled with one literal.
    Const(Literal),
    /// A call of a registered op. Lowering expands all except opaque ones.
    Call(Call),
    /// A scalar body over operands that broadcast. Lowering expands it.
    Map(Arc<Body>),
    /// One scalar primitive. Its operands have the shape of the node.
    Scalar(Scalar),
    /// The coordinate along an axis, of the node's integer type.
    Iota {
        /// The axis.
        axis: usize,
    },
    /// Passes integers through that meet the requirement. Any other integer raises the error for this node and
    /// position, and is replaced by the requirement's fallback.
    Check(Requirement),
    /// A change of index.
    View(View),
    /// A reduction over `axes` (ascending), which the result lacks.
    Reduce {
        /// The combining operation.
        monoid: Monoid,
        /// The reduced axes.
        axes: Vec<usize>,
    },
    /// Inclusive prefix form of a reduction along one axis.
    Scan {
        /// The combining operation; not an index monoid.
        monoid: Monoid,
        /// The axis.
        axis: usize,
    },
    /// `(src [B…, P…, n, Q…], idx [B…, I…]) -> [B…, P…, I…, Q…]`. `axis` is the axis of `n`, and the first `batch` axes
    /// are shared. Indices must be in range: a `Check` or a clamp comes before.
    Gather {
        /// The indexed axis of the source.
        axis: usize,
        /// Number of leading axes shared by source and indices.
        batch: usize,
    },
    /// `(base [B…, P…, n, Q…], idx [B…, I…], updates [B…, P…, I…, Q…]) -> base's type`.
    Scatter {
        /// The indexed axis of the base.
        axis: usize,
        /// Number of leading axes shared by base and indices.
        batch: usize,
        /// How updates with equal indices combine.
        combine: Combine,
    },
    /// A matmul over any axes (a general dot product), accumulated in the operands' accumulator type.
    Matmul(MatmulSpec),
    /// Random bits, `u32`: Philox4x32-10 under (seed, stream), block (element / 4, step, iteration). The operands are
    /// the step, `i32[]`, and in an unrolled loop the trip number, `i32[]`. Without the trip number, the iteration is
    /// 0.
    Random {
        /// Hash of the node's path of names in the source.
        stream: u32,
    },
    /// Runs its region `trips` times. Operands are the initial carried values, then values that all trips are given.
    /// Results are the final carried values. The region's inputs are the carried values, the iteration (`i32[]`), and the
    /// given values. Its outputs are the next carried values.
    Loop {
        /// The number of iterations, or the most of them.
        trips: usize,
        /// The number of given values.
        n_given: usize,
        /// Whether the loop may end early. The region then has one more output, `bool[]`: true ends the loop after this
        /// trip. The node has one more result, `i32[]`: the number of trips.
        until: bool,
        /// Whether random nodes in the region take the number of the trip already, which lowering sees to.
        counted: bool,
        /// Whether the iteration counts from the last trip to the first. Lowering computes it from the number of the trip.
        reverse: bool,
        /// What its gradient keeps of each trip. Lowering forgets it.
        keep: Keep,
    },
    /// Picks a region by its first operand, `bool[]`: the first region if true, else the second. The other operands are
    /// the inputs of the regions.
    Cond,
}

impl NodeOp {
    /// Whether the node reads and writes whole tensors, so that its kernel can take in no other node.
    pub fn is_whole(&self) -> bool {
        matches!(self, NodeOp::Scan { .. } | NodeOp::Call(_) | NodeOp::Loop { .. })
    }
}

/// What the gradient of a loop keeps of each trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All values that it cannot compute again by elementwise ops.
    #[default]
    All,
    /// The carried values of about √trips trips. It runs the trips between them once more.
    Sqrt,
    /// The carried values. It computes everything else once more.
    Carried,
}

impl Keep {
    /// All of them, by their names in texts.
    pub const NAMED: [(&str, Keep); 3] =
        [("all", Keep::All), ("sqrt", Keep::Sqrt), ("carried", Keep::Carried)];

    /// ⌈√trips⌉, the trips between carried values that are kept by [`Keep::Sqrt`].
    pub fn chunk_of(trips: usize) -> usize {
        let root = trips.isqrt();
        root + usize::from(root * root < trips)
    }

    /// The name in texts.
    pub fn name(self) -> &'static str {
        let [(all, _), (sqrt, _), (carried, _)] = Keep::NAMED;
        match self {
            Keep::All => all,
            Keep::Sqrt => sqrt,
            Keep::Carried => carried,
        }
    }
}

/// One result: its name and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Unique in the graph.
    pub name: Symbol,
    /// Its type.
    pub ty: Type,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The operation.
    pub op: NodeOp,
    /// Operands in order, all defined earlier.
    pub inputs: Vec<Value>,
    /// The results, at least one.
    pub outputs: Vec<Output>,
    /// Sub-graphs of `Loop` and `Cond`.
    pub regions: Vec<Graph>,
    /// The place in the source, if there is one.
    pub span: Option<Span>,
    /// The source node with `fuse: Never` that this node is, or is a part of; or the layer that it recomputes, with
    /// [`RECOMPUTED`]; or the [`PART`] of an op. Such nodes get kernels of their own.
    pub no_fuse: Option<Symbol>,
}

impl Node {
    /// The name of the first result, which is also the name of the node.
    pub fn name(&self) -> &Symbol {
        steps(1);
        &self.outputs[0].name
    }

    /// Whether it fuses with nodes of the same mark as freely as nodes without a mark do. Nodes that recompute a layer do.
    pub fn fuses_freely(&self) -> bool {
        self.no_fuse.as_deref().is_none_or(|mark| mark.ends_with(RECOMPUTED))
    }
}

impl Node {
    /// The name, and those of all nodes in its regions.
    pub(crate) fn names_within(&self) -> Vec<Symbol> {
        let inside = self.regions.iter().flat_map(|region| &region.nodes).flat_map(Node::names_within);
        [self.name().clone()].into_iter().chain(inside).collect()
    }
}

/// The value of an input after the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLink {
    /// A `Param` or `State` input.
    pub input: NodeId,
    /// Its value after the step; of the same type.
    pub next: Value,
}

/// A typed, functional graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The name in texts and errors.
    pub name: String,
    /// Nodes in definition order.
    pub nodes: Vec<Node>,
    /// Named results.
    pub outputs: Vec<(Symbol, Value)>,
    /// Values that are carried from step to step.
    pub state: Vec<StateLink>,
}

impl Graph {
    /// An empty graph with that name.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// The node with that index.
    pub fn node(&self, id: NodeId) -> &Node {
        steps(1);
        &self.nodes[id]
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        steps(1);
        &self.nodes[value.node].outputs[value.port].ty
    }

    /// The name of a value.
    pub fn name_of(&self, value: Value) -> &Symbol {
        steps(1);
        &self.nodes[value.node].outputs[value.port].name
    }

    /// Appends a node and returns its index.
    pub fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Appends an input and returns its index.
    pub fn push_input(&mut self, name: Symbol, kind: InputKind, ty: Type) -> NodeId {
        let (op, outputs) = (NodeOp::Input(kind), vec![Output { name, ty }]);
        self.push(Node { op, inputs: vec![], outputs, regions: vec![], span: None, no_fuse: None })
    }

    /// All inputs with their kinds, in definition order.
    pub fn inputs(&self) -> impl Iterator<Item = (NodeId, InputKind)> + '_ {
        self.nodes.iter().enumerate().filter_map(|(id, node)| match node.op {
            NodeOp::Input(kind) => Some((id, kind)),
            _ => None,
        })
    }

    /// The value with that name.
    pub fn find(&self, name: &str) -> Option<Value> {
        self.nodes.iter().enumerate().find_map(|(node, n)| {
            steps(1);
            n.outputs.iter().position(|output| &*output.name == name).map(|port| Value { node, port })
        })
    }

    /// All values that must be computed: outputs and next states.
    pub fn roots(&self) -> impl Iterator<Item = Value> + '_ {
        self.outputs.iter().map(|(_, value)| *value).chain(self.state.iter().map(|link| link.next))
    }

    /// Whether a node checks anything, in a region too.
    pub fn has_checks(&self) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| matches!(node.op, NodeOp::Check(_)) || node.regions.iter().any(Graph::has_checks))
    }

    /// Users of each node, in order. A user of a repeated operand is repeated.
    pub fn users(&self) -> Vec<Vec<NodeId>> {
        let mut users = vec![vec![]; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            for input in &node.inputs {
                users[input.node].push(id);
            }
        }
        users
    }

    /// Marks the nodes that the roots need. A carried state is always needed, since another graph may read it.
    pub fn live(&self) -> Vec<bool> {
        let states = self.state.iter().map(|link| Value::of(link.input));
        self.reached(self.roots().chain(states))
    }

    /// Marks the nodes that some values depend on, their own included.
    pub fn reached(&self, values: impl IntoIterator<Item = Value>) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        for value in values {
            reached[value.node] = true;
        }
        for id in (0..self.nodes.len()).rev() {
            if reached[id] {
                for input in &self.nodes[id].inputs {
                    reached[input.node] = true;
                }
            }
        }
        reached
    }
}

/// The end of a [`Node::no_fuse`] mark of gradients that recompute a layer. The plan runs such marks one after the other. No
/// name that a user gives has a space.
pub const RECOMPUTED: &str = " again";

/// What separates the two halves of a [`Node::no_fuse`] mark of a part of an op: a name of all parts, and the part. The plan
/// runs such parts one after the other, so that the memory of one is free for the next.
pub const PART: &str = " part ";

/// The name of the marks that a mark runs in turn with, if there are such.
pub fn in_turn_with(mark: &str) -> Option<&str> {
    let parts = mark.split_once(PART).map(|(parts, _)| parts);
    if mark.ends_with(RECOMPUTED) { Some(RECOMPUTED) } else { parts }
}

/// A name that is not taken, equal to the wanted one or derived from it. It is taken from here on.
pub fn free_name(taken: &mut HashSet<Symbol>, wanted: &str) -> Symbol {
    let mut name = Symbol::from(wanted);
    let mut number = 0;
    while taken.contains(&name) {
        number += 1;
        name = format!("{wanted}.{number}").into();
    }
    taken.insert(name.clone());
    name
}

/// The path that the user wrote for a node with a derived name: `z` for `z.1`, `loss` for `loss/cross_entropy_rows3.1`.
/// A path has no slash and does not end in a number.
pub fn written_path(name: &str) -> &str {
    let mut path = name.split('/').next().unwrap_or(name);
    while let Some((outer, last)) = path.rsplit_once('.')
        && last.parse::<usize>().is_ok()
    {
        path = outer;
    }
    if path.is_empty() { name } else { path }
}

#[cfg(test)]
mod tests {
    use super::written_path;

    #[test]
    fn derived_names_lead_back_to_paths() {
        let cases = [
            ("z", "z"),
            ("z.1", "z"),
            ("loss/cross_entropy_rows3.1", "loss"),
            ("y.1.gate.2", "y.1.gate"),
            ("y.1/gather2.1", "y"),
            ("d.w.3.1", "d.w"),
            (".1", ".1"),
        ];
        for (name, path) in cases {
            assert_eq!(written_path(name), path);
        }
    }
}
