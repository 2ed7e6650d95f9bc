//! The part of a graph that is equal each time the graph runs, since it depends on fixed inputs alone.

use crate::ir::{Graph, InputKind, Node, NodeId, NodeOp, StateLink, Symbol, Value};
use std::collections::{BTreeSet, HashMap};

/// The part of a graph that depends on fixed inputs alone.
pub(super) struct Invariant<'g> {
    graph: &'g Graph,
    /// By node.
    is_fixed: Vec<bool>,
}

/// The work behind a value.
pub(super) struct Work {
    /// Whether nodes compute the value that are neither elementwise nor gathers.
    pub(super) is_slow: bool,
    /// Whether gathers compute the value.
    pub(super) has_gathers: bool,
    /// The bytes that are read of the inputs that the value depends on.
    pub(super) bytes_read: usize,
    /// The bytes of the value.
    pub(super) bytes: usize,
    /// Whether nodes compute the value: inputs, constants and coordinates need no work.
    pub(super) is_computed: bool,
}

impl<'g> Invariant<'g> {
    /// What depends on the inputs alone of which `is_fixed` is true.
    pub(super) fn of(graph: &'g Graph, is_fixed_input: impl Fn(NodeId) -> bool) -> Invariant<'g> {
        let mut is_fixed: Vec<bool> = vec![];
        for (id, node) in graph.nodes.iter().enumerate() {
            let fixed = match node.op {
                NodeOp::Input(_) => is_fixed_input(id),
                _ => node.inputs.iter().all(|input| is_fixed[input.node]) && !takes_step(node),
            };
            is_fixed.push(fixed);
        }
        Invariant { graph, is_fixed }
    }

    /// The invariant values, behind views, that other nodes read.
    pub(super) fn read_by_others(&self) -> BTreeSet<Value> {
        let nodes = self.graph.nodes.iter().zip(&self.is_fixed).filter(|(_, is_fixed)| !**is_fixed);
        self.behind_views(nodes.flat_map(|(node, _)| node.inputs.iter().copied()))
    }

    /// The invariant values, behind views, that are results of the graph.
    pub(super) fn results(&self) -> BTreeSet<Value> {
        self.behind_views(self.graph.outputs.iter().map(|(_, value)| *value))
    }

    fn behind_views(&self, values: impl Iterator<Item = Value>) -> BTreeSet<Value> {
        let behind = |mut value: Value| {
            while let NodeOp::View(_) = self.graph.nodes[value.node].op {
                value = self.graph.nodes[value.node].inputs[0];
            }
            value
        };
        values.filter(|value| self.is_fixed[value.node]).map(behind).collect()
    }

    /// The work behind a value.
    pub(super) fn work(&self, value: Value) -> Work {
        let (graph, reached) = (self.graph, self.graph.reached([value]));
        let (mut is_slow, mut has_gathers) = (false, false);
        let mut read: HashMap<Value, usize> = HashMap::new();
        for (node, _) in graph.nodes.iter().zip(reached).filter(|(_, reached)| *reached) {
            match node.op {
                NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::View(_) => {}
                NodeOp::Scalar(_) | NodeOp::Check(_) => {}
                NodeOp::Gather { .. } => has_gathers = true,
                _ => is_slow = true,
            }
            let is_input = |value: &Value| matches!(graph.nodes[value.node].op, NodeOp::Input(_));
            for (operand, input) in node.inputs.iter().enumerate().filter(|(_, input)| is_input(input)) {
                let whole = graph.ty(*input).bytes();
                let bytes = match node.op {
                    NodeOp::Gather { .. } if operand == 0 => whole.min(node.outputs[0].ty.bytes()),
                    _ => whole,
                };
                let known = read.entry(*input).or_default();
                *known = bytes.max(*known);
            }
        }
        let op = &graph.nodes[value.node].op;
        let is_computed = !matches!(op, NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::Iota { .. });
        let bytes = graph.ty(value).bytes();
        Work { is_slow, has_gathers, bytes_read: read.values().sum(), bytes, is_computed }
    }

    /// The graph with further inputs of these names in place of some values, behind its own inputs. Nothing reads the nodes
    /// of these values any more.
    pub(super) fn given(&self, values: &[(Value, Symbol)], kind: InputKind) -> Graph {
        let mut new = Graph::new(self.graph.name.clone());
        let mut map: HashMap<Value, Value> = HashMap::new();
        let inputs: Vec<NodeId> = self.graph.inputs().map(|(id, _)| id).collect();
        for &id in &inputs {
            map.insert(Value::of(id), Value::of(new.push(self.graph.nodes[id].clone())));
        }
        for (value, name) in values {
            let given = new.push_input(name.clone(), kind, self.graph.ty(*value).clone());
            new.nodes[given].span = self.graph.nodes[value.node].span;
            map.insert(*value, Value::of(given));
        }
        for (id, node) in self.graph.nodes.iter().enumerate().filter(|(id, _)| !inputs.contains(id)) {
            let inputs = node.inputs.iter().map(|input| map[input]).collect();
            let made = new.push(Node { inputs, ..node.clone() });
            for port in 0..node.outputs.len() {
                map.entry(Value { node: id, port }).or_insert(Value { node: made, port });
            }
        }
        new.outputs = self.graph.outputs.iter().map(|(name, value)| (name.clone(), map[value])).collect();
        let moved =
            |link: &StateLink| StateLink { input: map[&Value::of(link.input)].node, next: map[&link.next] };
        new.state = self.graph.state.iter().map(moved).collect();
        new
    }
}

/// Whether a node takes the number of the step by a region.
fn takes_step(node: &Node) -> bool {
    let is_step = |node: &Node| node.op == NodeOp::Input(InputKind::Step) || takes_step(node);
    node.regions.iter().any(|region| region.nodes.iter().any(is_step))
}
