//! Gradients of loops.
//!
//! A loop on a path to the loss keeps, trip by trip, the values that its gradient needs: they are carried as stacks, one
//! row a trip. Its gradient is a loop over the trips in reverse. It carries the gradients of the carried values, and sums
//! of those of the given ones.

use crate::ir::{
    Builder, Combine, DType, Dim, Graph, InputKind, Literal, Node, NodeId, NodeOp, Output, Type, Value,
};
use crate::op::{Lower, Registry};
use std::collections::{HashMap, HashSet};

/// A loop of the forward graph that keeps what its gradient needs.
pub(super) struct Tape {
    trips: usize,
    n_carried: usize,
    joint: Joint,
    /// Values of a trip that are kept, in the order of the results of the loop that hold them.
    kept: Vec<Value>,
}

/// The gradient of a trip.
pub(super) struct Joint {
    /// The region with the gradient appended.
    pub(super) graph: Graph,
    /// The nodes of the region itself.
    pub(super) n_forward: usize,
    /// The inputs of the region.
    pub(super) inputs: Vec<Value>,
    /// By carried value of a float type: its number, and the input that takes its gradient.
    pub(super) seeds: Vec<(usize, Value)>,
    /// By operand of the loop: its gradient, if it has one.
    pub(super) grads: Vec<Option<Value>>,
}

impl Tape {
    /// A loop with the gradient of a trip.
    pub(super) fn new(node: &Node, joint: Joint) -> Tape {
        let &NodeOp::Loop { trips, n_given, .. } = &node.op else { crate::bug!("{:?} is no loop", node.op) };
        let n_carried = node.inputs.len() - n_given;
        let mut tape = Tape { trips, n_carried, joint, kept: vec![] };
        tape.kept = tape.needed().0;
        tape
    }

    /// The values of a trip that its gradient needs and cannot compute from what all trips are given, and the nodes that
    /// its gradient computes.
    fn needed(&self) -> (Vec<Value>, HashSet<NodeId>) {
        let (mut kept, mut computed) = (vec![], HashSet::new());
        let mut seen = HashSet::new();
        let mut open: Vec<Value> = self.joint.grads.iter().flatten().copied().collect();
        while let Some(value) = open.pop() {
            if !seen.insert(value) || self.is_fixed_input(value) {
                continue;
            }
            let node = &self.joint.graph.nodes[value.node];
            let is_step = node.op == NodeOp::Input(InputKind::Step);
            if value.node >= self.joint.n_forward || self.is_cheap(node) || is_step {
                computed.insert(value.node);
                open.extend(node.inputs.iter().copied());
            } else {
                kept.push(value);
            }
        }
        kept.sort_unstable();
        (kept, computed)
    }

    /// Whether a value is an input that is known in each trip of the reverse loop.
    fn is_fixed_input(&self, value: Value) -> bool {
        let at = self.joint.inputs.iter().position(|input| *input == value);
        at.is_some_and(|at| at >= self.n_carried)
    }

    /// Whether a node is computed again rather than kept: constants, views, elementwise ops, and reads from what all trips
    /// are given. To keep a value takes a store, a load, and often a kernel.
    fn is_cheap(&self, node: &Node) -> bool {
        match &node.op {
            NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::View(_) => true,
            NodeOp::Map(_) | NodeOp::Scalar(_) | NodeOp::Check(_) => true,
            NodeOp::Call(call) => matches!(call.form().lower, Lower::Map(_)),
            NodeOp::Gather { .. } => node.inputs.iter().all(|input| self.is_fixed_input(*input)),
            _ => false,
        }
    }

