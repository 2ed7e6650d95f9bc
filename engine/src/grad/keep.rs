//! Loops whose gradients keep the carried values of √trips trips: a loop over chunks of trips keeps those at the start of
//! each chunk, and its gradient runs the trips of a chunk once more (Chen et al. 2016).

use crate::ir::{
    Builder, DType, Graph, InputKind, Keep, Literal, Needs, Node, NodeId, NodeOp, Output, Symbol, Type,
    Value, with_needs,
};
use crate::op::Registry;
use std::collections::HashMap;

/// The loops that one after the other compute a loop, each on the results of the one before and the same given values.
pub(super) fn parts(node: &Node, registry: &Registry) -> Vec<Node> {
    let &NodeOp::Loop { trips: trips @ 4.., reverse, keep: Keep::Sqrt, .. } = &node.op else {
        return vec![node.clone()];
    };
    let length = Keep::chunk_of(trips);
    let (n_chunks, rest) = (trips / length, trips % length);
    let mut parts = vec![chunked(node, (n_chunks, length), registry)];
    if rest > 0 {
        let region = rest_of(&node.regions[0], node.outputs.len(), n_chunks * length, registry);
        let at = if reverse { 0 } else { 1 };
        parts.insert(at, Node { op: with_trips(&node.op, rest), regions: vec![region], ..node.clone() });
    }
    parts
}

/// The op of a loop of another number of trips, which keeps all that its gradient needs.
fn with_trips(op: &NodeOp, trips: usize) -> NodeOp {
    let &NodeOp::Loop { n_given, until, counted, reverse, .. } = op else { crate::bug!("{op:?} is no loop") };
    NodeOp::Loop { trips, n_given, until, counted, reverse, keep: Keep::All }
}

/// A loop over chunks, each a loop over its trips.
fn chunked(node: &Node, (n_chunks, length): (usize, usize), registry: &Registry) -> Node {
    let (region, n_carried) = (&node.regions[0], node.outputs.len());
    let mut copy = Copied::new("chunk", region, registry);
    let inputs = inputs_of(region);
    inputs.iter().for_each(|&input| copy.node(region, input));
    let mut operands: Vec<Value> = inputs.iter().map(|&input| copy.map[&Value::of(input)]).collect();
    let chunk = operands[n_carried];
    let length_of = copy.builder.full(Literal::Int(length as i64), Type::scalar(DType::I32));
    operands[n_carried] = copy.builder.mul(chunk, length_of);
    let typed = |output: &Output| Output { name: copy.builder.fresh_name(), ty: output.ty.clone() };
    let outputs: Vec<Output> = node.outputs.iter().map(typed).collect();
    let mut op = with_trips(&node.op, length);
    if let NodeOp::Loop { n_given, .. } = &mut op {
        *n_given += 1;
    }
    let inner = copy.builder.push_node(op, operands, outputs);
    copy.builder.graph.nodes[inner].regions = vec![trips_of(region, n_carried, registry)];
    let results = (0..n_carried).map(|port| Value { node: inner, port }).collect();
    let mut op = with_trips(&node.op, n_chunks);
    if let NodeOp::Loop { keep, .. } = &mut op {
        *keep = Keep::Carried;
    }
    Node { op, regions: vec![copy.finish(results)], ..node.clone() }
}

/// The region of the loop over the trips of a chunk. Its first given value is the number of trips before the chunk.
fn trips_of(region: &Graph, n_carried: usize, registry: &Registry) -> Graph {
    let mut copy = Copied::new("trip", region, registry);
    let inputs = inputs_of(region);
    let (carried, given) = inputs.split_at(n_carried);
    carried.iter().for_each(|&input| copy.node(region, input));
    let [number, before] = [0, 1].map(|_| copy.input(Type::scalar(DType::I32)));
    given[1..].iter().for_each(|&input| copy.node(region, input));
    let trip = copy.builder.add(before, number);
    copy.map.insert(Value::of(given[0]), trip);
    copy.whole(region)
}

/// The region of the trips behind all chunks, which draw from streams of their own.
fn rest_of(region: &Graph, n_carried: usize, before: usize, registry: &Registry) -> Graph {
    let mut region = region.clone();
    apart(&mut region);
    let mut copy = Copied::new("trip", &region, registry);
    let inputs = inputs_of(&region);
    inputs.iter().for_each(|&input| copy.node(&region, input));
    let number = Value::of(inputs[n_carried]);
    let before = copy.builder.full(Literal::Int(before as i64), Type::scalar(DType::I32));
    let trip = copy.builder.add(before, copy.map[&number]);
    copy.map.insert(number, trip);
    copy.whole(&region)
}

/// Lets a region draw other random numbers. Calls draw by their names.
fn apart(region: &mut Graph) {
    for node in &mut region.nodes {
        if let NodeOp::Random { stream } = &mut node.op {
            *stream = stream.wrapping_add(0x9e37_79b9);
        }
        node.outputs
            .iter_mut()
            .for_each(|output| output.name = Symbol::from(format!("{}.rest", output.name)));
        node.regions.iter_mut().for_each(apart);
    }
}

/// The inputs of a region but the step.
fn inputs_of(region: &Graph) -> Vec<NodeId> {
    region.inputs().filter(|(_, kind)| *kind != InputKind::Step).map(|(id, _)| id).collect()
}

/// A graph with copies of some nodes of another.
pub(super) struct Copied<'g> {
    pub(super) builder: Builder<'g>,
    /// By old value: the new one.
    pub(super) map: HashMap<Value, Value>,
}

impl<'g> Copied<'g> {
    pub(super) fn new(name: &str, old: &Graph, registry: &'g Registry) -> Copied<'g> {
        let mut builder = Builder::new(Graph::new(name), registry);
        builder.reserve(old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
        builder.set_scope("tape", None);
        Copied { builder, map: HashMap::new() }
    }

    /// Copies a node whose operands are copied, unless a value stands for it.
    pub(super) fn node(&mut self, old: &Graph, id: NodeId) {
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

    /// Copies a part of a loop, whose operands are copied as far as they are needed.
    pub(super) fn part(&mut self, old: &Graph, id: NodeId, needs: &Needs) {
        let mut node = with_needs(&old.nodes[id], needs);
        node.inputs.iter_mut().for_each(|input| *input = self.map[input]);
        let made = self.builder.graph.push(node);
        let kept = needs.carried.iter().enumerate().filter(|(_, is_needed)| **is_needed);
        for (port, (old_port, _)) in kept.enumerate() {
            self.map.insert(Value { node: id, port: old_port }, Value { node: made, port });
        }
    }

    pub(super) fn input(&mut self, ty: Type) -> Value {
        let name = self.builder.fresh_name();
        self.builder.input(&name, InputKind::Data, ty)
    }

    pub(super) fn finish(self, results: Vec<Value>) -> Graph {
        let named = results.into_iter().enumerate().map(|(at, value)| (format!("next.{at}").into(), value));
        Graph { outputs: named.collect(), ..self.builder.graph }
    }

    /// The copy of a whole region, whose results are copied at last.
    fn whole(mut self, region: &Graph) -> Graph {
        (0..region.nodes.len()).for_each(|id| self.node(region, id));
        let results = region.outputs.iter().map(|(_, value)| self.map[value]).collect();
        self.finish(results)
    }
}
