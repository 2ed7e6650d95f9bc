//! Hoisting: what each trip of a loop computes from given values alone is computed once, before the loop.
//!
//! Constants, coordinates and views stay, since each kernel computes them for itself. So do elementwise ops whose result is
//! larger than what they read, because a trip would read more than it saves.

use super::invariant::{Invariant, Work};
use crate::ir::{Graph, InputKind, Node, NodeId, NodeOp, Output, StateLink, Symbol, Value, free_name};
use std::collections::{HashMap, HashSet};

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
            hoist_from(&mut new, &mut node, &mut names);
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

/// Moves what is equal in all trips to the graph around, behind which the loop `node` will stand.
fn hoist_from(around: &mut Graph, node: &mut Node, names: &mut HashSet<Symbol>) {
    let NodeOp::Loop { n_given, .. } = &mut node.op else { crate::bug!("{:?} is no loop", node.op) };
    let region = node.regions[0].clone();
    let inputs: Vec<NodeId> = region.inputs().map(|(id, _)| id).collect();
    let given = &inputs[inputs.len() - *n_given..];
    let invariant = Invariant::of(&region, |input| given.contains(&input));
    let read = &invariant.read_by_others() | &invariant.results();
    let is_worth = |value: &Value| is_worth(&invariant.work(*value), region.ty(*value).numel());
    let values: Vec<Value> = read.into_iter().filter(is_worth).collect();
    if values.is_empty() {
        return;
    }
    let operands = &node.inputs[node.inputs.len() - *n_given..];
    let mut map: HashMap<NodeId, Value> = given.iter().copied().zip(operands.iter().copied()).collect();
    let all = region.reached(values.iter().copied());
    for (id, old) in region.nodes.iter().enumerate().filter(|(id, _)| all[*id]) {
        if map.contains_key(&id) {
            continue;
        }
        let inputs = old
            .inputs
            .iter()
            .map(|input| Value { port: map[&input.node].port + input.port, ..map[&input.node] });
        let named = |output: &Output| Output { name: free_name(names, &output.name), ty: output.ty.clone() };
        let inputs = inputs.collect();
        let outputs = old.outputs.iter().map(named).collect();
        map.insert(id, Value::of(around.push(Node { inputs, outputs, ..old.clone() })));
    }
    *n_given += values.len();
    node.inputs.extend(values.iter().map(|value| Value { port: value.port, ..map[&value.node] }));
    let named: Vec<(Value, Symbol)> =
        values.iter().map(|&value| (value, region.name_of(value).clone())).collect();
    node.regions = vec![invariant.given(&named, InputKind::Data)];
}

/// Whether reading a value in each trip is better than computing it there.
fn is_worth(work: &Work, numel: usize) -> bool {
    work.is_computed && (work.is_slow || work.has_gathers || numel > 1 && work.bytes <= work.bytes_read)
}