    /// Appends the loop with the stacks of the kept values. Returns the values of the original results.
    pub(super) fn push_forward(&self, b: &mut Builder, node: &Node, operands: &[Value]) -> Vec<Value> {
        let stacks: Vec<Type> = self.kept.iter().map(|&value| self.stacked(value)).collect();
        let region = self.recording(&stacks, b.registry());
        let (initial, given) = operands.split_at(self.n_carried);
        let zeros: Vec<Value> = stacks.iter().map(|ty| b.full(Literal::Int(0), ty.clone())).collect();
        let operands = initial.iter().chain(&zeros).chain(given).copied().collect();
        let mut outputs = node.outputs.clone();
        outputs.extend(stacks.into_iter().map(|ty| Output { name: b.fresh_name(), ty }));
        let id = b.push_node(node.op.clone(), operands, outputs);
        b.graph.nodes[id].regions = vec![region];
        (0..node.outputs.len()).map(|port| Value { node: id, port }).collect()
    }

    fn stacked(&self, value: Value) -> Type {
        let mut ty = self.joint.graph.ty(value).clone();
        ty.shape.insert(0, Dim::Fixed(self.trips));
        ty
    }

    /// The region that writes the kept values to the rows of stacks.
    fn recording(&self, stacks: &[Type], registry: &Registry) -> Graph {
        let mut copy = Copied::new("trip", &self.joint.graph, registry);
        let (carried, others) = self.joint.inputs.split_at(self.n_carried);
        carried.iter().for_each(|input| copy.node(&self.joint.graph, input.node));
        let stacks: Vec<Value> = stacks.iter().map(|ty| copy.input(ty.clone())).collect();
        others.iter().for_each(|input| copy.node(&self.joint.graph, input.node));
        for id in 0..self.joint.n_forward {
            copy.node(&self.joint.graph, id);
        }
        let number = copy.map[&others[0]];
        let mut results: Vec<Value> =
            self.joint.graph.outputs.iter().map(|(_, value)| copy.map[value]).collect();
        for (&stack, value) in stacks.iter().zip(&self.kept) {
            results.push(copy.builder.scatter(stack, number, copy.map[value], 0, 0, Combine::Set));
        }
        copy.finish(results)
    }

    /// Appends the gradient of the loop `id`, and returns the gradients of its operands.
    pub(super) fn gradients(
        &self,
        b: &mut Builder,
        id: NodeId,
        upstream: &[Option<Value>],
    ) -> Vec<Option<Value>> {
        let node = b.graph.nodes[id].clone();
        let operand_of = |operand: usize| match operand < self.n_carried {
            true => node.inputs[operand],
            false => node.inputs[operand + self.kept.len()],
        };
        let given: Vec<usize> = (self.n_carried..self.joint.grads.len())
            .filter(|&operand| self.joint.grads[operand].is_some())
            .collect();
        let mut carried = vec![];
        for &(port, _) in &self.joint.seeds {
            let value = Value { node: id, port };
            carried.push(upstream[port].unwrap_or_else(|| b.full_like(value, 0.0)));
        }
        for &operand in &given {
            carried.push(b.full_like(operand_of(operand), 0.0));
        }
        let fixed: Vec<Value> = (self.n_carried..self.joint.grads.len()).map(operand_of).collect();
        let stacks = (0..self.kept.len()).map(|at| Value { node: id, port: self.n_results(&node) + at });
        let operands: Vec<Value> = carried.iter().copied().chain(stacks).chain(fixed).collect();
        let outputs: Vec<Output> =
            carried.iter().map(|&value| Output { name: b.fresh_name(), ty: b.ty(value).clone() }).collect();
        let n_given = operands.len() - carried.len();
        let op = NodeOp::Loop { trips: self.trips, n_given, until: false, counted: false };
        let made = b.push_node(op, operands, outputs);
        b.graph.nodes[made].regions = vec![self.reverse(&given, b.registry())];
        let mut grads = vec![None; self.joint.grads.len()];
        let results = self.joint.seeds.iter().map(|(port, _)| *port).chain(given);
        results.enumerate().for_each(|(port, operand)| grads[operand] = Some(Value { node: made, port }));
        let (carried, given) = grads.split_at(self.n_carried);
        let of_stacks = vec![None; self.kept.len()];
        [carried, &of_stacks, given].concat()
    }

    fn n_results(&self, node: &Node) -> usize {
        node.outputs.len() - self.kept.len()
    }

