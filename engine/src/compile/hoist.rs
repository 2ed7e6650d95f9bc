//! Hoisting: what each trip of a loop computes from given values alone is computed once, before the loop.
//!
//! Constants, coordinates and views stay, since each kernel computes them for itself. So do elementwise ops whose result is
//! larger than what they read, because a trip would read more than it saves.

use crate::ir::{Graph, InputKind, Node, NodeId, NodeOp, Output, StateLink, Symbol, Value, free_name};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The switch of this pass.
pub(super) const HOIST: &str = "hoist-from-loops";

/// Whether a graph has loops.
pub(super) fn has_loops(graph: &Graph) -> bool {
    graph.nodes.iter().any(is_loop)
}

fn is_loop(node: &Node) -> bool {
    matches!(node.op, NodeOp::Loop { .. })
}

/// The graph of primitives, not pruned, whose loops, inner ones first, are given what they would compute in each trip. `simplify`
/// simplifies a region.
pub(super) fn hoist(graph: &Graph, simplify: &dyn Fn(&Graph) -> Graph) -> Graph {
    let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
    let mut names: HashSet<Symbol> = outputs.map(|output| output.name.clone()).collect();
    let mut new = Graph::new(graph.name.clone());
    let mut map: Vec<NodeId> = vec![];
    let moved = |map: &[NodeId], value: Value| Value { node: map[value.node], ..value };
    for node in &graph.nodes {
        let mut node = node.clone();
        node.inputs.iter_mut().for_each(|input| *input = moved(&map, *input));
        if let NodeOp::Loop { trips: 1.., n_given, .. } = node.op {
            let n_carried = node.inputs.len() - n_given;
            node.regions = vec![hoist(&simplified(&node.regions[0], n_carried, simplify), simplify)];
            Invariant::of(&node).hoist(&mut new, &mut node, &mut names);
        }
        map.push(new.push(node));
    }
    new.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(&map, *value))).collect();
    let link = |link: &StateLink| StateLink { input: map[link.input], next: moved(&map, link.next) };
    new.state = graph.state.iter().map(link).collect();
    new
}

/// A simplified region with all its inputs. Rules must know which are carried, as they do when a trip is compiled: a row
/// that is written to a state leaves the rest of it in place.
fn simplified(region: &Graph, n_carried: usize, simplify: &dyn Fn(&Graph) -> Graph) -> Graph {
    let mut whole = region.clone();
    let inputs: Vec<NodeId> = region.inputs().map(|(id, _)| id).collect();
    for &id in &inputs {
        whole.outputs.push((region.nodes[id].name().clone(), Value::of(id)));
    }
    inputs[..n_carried].iter().for_each(|&id| whole.nodes[id].op = NodeOp::Input(InputKind::State));
    let mut simple = simplify(&whole);
    simple.outputs.truncate(region.outputs.len());
    let states = simple.nodes.iter_mut().filter(|node| node.op == NodeOp::Input(InputKind::State));
    states.for_each(|node| node.op = NodeOp::Input(InputKind::Data));
    simple
}

/// The part of a region that is equal in all trips.
struct Invariant {
    region: Graph,
    /// Inputs of the region, in the order of its operands.
    inputs: Vec<NodeId>,
    /// The first given value among them.
    first_given: usize,
    /// By node.
    is_fixed: Vec<bool>,
}

impl Invariant {
    fn of(node: &Node) -> Invariant {
        let &NodeOp::Loop { n_given, .. } = &node.op else { crate::bug!("{:?} is no loop", node.op) };
        let region = node.regions[0].clone();
        let inputs: Vec<NodeId> = region.inputs().map(|(id, _)| id).collect();
        let first_given = inputs.len() - n_given;
        let mut is_fixed: Vec<bool> = vec![];
        for (id, node) in region.nodes.iter().enumerate() {
            let fixed = match node.op {
                NodeOp::Input(_) => inputs[first_given..].contains(&id),
                _ => node.inputs.iter().all(|input| is_fixed[input.node]),
            };
            is_fixed.push(fixed);
        }
        Invariant { region, inputs, first_given, is_fixed }
    }

