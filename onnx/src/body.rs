//! The body of a loop, as a function of the pipeline.

use std::collections::HashSet;

use engine_core::diag::Diagnostic;
use engine_core::ir::{Dim, Type};
use engine_core::text::expr::{Expr, ExprKind};

use crate::inline::{inlined, names, owner};
use crate::node::Node;
use crate::translate::Translation;
use crate::values::{Body, Defined, Mark};

/// The most calls of ops that a function of the engine stands for.
const MOST_CALLS: usize = 10_000;
/// The most functions within each other.
const DEEPEST: usize = 15;

/// Makes a function of the nodes since the mark. Tensors of the graph around that they read become its last operands, and
/// are returned.
///
/// # Errors
/// If it is too large.
pub(crate) fn close(
    of: &mut Translation,
    node: &Node,
    mark: &Mark,
    (name, mut inputs): (&str, Vec<(String, Type)>),
    outputs: Vec<(String, String)>,
) -> Result<Vec<String>, Diagnostic> {
    let results: HashSet<String> = outputs.iter().map(|(_, result)| result.clone()).collect();
    let nodes = inlined(of.values.cut(mark), &results);
    let own: HashSet<String> =
        nodes.iter().map(|node| &node.name).chain(inputs.iter().map(|(name, _)| name)).cloned().collect();
    let is_below = |name: &str| name.rmatch_indices('.').any(|(dot, _)| own.contains(&name[..dot]));
    let mut read: Vec<String> = vec![];
    let mut note = |name: &str| {
        let is_around = !own.contains(owner(name, &own));
        if is_around && !read.iter().any(|known| known == name) {
            read.push(name.to_owned());
        }
    };
    nodes.iter().for_each(|node| names(&node.expr, &mut note));
    outputs.iter().for_each(|(_, result)| note(result));
    for name in &read {
        if is_below(name) {
            return Err(
                node.fault(&format!("has a body that reads `{name}` beside a value of the same beginning"))
            );
        }
        let ty = of.values.tensor_type(name).ok_or_else(|| node.fault("has a body that reads no tensor"))?;
        inputs.push((name.clone(), ty.clone()));
    }
    let (n_calls, depth) = size(&nodes, &of.values.bodies);
    if n_calls > MOST_CALLS || depth > DEEPEST {
        return Err(node.fault("has a body that is too large for a function"));
    }
    settle_extents(of, &inputs, &nodes);
    of.values.bodies.push(Body { name: name.to_owned(), inputs, nodes, outputs, n_calls, depth });
    Ok(read)
}

/// The calls of ops that nodes stand for, and how deep functions call each other.
fn size(nodes: &[Defined], bodies: &[Body]) -> (usize, usize) {
    let (mut n_calls, mut depth) = (1, 1);
    let mut count = |expr: &Expr| match &expr.kind {
        ExprKind::Call { callee, .. } => {
            let body = bodies.iter().find(|body| body.name == callee.value);
            n_calls += body.map_or(1, |body| body.n_calls);
            depth = depth.max(body.map_or(1, |body| body.depth + 1));
        }
        ExprKind::Binary { .. } | ExprKind::Unary(..) => n_calls += 1,
        _ => {}
    };
    nodes.iter().for_each(|node| walk(&node.expr, &mut count));
    (n_calls, depth)
}

/// Extents that the nodes name and no operand shows must have values in the pipeline.
fn settle_extents(of: &mut Translation, inputs: &[(String, Type)], nodes: &[Defined]) {
    let shown: HashSet<&str> =
        inputs.iter().flat_map(|(_, ty)| &ty.shape).filter_map(Dim::name).map(|name| &**name).collect();
    let mut named = vec![];
    let mut note = |expr: &Expr| {
        if let ExprKind::Name(name) = &expr.kind
            && !shown.contains(name.as_str())
        {
            named.push(name.clone());
        }
    };
    nodes.iter().for_each(|node| walk(&node.expr, &mut note));
    of.settle(named);
}

/// Visits an expression and its parts, settings included.
pub(crate) fn walk(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(expr);
    match &expr.kind {
        ExprKind::Call { args, named, .. } => {
            args.iter().chain(named.iter().map(|(_, value)| value)).for_each(|part| walk(part, visit));
        }
        ExprKind::List(parts) => parts.iter().for_each(|part| walk(part, visit)),
        ExprKind::Unary(_, part) | ExprKind::Port { base: part, .. } => walk(part, visit),
        ExprKind::Binary { left, right, .. } => [left, right].into_iter().for_each(|part| walk(part, visit)),
        _ => {}
    }
}