    /// The region of the gradient: a trip of the reverse loop.
    fn reverse(&self, given: &[usize], registry: &Registry) -> Graph {
        let mut copy = Copied::new("back", &self.joint.graph, registry);
        for &(_, seed) in &self.joint.seeds {
            copy.node(&self.joint.graph, seed.node);
        }
        let sums: Vec<Value> = given
            .iter()
            .map(|&operand| copy.input(self.joint.graph.ty(self.input(operand)).clone()))
            .collect();
        let number = copy.input(Type::scalar(DType::I32));
        let stacks: Vec<Value> = self.kept.iter().map(|&value| copy.input(self.stacked(value))).collect();
        let (_, others) = self.joint.inputs.split_at(self.n_carried);
        others[1..].iter().for_each(|input| copy.node(&self.joint.graph, input.node));
        let last = copy.builder.full(Literal::Int(self.trips as i64 - 1), Type::scalar(DType::I32));
        let trip = copy.builder.sub(last, number);
        copy.map.insert(others[0], trip);
        for (&value, stack) in self.kept.iter().zip(stacks) {
            let row = copy.builder.gather(stack, trip, 0, 0);
            copy.map.insert(value, row);
        }
        let (_, computed) = self.needed();
        for id in (0..self.joint.graph.nodes.len()).filter(|id| computed.contains(id)) {
            copy.node(&self.joint.graph, id);
        }
        let mut results = vec![];
        for &(port, seed) in &self.joint.seeds {
            let grad = self.joint.grads[port].map(|grad| copy.map[&grad]);
            results.push(grad.unwrap_or_else(|| copy.builder.full_like(copy.map[&seed], 0.0)));
        }
        for (&operand, sum) in given.iter().zip(sums) {
            let grad = self.joint.grads[operand].unwrap_or_else(|| crate::bug!("a sum without gradients"));
            let grad = copy.map[&grad];
            results.push(added(&mut copy.builder, sum, grad));
        }
        copy.finish(results)
    }

    /// The input of an operand.
    fn input(&self, operand: usize) -> Value {
        self.joint.inputs[operand + usize::from(operand >= self.n_carried)]
    }
}

/// A sum. Where rows are added to zeros, they are added to the other summand instead.
fn added(b: &mut Builder, sum: Value, value: Value) -> Value {
    let node = &b.graph.nodes[value.node];
    if let (NodeOp::Scatter { axis, batch, combine: Combine::Add }, &[base, index, updates]) =
        (&node.op, &node.inputs[..])
        && matches!(&b.graph.nodes[base.node].op, NodeOp::Const(zero) if zero.as_f64() == 0.0)
    {
        return b.scatter(sum, index, updates, *axis, *batch, Combine::Add);
    }
    b.add(sum, value)
}

/// A graph with copies of some nodes of another.
struct Copied<'g> {
    builder: Builder<'g>,
    /// By old value: the new one.
    map: HashMap<Value, Value>,
}

impl<'g> Copied<'g> {
    fn new(name: &str, old: &Graph, registry: &'g Registry) -> Copied<'g> {
        let mut builder = Builder::new(Graph::new(name), registry);
        builder.reserve(old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
        builder.set_scope("tape", None);
        Copied { builder, map: HashMap::new() }
    }

    /// Copies a node whose operands are copied, unless a value stands for it.
    fn node(&mut self, old: &Graph, id: NodeId) {
        let node = &old.nodes[id];
        if self.map.contains_key(&Value::of(id)) {
            return;
        }
        let inputs = node.inputs.iter().map(|input| self.map[input]).collect();
        let made = self.builder.graph.push(Node { inputs, ..node.clone() });
        for port in 0..node.outputs.len() {
            self.map.entry(Value { node: id, port }).or_insert(Value { node: made, port });
        }
    }

    fn input(&mut self, ty: Type) -> Value {
        let name = self.builder.fresh_name();
        self.builder.input(&name, InputKind::Data, ty)
    }

    fn finish(self, results: Vec<Value>) -> Graph {
        let named = results.into_iter().enumerate().map(|(at, value)| (format!("next.{at}").into(), value));
        Graph { outputs: named.collect(), ..self.builder.graph }
    }
}
