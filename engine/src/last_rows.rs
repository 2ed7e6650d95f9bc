//! Last rows: where only the last row of a loop's stack is read, the carried value that was written there is read instead.
//! So the loop need not write a stack.

use crate::ir::{Builder, Combine, Graph, InputKind, Node, NodeId, NodeOp, StateLink, Value, View};
use crate::lower::expand;
use crate::op::{Lower, Registry};
use std::collections::HashMap;

/// The graph without reads of last rows by calls and views, and without stacks that nothing reads then.
pub(crate) fn last_rows(graph: &Graph, registry: &Registry) -> Graph {
    if !graph.nodes.iter().any(|node| matches!(node.op, NodeOp::Loop { .. })) {
        return graph.clone();
    }
    let mut builder = Builder::new(Graph::new(graph.name.clone()), registry);
    builder.reserve(graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
    let mut map: Vec<Vec<Value>> = vec![];
    // By copy of a stack: the stack.
    let mut stacks: HashMap<Value, Value> = HashMap::new();
    for node in &graph.nodes {
        let inputs: Vec<Value> = node.inputs.iter().map(|input| map[input.node][input.port]).collect();
        let read = inputs.first().map(|input| stacks.get(input).copied().unwrap_or(*input));
        if let (true, Some(read)) = (is_copy(node), read) {
            stacks.insert(Value::of(builder.graph.nodes.len()), read);
        }
        let row = read.filter(|_| inputs.len() == 1).and_then(|read| row_of(&mut builder, node, read));
        map.push(match row {
            Some(row) => vec![row],
            None => {
                let id = builder.graph.push(Node { inputs, ..node.clone() });
                (0..node.outputs.len()).map(|port| Value { node: id, port }).collect()
            }
        });
    }
    let moved = |value: &Value| map[value.node][value.port];
    let mut new = builder.graph;
    new.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
    let link = |link: &StateLink| StateLink { input: map[link.input][0].node, next: moved(&link.next) };
    new.state = graph.state.iter().map(link).collect();
    new.pruned()
}

/// The value of a node that reads the last row of a stack, appended without that read.
fn row_of(b: &mut Builder, node: &Node, stack: Value) -> Option<Value> {
    let (axis, carried) = written_last(&b.graph, stack)?;
    let mut trial = Builder::new(Graph::new("row"), b.registry());
    let x = trial.input("x", InputKind::Data, b.ty(stack).clone());
    let value = written_out(&mut trial, node, x)?;
    let read_by = readers(&trial.graph, 1, x);
    if value == x || read_by.is_empty() || !read_by.iter().all(|&id| is_last_row(&trial.graph, id, axis)) {
        return None;
    }
    let first = b.graph.nodes.len();
    b.set_scope(node.name(), node.span);
    b.set_no_fuse(node.no_fuse.clone());
    let value = written_out(b, node, stack)?;
    for id in readers(&b.graph, first, stack) {
        (b.graph.nodes[id].op, b.graph.nodes[id].inputs) = (NodeOp::View(View::Reshape), vec![carried]);
    }
    b.graph.nodes[value.node].outputs[value.port].name = node.name().clone();
    Some(value)
}

/// Whether a node copies its operand, as a result of a layer that has a name of its own.
fn is_copy(node: &Node) -> bool {
    matches!(&node.op, NodeOp::Map(body) if body.n_params == 1 && body.insts.len() == 1)
}

/// A call of one expansion, or a view, of another operand.
fn written_out(b: &mut Builder, node: &Node, operand: Value) -> Option<Value> {
    match &node.op {
        NodeOp::Call(call) if matches!(call.form().lower, Lower::Expand(_)) => {
            expand(b, call, &[operand]).first().copied()
        }
        NodeOp::View(_) => Some(Value::of(b.graph.push(Node { inputs: vec![operand], ..node.clone() }))),
        _ => None,
    }
}

/// The nodes from `first` on that read a value.
fn readers(graph: &Graph, first: NodeId, value: Value) -> Vec<NodeId> {
    (first..graph.nodes.len()).filter(|&id| graph.nodes[id].inputs.contains(&value)).collect()
}

/// The axis of a stack that a loop has written, and the result that is its last row.
fn written_last(graph: &Graph, stack: Value) -> Option<(usize, Value)> {
    let node = &graph.nodes[stack.node];
    let &NodeOp::Loop { until: false, reverse: false, trips: 1.., .. } = &node.op else { return None };
    let region = &node.regions[0];
    let inputs: Vec<usize> =
        region.inputs().filter(|(_, kind)| *kind != InputKind::Step).map(|(id, _)| id).collect();
    let (_, written) = region.outputs[stack.port];
    let scatter = &region.nodes[written.node];
    let &NodeOp::Scatter { axis, batch: 0, combine: Combine::Set } = &scatter.op else { return None };
    let [base, number, row] = [0, 1, 2].map(|operand| scatter.inputs[operand]);
    let is_stack = base == Value::of(inputs[stack.port]) && number == Value::of(inputs[node.outputs.len()]);
    let port = region.outputs.iter().position(|(_, value)| *value == row)?;
    is_stack.then_some((axis, Value { port, ..stack }))
}

/// Whether a node slices the last row of its operand, and all of it.
fn is_last_row(graph: &Graph, id: usize, axis: usize) -> bool {
    let node = &graph.nodes[id];
    let NodeOp::View(View::Slice { start, step }) = &node.op else { return false };
    let (whole, part) = (graph.ty(node.inputs[0]).extents(), node.outputs[0].ty.extents());
    (0..whole.len()).all(|at| match at == axis {
        true => part[at] == 1 && start[at] + 1 == whole[at],
        false => part[at] == whole[at] && step[at] == 1,
    })
}
