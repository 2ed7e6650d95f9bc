//! Gradients of loops.
//!
//! A loop on a path to the loss keeps, trip by trip, the values that its gradient needs: they are carried as stacks, one
//! row a trip. Its gradient is a loop over the trips in reverse. It carries the gradients of the carried values, and sums
//! of those of the given ones. A loop that keeps √trips is first written as a loop of loops, in [`keep`](super::keep).

use super::keep::Copied;
use crate::ir::{
    Binary, Builder, Combine, DType, Dim, E, Graph, InputKind, Keep, Literal, Needs, Node, NodeId, NodeOp,
    Output, Scalar, Type, Value,
};
use crate::op::{Lower, Registry};
use std::collections::{BTreeMap, HashSet};

/// A loop of the forward graph that keeps what its gradient needs.
pub(super) struct Tape {
    trips: usize,
    n_carried: usize,
    reverse: bool,
    keep: Keep,
    joint: Joint,
    /// Values of a trip that are kept, by the stacks that hold them, which are the last results of the loop.
    stacks: Vec<Vec<Value>>,
}

/// The most elements of a kept value that shares a stack. A larger one takes longer to store than its kernel to launch.
const SMALL: usize = 1 << 14;
/// The least number of values that share a stack. To put two side by side takes a kernel, as a second stack would.
const LEAST_JOINED: usize = 3;
/// The most values in a stack, so that the kernel that writes a row has few operands.
const MOST_JOINED: usize = 4;

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
        let &NodeOp::Loop { trips, n_given, reverse, keep, .. } = &node.op else {
            crate::bug!("{:?} is no loop", node.op)
        };
        let n_carried = node.inputs.len() - n_given;
        let mut tape = Tape { trips, n_carried, reverse, keep, joint, stacks: vec![] };
        tape.stacks = tape.shared(tape.needed().0);
        tape
    }

    /// Kept values by their stacks. Small ones of one element type share a stack, whose rows one kernel writes.
    fn shared(&self, kept: Vec<Value>) -> Vec<Vec<Value>> {
        let mut stacks: Vec<Vec<Value>> = vec![];
        let ty = |value: Value| self.joint.graph.ty(value);
        let is_small = |value: Value| (1..=SMALL).contains(&ty(value).numel());
        for value in kept {
            let fits = |stack: &&mut Vec<Value>| {
                let is_alike = ty(stack[0]).dtype == ty(value).dtype && is_small(stack[0]);
                is_alike && is_small(value) && stack.len() < MOST_JOINED
            };
            match stacks.iter_mut().find(fits) {
                Some(stack) => stack.push(value),
                None => stacks.push(vec![value]),
            }
        }
        let apart = |stack: Vec<Value>| match stack.len() < LEAST_JOINED {
            true => stack.into_iter().map(|value| vec![value]).collect(),
            false => vec![stack],
        };
        stacks.into_iter().flat_map(apart).collect()
    }

    /// The values of a trip that its gradient needs and cannot compute from what all trips are given, and the results of
    /// nodes that its gradient computes, by node.
    fn needed(&self) -> (Vec<Value>, BTreeMap<NodeId, Vec<bool>>) {
        let (mut kept, mut computed) = (vec![], BTreeMap::new());
        let mut seen = HashSet::new();
        let mut open: Vec<Value> = self.joint.grads.iter().flatten().copied().collect();
        while let Some(value) = open.pop() {
            if !seen.insert(value) || self.is_fixed_input(value) {
                continue;
            }
            let node = &self.joint.graph.nodes[value.node];
            if value.node < self.joint.n_forward && !self.is_computed_again(node) {
                kept.push(value);
                continue;
            }
            let none = || vec![false; node.outputs.len()];
            computed.entry(value.node).or_insert_with(none)[value.port] = true;
            let mut port = none();
            port[value.port] = true;
            open.extend(needs_of(node, &port).map_or(node.inputs.clone(), |needs| {
                let operands = node.inputs.iter().zip(needs.operands());
                operands.filter(|(_, is_needed)| *is_needed).map(|(input, _)| *input).collect()
            }));
        }
        kept.sort_unstable();
        (kept, computed)
    }

    /// Whether a node of the trip is computed again rather than kept.
    fn is_computed_again(&self, node: &Node) -> bool {
        match &node.op {
            NodeOp::Input(kind) => *kind == InputKind::Step,
            _ => self.keep == Keep::Carried || self.is_cheap(node),
        }
    }

    /// Whether a value is an input that is known in each trip of the reverse loop.
    fn is_fixed_input(&self, value: Value) -> bool {
        let at = self.joint.inputs.iter().position(|input| *input == value);
        at.is_some_and(|at| at >= self.n_carried)
    }

    /// Whether a node is cheaper than keeping its value: constants, views, elementwise ops, and reads from what all trips are
    /// given. To keep a value takes a store, a load, and often a kernel.
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
        let stacks: Vec<Type> = self.stacks.iter().map(|values| self.stacked(values)).collect();
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

    /// The type of the stack of some values.
    fn stacked(&self, values: &[Value]) -> Type {
        let mut ty = self.joint.graph.ty(values[0]).clone();
        if values.len() > 1 {
            let n: usize = values.iter().map(|&value| self.joint.graph.ty(value).numel()).sum();
            ty.shape = vec![Dim::Fixed(n)];
        }
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
        for (&stack, values) in stacks.iter().zip(&self.stacks) {
            let values: Vec<Value> = values.iter().map(|value| copy.map[value]).collect();
            let row = joined(&mut copy.builder, &values);
            results.push(copy.builder.scatter(stack, number, row, 0, 0, Combine::Set));
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
            false => node.inputs[operand + self.stacks.len()],
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
        let stacks = (0..self.stacks.len()).map(|at| Value { node: id, port: self.n_results(&node) + at });
        let operands: Vec<Value> = carried.iter().copied().chain(stacks).chain(fixed).collect();
        let outputs: Vec<Output> =
            carried.iter().map(|&value| Output { name: b.fresh_name(), ty: b.ty(value).clone() }).collect();
        let n_given = operands.len() - carried.len();
        let op = NodeOp::Loop {
            trips: self.trips,
            n_given,
            until: false,
            counted: false,
            reverse: !self.reverse,
            keep: Keep::All,
        };
        let made = b.push_node(op, operands, outputs);
        b.graph.nodes[made].regions = vec![self.reverse(&given, b.registry())];
        let mut grads = vec![None; self.joint.grads.len()];
        let results = self.joint.seeds.iter().map(|(port, _)| *port).chain(given);
        results.enumerate().for_each(|(port, operand)| grads[operand] = Some(Value { node: made, port }));
        let (carried, given) = grads.split_at(self.n_carried);
        let of_stacks = vec![None; self.stacks.len()];
        [carried, &of_stacks, given].concat()
    }

    fn n_results(&self, node: &Node) -> usize {
        node.outputs.len() - self.stacks.len()
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
        let trip = copy.input(Type::scalar(DType::I32));
        let stacks: Vec<Value> = self.stacks.iter().map(|values| copy.input(self.stacked(values))).collect();
        let (_, others) = self.joint.inputs.split_at(self.n_carried);
        others[1..].iter().for_each(|input| copy.node(&self.joint.graph, input.node));
        copy.map.insert(others[0], trip);
        for (values, stack) in self.stacks.iter().zip(stacks) {
            let row = copy.builder.gather(stack, trip, 0, 0);
            let types: Vec<&Type> = values.iter().map(|&value| self.joint.graph.ty(value)).collect();
            copy.map.extend(values.iter().copied().zip(parted(&mut copy.builder, row, &types)));
        }
        let (_, computed) = self.needed();
        for (id, ports) in computed {
            match needs_of(&self.joint.graph.nodes[id], &ports) {
                Some(needs) => copy.part(&self.joint.graph, id, &needs),
                None => copy.node(&self.joint.graph, id),
            }
        }
        let mut results = vec![];
        for &(port, seed) in &self.joint.seeds {
            let grad = self.joint.grads[port].map(|grad| copy.map[&grad]);
            results.push(grad.unwrap_or_else(|| copy.builder.full_like(copy.map[&seed], 0.0)));
        }
        for (&operand, sum) in given.iter().zip(sums) {
            let grad = self.joint.grads[operand].unwrap_or_else(|| crate::bug!("a sum without gradients"));
            let n_uses = self.joint.grads.iter().flatten().filter(|used| **used == grad).count();
            let grad = copy.map[&grad];
            results.push(added(&mut copy.builder, sum, (grad, n_uses)));
        }
        copy.finish(results)
    }

    /// The input of an operand.
    fn input(&self, operand: usize) -> Value {
        self.joint.inputs[operand + usize::from(operand >= self.n_carried)]
    }
}

