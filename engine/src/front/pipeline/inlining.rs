//! Calls of functions, written out: the graph of a pipeline holds ops alone.
//!
//! A node `a` of a function that node `y` calls becomes the node `y.a`. A call within an expression has a derived name,
//! so that its nodes are `y.1.a`. The path of names fixes the random stream of a node, and inspection finds it there.

use crate::diag::{Code, Diagnostics, Span};
use crate::ir::{Body, Builder, Graph, Node, NodeOp, Symbol, Value};
use crate::lower::expand;
use crate::op::{Registry, Role};
use std::collections::HashMap;
use std::sync::Arc;

/// A graph without calls of functions.
pub(super) struct Inlined {
    pub(super) graph: Graph,
    /// By node and port of the original: where that value is now.
    pub(super) map: Vec<Vec<Value>>,
}

/// Writes out all calls of functions; `places` are the names that the file declares, none of which a path may take.
pub(super) fn inline(
    graph: Graph,
    registry: &Registry,
    places: &HashMap<Symbol, Span>,
    diags: &mut Diagnostics,
) -> Inlined {
    if !graph.nodes.iter().any(is_function_call) {
        let ports =
            |(node, n): (usize, &Node)| (0..n.outputs.len()).map(|port| Value { node, port }).collect();
        let map = graph.nodes.iter().enumerate().map(ports).collect();
        return Inlined { graph, map };
    }
    let mut builder = Builder::new(Graph::new(graph.name.clone()), registry);
    builder.reserve(graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
    // The step is made first, so no function has it among its nodes.
    let step = builder.step();
    let mut map: Vec<Vec<Value>> = vec![];
    for node in graph.nodes {
        let inputs = node.inputs.iter().map(|input| map[input.node][input.port]).collect();
        map.push(match node.op {
            NodeOp::Input(crate::ir::InputKind::Step) => vec![step],
            _ => write(&mut builder, Node { inputs, ..node }),
        });
    }
    builder.set_no_fuse(None);
    report_taken(&builder.graph, places, diags);
    Inlined { graph: builder.graph, map }
}

fn is_function_call(node: &Node) -> bool {
    matches!(&node.op, NodeOp::Call(call) if call.form().role == Role::Function)
}

/// Appends a node, or the nodes of the function that it calls, and returns the results.
fn write(builder: &mut Builder, node: Node) -> Vec<Value> {
    let NodeOp::Call(call) = &node.op else { return push(builder, node) };
    if call.form().role != Role::Function {
        return push(builder, node);
    }
    builder.set_scope(node.name(), node.span);
    builder.set_no_fuse(node.no_fuse.clone());
    let first = builder.graph.nodes.len();
    let results = expand(builder, call, &node.inputs);
    let written = builder.graph.nodes.split_off(first);
    let mut map: HashMap<Value, Value> = HashMap::new();
    let moved = |map: &HashMap<Value, Value>, value: Value| map.get(&value).copied().unwrap_or(value);
    for (offset, inner) in written.into_iter().enumerate() {
        let inputs = inner.inputs.iter().map(|&input| moved(&map, input)).collect();
        let values = write(builder, Node { inputs, ..inner });
        let ports = values.into_iter().enumerate();
        map.extend(ports.map(|(port, value)| (Value { node: first + offset, port }, value)));
    }
    builder.set_scope(node.name(), node.span);
    builder.set_no_fuse(node.no_fuse.clone());
    let results = results.into_iter().map(|value| moved(&map, value)).zip(&node.outputs);
    results.map(|(value, output)| named(builder, value, &output.name, first)).collect()
}

fn push(builder: &mut Builder, node: Node) -> Vec<Value> {
    let n_outputs = node.outputs.len();
    let id = builder.graph.push(node);
    (0..n_outputs).map(|port| Value { node: id, port }).collect()
}

/// Gives a result of a function the name of the call. A value with a name of its own, such as an operand or a node of
/// the function, keeps that name. Its copy gets the new one.
fn named(builder: &mut Builder, value: Value, name: &Symbol, first: usize) -> Value {
    let output = &mut builder.graph.nodes[value.node].outputs[value.port];
    if output.name == *name {
        return value;
    }
    let is_derived = output.name.rsplit('.').next().is_some_and(|last| last.parse::<usize>().is_ok());
    if is_derived && value.node >= first {
        output.name = name.clone();
        return value;
    }
    let (identity, ty) = (Arc::new(Body::new(1, |x| vec![x[0]])), output.ty.clone());
    builder.push_named(name.clone(), NodeOp::Map(identity), vec![value], ty)
}

/// Reports declared names that are also paths into functions.
fn report_taken(graph: &Graph, places: &HashMap<Symbol, Span>, diags: &mut Diagnostics) {
    let mut first: HashMap<&Symbol, Option<Span>> = HashMap::new();
    for node in &graph.nodes {
        for output in &node.outputs {
            let Some(other) = first.insert(&output.name, node.span) else { continue };
            let Some(&place) = places.get(&output.name) else {
                crate::bug!("two nodes are called `{}`", output.name)
            };
            let inside = [other, node.span].into_iter().flatten().find(|span| *span != place);
            let error = diags.error(Code::E0302, place, format!("`{}` is defined twice", output.name));
            if let Some(inside) = inside {
                error.also(inside, "a call of this function defines it, too");
            }
            error.help("give one of them another name");
        }
    }
}
