//! Nodes that only one other node reads move into its expression, as long as lines stay short.

use std::collections::{HashMap, HashSet};

use engine_core::text::expr::{Expr, ExprKind};

use crate::values::Defined;

/// The longest expression, in characters, into which another one moves.
const LONGEST: usize = 88;
/// The most operands of an expression into which another one moves.
const MOST_READ: usize = 32;
/// The most characters of a name that count.
const LONGEST_NAME: usize = 8;

/// The nodes, in their order, without those that no kept one depends on. Nodes called `kept` stay.
pub(crate) fn inlined(nodes: Vec<Defined>, kept: &HashSet<String>) -> Vec<Defined> {
    let defined: HashSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let nodes = needed(nodes, kept, &defined);
    let movable = read_once(&nodes, kept, &defined);
    let mut pending: HashMap<String, Expr> = HashMap::new();
    let mut done = vec![];
    for node in nodes {
        let mut read = vec![];
        names(&node.expr, &mut |name| read.push(name.to_owned()));
        let (mut expr, n_read) = (node.expr, read.len());
        for name in read {
            let Some(inner) = pending.remove(&name) else { continue };
            let joined = (n_read <= MOST_READ).then(|| replaced(&expr, &name, &inner));
            match joined.filter(|joined| length(joined) <= LONGEST) {
                Some(joined) => expr = joined,
                None => done.push(Defined { name, expr: inner }),
            }
        }
        match movable.contains(&node.name) {
            true => _ = pending.insert(node.name, expr),
            false => done.push(Defined { name: node.name, expr }),
        }
    }
    done
}

/// The nodes that one expression reads once, by their own name.
fn read_once(nodes: &[Defined], kept: &HashSet<String>, defined: &HashSet<String>) -> HashSet<String> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let mut read: Vec<String> = vec![];
    nodes.iter().for_each(|node| names(&node.expr, &mut |name| read.push(name.to_owned())));
    for name in &read {
        // A further result, such as `t.indices`, needs the name of its node.
        *uses.entry(owner(name, defined)).or_default() += if defined.contains(name) { 1 } else { 2 };
    }
    let is_movable = |node: &&Defined| uses.get(&*node.name) == Some(&1) && !kept.contains(&node.name);
    nodes.iter().filter(is_movable).map(|node| node.name.clone()).collect()
}

/// The characters of an expression, if names were short.
fn length(expr: &Expr) -> usize {
    let mut spared = 0;
    names(expr, &mut |name| spared += name.len().saturating_sub(LONGEST_NAME));
    expr.to_string().len() - spared
}

/// The nodes that the kept ones depend on.
fn needed(nodes: Vec<Defined>, kept: &HashSet<String>, defined: &HashSet<String>) -> Vec<Defined> {
    let mut used = kept.clone();
    let mut found = vec![];
    for node in nodes.into_iter().rev() {
        if used.contains(&node.name) {
            names(&node.expr, &mut |name| _ = used.insert(owner(name, defined).to_owned()));
            found.push(node);
        }
    }
    found.reverse();
    found
}

/// The node that a name stands for, or that has a result of that name: `t` of `t.indices`.
pub(crate) fn owner<'n>(name: &'n str, defined: &HashSet<String>) -> &'n str {
    match name.rsplit_once('.') {
        Some((owner, _)) if !defined.contains(name) && defined.contains(owner) => owner,
        _ => name,
    }
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

/// The operand of a reshape, whose shape does not matter under another one.
fn unshaped(expr: Expr) -> Expr {
    match &expr.kind {
        ExprKind::Call { callee, args, .. } if callee.value == "reshape" && args.len() == 1 => {
            args[0].clone()
        }
        _ => expr,
    }
}

/// The expression with a name replaced.
fn replaced(expr: &Expr, name: &str, by: &Expr) -> Expr {
    let inner = |part: &Expr| replaced(part, name, by);
    let kind = match &expr.kind {
        ExprKind::Name(found) if found == name => return by.clone(),
        ExprKind::Call { callee, args, named } => {
            let args: Vec<Expr> = args.iter().map(inner).collect();
            let args =
                if callee.value == "reshape" { args.into_iter().map(unshaped).collect() } else { args };
            ExprKind::Call { callee: callee.clone(), args, named: named.clone() }
        }
        ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(inner(operand))),
        ExprKind::Binary { op, left, right } => {
            ExprKind::Binary { op: *op, left: Box::new(inner(left)), right: Box::new(inner(right)) }
        }
        _ => return expr.clone(),
    };
    Expr::new(expr.span, kind)
}