/// One value, or several side by side. A selection by position keeps every bit, whereas a sum would lose the sign of -0.
fn joined(b: &mut Builder, values: &[Value]) -> Value {
    let &[first, ref others @ ..] = values else { crate::bug!("a stack of nothing") };
    if others.is_empty() {
        return first;
    }
    let sizes: Vec<usize> = values.iter().map(|&value| b.ty(value).numel()).collect();
    let total: usize = sizes.iter().sum();
    let mut end = 0;
    let mut row = None;
    for (&value, &size) in values.iter().zip(&sizes) {
        let flat = b.reshape(value, &[size]);
        let padded = b.pad(flat, &[end], &[total - end - size], Literal::Int(0));
        let start = end as i64;
        row = Some(match row {
            None => padded,
            Some(earlier) => {
                let position = b.iota(0, Type::new(DType::I32, &[total]));
                b.map(&[position, earlier, padded], |v| E::select(v[0].lt(start), v[1], v[2]))
            }
        });
        end += size;
    }
    row.unwrap_or(first)
}

/// The values of these types in a row of a stack.
fn parted(b: &mut Builder, row: Value, types: &[&Type]) -> Vec<Value> {
    if types.len() == 1 {
        return vec![row];
    }
    let mut start = 0;
    let part = |ty: &&Type| {
        let flat = b.slice(row, &[start], &[ty.numel()], &[1]);
        start += ty.numel();
        b.reshape(flat, &ty.extents())
    };
    types.iter().map(part).collect()
}

