//! Nodes that only one other node reads move into its expression, as long as lines stay short.

use std::collections::{HashMap, HashSet};

use engine_core::text::expr::{Expr, ExprKind};

use crate::values::Defined;

/// The longest expression, in characters, into which another one moves.
const LONGEST: usize = 88;
/// The most characters of a name that count.
const LONGEST_NAME: usize = 8;

/// The nodes, in their order. Nodes called `kept` stay, as do unused ones that are kept.
pub(crate) fn inlined(nodes: Vec<Defined>, kept: &HashSet<String>) -> Vec<Defined> {
    let nodes = needed(nodes, kept);
    let mut uses: HashMap<String, usize> = HashMap::new();
    nodes.iter().for_each(|node| {
        names(&node.expr, &mut |name| *uses.entry(owner(name).to_owned()).or_default() += 1)
    });
    let mut pending: HashMap<String, Expr> = HashMap::new();
    let mut done = vec![];
    for node in nodes {
        let mut read = vec![];
        names(&node.expr, &mut |name| read.push(name.to_owned()));
        let mut expr = node.expr;
        for name in read {
            let Some(inner) = pending.remove(&name) else { continue };
            let joined = replaced(&expr, &name, &inner);
            match length(&joined) <= LONGEST {
                true => expr = joined,
                false => done.push(Defined { name, expr: inner }),
            }
        }
        let is_single = uses.get(&node.name) == Some(&1) && !kept.contains(&node.name);
        match is_single {
            true => drop(pending.insert(node.name, expr)),
            false => done.push(Defined { name: node.name, expr }),
        }
    }
    // Results of a node by dotted names are not replaced, so their owner is still pending.
    done.extend(pending.into_iter().map(|(name, expr)| Defined { name, expr }));
    done
}

/// The characters of an expression, if names were short.
fn length(expr: &Expr) -> usize {
    let mut spared = 0;
    names(expr, &mut |name| spared += name.len().saturating_sub(LONGEST_NAME));
    expr.to_string().len() - spared
}

/// The nodes that the kept ones depend on.
fn needed(nodes: Vec<Defined>, kept: &HashSet<String>) -> Vec<Defined> {
    let mut used = kept.clone();
    let mut found = vec![];
    for node in nodes.into_iter().rev() {
        if used.contains(&node.name) {
            names(&node.expr, &mut |name| _ = used.insert(name.to_owned()));
            names(&node.expr, &mut |name| _ = used.insert(owner(name).to_owned()));
            found.push(node);
        }
    }
    found.reverse();
    found
}

/// The node that has a result `indices`: `t` of `t.indices`.
fn owner(name: &str) -> &str {
    ["indices", "values", "mean", "rstd"]
        .iter()
        .find_map(|result| name.strip_suffix(result)?.strip_suffix('.'))
        .unwrap_or(name)
}

/// The names that an expression reads as operands, each once for each place.
pub(crate) fn names(expr: &Expr, visit: &mut dyn FnMut(&str)) {
    match &expr.kind {
        ExprKind::Name(name) => visit(name),
        ExprKind::Call { args, .. } => args.iter().for_each(|arg| names(arg, visit)),
        ExprKind::Unary(_, operand) | ExprKind::Port { base: operand, .. } => names(operand, visit),
        ExprKind::Binary { left, right, .. } => [left, right].into_iter().for_each(|part| names(part, visit)),
        _ => {}
    }
}

/// The expression with a name replaced.
fn replaced(expr: &Expr, name: &str, by: &Expr) -> Expr {
    let inner = |part: &Expr| replaced(part, name, by);
    let kind = match &expr.kind {
        ExprKind::Name(found) if found == name => return by.clone(),
        ExprKind::Call { callee, args, named } => ExprKind::Call {
            callee: callee.clone(),
            args: args.iter().map(inner).collect(),
            named: named.clone(),
        },
        ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(inner(operand))),
        ExprKind::Binary { op, left, right } => {
            ExprKind::Binary { op: *op, left: Box::new(inner(left)), right: Box::new(inner(right)) }
        }
        _ => return expr.clone(),
    };
    Expr::new(expr.span, kind)
}
