//! The casts of a stage and their reasons, as `engine explain GRAPH --stage precision` prints them.

use super::rule::rule_of;
use crate::ir::{DType, Graph, Node, NodeId, NodeOp, Scalar, Value, written_path};
use crate::op::Rounding;

/// One line for each cast of mixed precision in a stage's graph and each node that it serves: the cast value, both types,
/// the node, and the rule. Gradients and updates are left out, since they follow.
pub fn casts(graph: &Graph) -> String {
    let mut lines = vec![];
    add_casts(graph, &mut lines);
    match lines.is_empty() {
        true => "no casts: all nodes are computed in the types that they declare\n".to_owned(),
        false => lines.concat(),
    }
}

/// The lines of a graph and of the loops in it.
fn add_casts(graph: &Graph, lines: &mut Vec<String>) {
    let users = graph.users();
    for (id, from, to) in inserted(graph) {
        let value = graph.name_of(graph.nodes[id].inputs[0]);
        let mut tell = |user: &str, rule: &str| {
            let line = format!("{value}: {from} -> {to} for {user}: {rule}\n");
            if !lines.contains(&line) {
                lines.push(line);
            }
        };
        for &user in users[id].iter().filter(|user| !is_backward(&graph.nodes[**user])) {
            tell(written_path(graph.nodes[user].name()), rule_text(graph, &graph.nodes[user], to));
        }
        for (name, _) in graph.outputs.iter().filter(|(_, value)| *value == Value::of(id)) {
            tell(name, "outputs keep their type");
        }
        for link in graph.state.iter().filter(|link| link.next == Value::of(id)) {
            tell(graph.nodes[link.input].name(), "states keep their type");
        }
    }
    let forward = graph.nodes.iter().filter(|node| !is_backward(node));
    forward.flat_map(|node| &node.regions).for_each(|region| add_casts(region, lines));
}

/// The inserted casts, with both types. Their names tell them from those of a pipeline, which are calls.
fn inserted(graph: &Graph) -> impl Iterator<Item = (NodeId, DType, DType)> {
    graph.nodes.iter().enumerate().filter_map(|(id, node)| match node.op {
        NodeOp::Scalar(Scalar::Cast(to)) => {
            let value = node.inputs[0];
            let is_named = node.name().starts_with(&format!("{}.{to}", graph.name_of(value)));
            is_named.then(|| (id, graph.ty(value).dtype, to))
        }
        _ => None,
    })
}

fn is_backward(node: &Node) -> bool {
    node.name().starts_with("d.")
}

fn rule_text(graph: &Graph, user: &Node, to: DType) -> &'static str {
    let is_narrow =
        |value: &&Value| graph.ty(**value).dtype.is_float() && graph.ty(**value).dtype != DType::F32;
    match (rule_of(user), to) {
        (Rounding::Operands, DType::F32) => "`precision: F32`",
        (Rounding::Operands, _) => "operands of a matmul are rounded, its sums are f32",
        (Rounding::Follows, DType::F32) => "it has another operand of f32",
        (Rounding::Follows, _) if user.inputs.iter().filter(is_narrow).count() > 1 => {
            "a parameter or constant beside an operand of the half type"
        }
        _ => "reductions, norms, losses and undeclared ops are f32",
    }
}