/// A sum. Rows that are added to zeros are added to the other summand instead, and so is a sum that a loop carries, if it
/// has one use.
fn added(b: &mut Builder, sum: Value, (value, n_uses): (Value, usize)) -> Value {
    if let Some(sum) = with_rows(b, sum, value) {
        return sum;
    }
    let node = &b.graph.nodes[value.node];
    if let NodeOp::Loop { until: false, trips: 1.., .. } = node.op
        && is_zero(&b.graph, node.inputs[value.port])
        && n_uses == 1
        && n_reads(&b.graph, value) == 0
        && carries_sum(&node.regions[0], value.port)
    {
        b.graph.nodes[value.node].inputs[value.port] = sum;
        return value;
    }
    b.add(sum, value)
}

/// The sum with rows in it, if a value is rows that are added to zeros. Rows of halves are added to zeros of a wider type, and
/// the result is rounded. With one index, each number of the result is zero or a single update, which can be rounded itself.
/// So no trip visits all elements.
fn with_rows(b: &mut Builder, sum: Value, value: Value) -> Option<Value> {
    let scattered = match b.graph.nodes[value.node].op {
        NodeOp::Scalar(Scalar::Cast(_)) => b.graph.nodes[value.node].inputs[0],
        _ => value,
    };
    let node = &b.graph.nodes[scattered.node];
    let &NodeOp::Scatter { axis, batch, combine: Combine::Add } = &node.op else { return None };
    let &[base, index, updates] = &node.inputs[..] else { return None };
    let has_one_index = b.ty(index).extents()[batch..].iter().product::<usize>() == 1;
    if !is_zero(&b.graph, base) || scattered != value && !has_one_index {
        return None;
    }
    let dtype = b.dtype(sum);
    let updates = b.cast(updates, dtype);
    Some(b.scatter(sum, index, updates, axis, batch, Combine::Add))
}

fn is_zero(graph: &Graph, value: Value) -> bool {
    matches!(&graph.nodes[value.node].op, NodeOp::Const(zero) if zero.as_f64() == 0.0)
}

/// How often the nodes of a graph read a value.
fn n_reads(graph: &Graph, value: Value) -> usize {
    graph.nodes.iter().flat_map(|node| &node.inputs).filter(|input| **input == value).count()
}

/// Whether a region only adds to a carried value.
fn carries_sum(region: &Graph, port: usize) -> bool {
    let input = region.inputs().filter(|(_, kind)| *kind != InputKind::Step).nth(port);
    let Some(input) = input.map(|(id, _)| Value::of(id)) else { return false };
    let (_, output) = region.outputs[port];
    let node = &region.nodes[output.node];
    let adds = match &node.op {
        NodeOp::Scatter { combine: Combine::Add, .. } => node.inputs[0] == input,
        NodeOp::Scalar(Scalar::Binary(Binary::Add)) => node.inputs.contains(&input),
        NodeOp::Loop { until: false, .. } => {
            node.inputs[output.port] == input && carries_sum(&node.regions[0], output.port)
        }
        _ => false,
    };
    adds && n_reads(region, input) == 1
}

/// What some results of a loop need, if the node is a loop of a known number of trips.
fn needs_of(node: &Node, ports: &[bool]) -> Option<Needs> {
    matches!(node.op, NodeOp::Loop { until: false, .. }).then(|| Needs::of(node, ports))
}