    /// Moves nodes to the graph around, behind which the loop `node` will stand.
    fn hoist(self, around: &mut Graph, node: &mut Node, names: &mut HashSet<Symbol>) {
        let values: Vec<Value> = self.read().into_iter().filter(|value| self.is_worth(*value)).collect();
        if values.is_empty() {
            return;
        }
        let first = node.inputs.len() - (self.inputs.len() - self.first_given);
        let given = self.inputs[self.first_given..].iter().zip(&node.inputs[first..]);
        let mut map: HashMap<NodeId, Value> = given.map(|(&input, &value)| (input, value)).collect();
        let all = self.region.reached(values.iter().copied());
        for (id, old) in self.region.nodes.iter().enumerate().filter(|(id, _)| all[*id]) {
            if map.contains_key(&id) {
                continue;
            }
            let inputs = old
                .inputs
                .iter()
                .map(|input| Value { port: map[&input.node].port + input.port, ..map[&input.node] });
            let named =
                |output: &Output| Output { name: free_name(names, &output.name), ty: output.ty.clone() };
            let inputs = inputs.collect();
            let outputs = old.outputs.iter().map(named).collect();
            map.insert(id, Value::of(around.push(Node { inputs, outputs, ..old.clone() })));
        }
        let operands = values.iter().map(|value| Value { port: value.port, ..map[&value.node] });
        node.inputs.extend(operands);
        if let NodeOp::Loop { n_given, .. } = &mut node.op {
            *n_given += values.len();
        }
        node.regions = vec![self.given(&values)];
    }

    /// The invariant values that other nodes of a trip read, or views of them.
    fn read(&self) -> BTreeSet<Value> {
        let nodes = self.region.nodes.iter().zip(&self.is_fixed).filter(|(_, is_fixed)| !**is_fixed);
        let operands = nodes.flat_map(|(node, _)| node.inputs.iter().copied());
        let results = self.region.outputs.iter().map(|(_, value)| *value);
        let fixed = operands.chain(results).filter(|value| self.is_fixed[value.node]);
        fixed.map(|value| self.behind_views(value)).collect()
    }

    fn behind_views(&self, mut value: Value) -> Value {
        while let NodeOp::View(_) = self.region.nodes[value.node].op {
            value = self.region.nodes[value.node].inputs[0];
        }
        value
    }

    /// Whether reading a value in each trip is better than computing it there.
    fn is_worth(&self, value: Value) -> bool {
        let reached = self.region.reached([value]);
        let (mut is_slow, mut bytes_read) = (false, 0);
        for (node, _) in self.region.nodes.iter().zip(reached).filter(|(_, reached)| *reached) {
            match node.op {
                NodeOp::Input(_) => bytes_read += node.outputs[0].ty.bytes(),
                NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::View(_) => {}
                NodeOp::Scalar(_) | NodeOp::Check(_) => {}
                _ => is_slow = true,
            }
        }
        let ty = self.region.ty(value);
        let is_computed = !matches!(
            self.region.nodes[value.node].op,
            NodeOp::Input(InputKind::Data) | NodeOp::Const(_) | NodeOp::Iota { .. }
        );
        is_computed && (is_slow || ty.numel() > 1 && ty.bytes() <= bytes_read)
    }

    /// The region with further inputs in place of these values, whose nodes nothing reads any more.
    fn given(&self, values: &[Value]) -> Graph {
        let mut new = Graph::new(self.region.name.clone());
        let mut map: HashMap<Value, Value> = HashMap::new();
        for &input in &self.inputs {
            map.insert(Value::of(input), Value::of(new.push(self.region.nodes[input].clone())));
        }
        for &value in values {
            let node = &self.region.nodes[value.node];
            let outputs = vec![node.outputs[value.port].clone()];
            let op = NodeOp::Input(InputKind::Data);
            map.insert(
                value,
                Value::of(new.push(Node {
                    op,
                    inputs: vec![],
                    outputs,
                    regions: vec![],
                    span: node.span,
                    no_fuse: None,
                })),
            );
        }
        for (id, node) in self.region.nodes.iter().enumerate().filter(|(id, _)| !self.inputs.contains(id)) {
            let inputs = node.inputs.iter().map(|input| map[input]).collect();
            let made = new.push(Node { inputs, ..node.clone() });
            for port in 0..node.outputs.len() {
                map.entry(Value { node: id, port }).or_insert(Value { node: made, port });
            }
        }
        new.outputs = self.region.outputs.iter().map(|(name, value)| (name.clone(), map[value])).collect();
        new
    }
}
