//! Reading lists of nodes, and putting them in an order in which operands come first.

use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::front::{Fields, Ron, RonKind};
use crate::text::expr::{Expr, ExprKind, TypeExpr, parse_expr, parse_type};
use crate::text::lex::{is_name_char, is_name_start};
use crate::work::steps;
use std::collections::HashMap;

/// The name and the value of a setting.
pub(super) type Setting = (Spanned<String>, Expr);

/// A node as written.
#[derive(Clone, Debug)]
pub(super) struct NodeDef {
    /// Its name.
    pub(super) name: Spanned<String>,
    /// Its expression; nothing if it could not be read.
    pub(super) expr: Option<Expr>,
    /// Its declared type.
    pub(super) ty: Option<TypeExpr>,
    /// Whether it is kept in kernels of its own.
    pub(super) no_fuse: bool,
    /// Whether it is computed in `f32` in each precision.
    pub(super) full_precision: bool,
}

/// Nodes as a map from names to expressions, as a list of nodes in full, or as a list of both.
pub(super) fn read_nodes(value: &Ron, diags: &mut Diagnostics) -> Vec<NodeDef> {
    match &value.kind {
        RonKind::Map(_) | RonKind::Struct { .. } => expressions(value, diags),
        RonKind::Tuple { items, .. } if items.is_empty() => vec![],
        _ => {
            let items = value.items("`nodes`", diags).unwrap_or(&[]);
            items.iter().flat_map(|item| read_item(item, diags)).collect()
        }
    }
}

fn read_item(item: &Ron, diags: &mut Diagnostics) -> Vec<NodeDef> {
    match &item.kind {
        RonKind::Map(_) => expressions(item, diags),
        _ => full_node(item, diags).into_iter().collect(),
    }
}

/// `{"h": "relu(x)"}` or `(h: "relu(x)")`.
fn expressions(value: &Ron, diags: &mut Diagnostics) -> Vec<NodeDef> {
    let mut pairs = vec![];
    match &value.kind {
        RonKind::Map(entries) => {
            for (key, value) in entries {
                let name = key.word("the name of a node", diags);
                pairs.extend(name.map(|name| (Spanned::new(name.span, name.value.to_owned()), value)));
            }
        }
        RonKind::Struct { fields, .. } => {
            pairs.extend(fields.iter().map(|(name, value)| (name.clone(), value)))
        }
        _ => (),
    }
    let define = |(name, value): (Spanned<String>, &Ron)| {
        let named = check_name(&name, diags);
        let expr = read_expr(value, diags);
        named.map(|()| NodeDef { name, expr, ty: None, no_fuse: false, full_precision: false })
    };
    pairs.into_iter().filter_map(define).collect()
}

/// `(name: "h", op: "relu", inputs: ["x"], attrs: {"axis": 1}, type: "f32[B, 4]", fuse: Never, precision: F32)`; `expr`
/// may stand for op, inputs and attrs.
fn full_node(value: &Ron, diags: &mut Diagnostics) -> Option<NodeDef> {
    let mut fields = Fields::of(value, "a node", diags)?;
    let name = fields.required("name").and_then(|v| v.word("the name of a node", diags));
    let ty = fields.optional("type").and_then(|v| parse_type(v.string("a type", diags)?, diags));
    let choices = [("Auto", false), ("Never", true)];
    let no_fuse = fields.optional("fuse").map_or(Some(false), |v| v.choice("`fuse`", &choices, diags));
    let choices = [("Auto", false), ("F32", true)];
    let full_precision =
        fields.optional("precision").map_or(Some(false), |v| v.choice("`precision`", &choices, diags));
    let expr = match fields.optional("expr") {
        Some(expr) => read_expr(expr, diags),
        None => full_call(&mut fields, diags),
    };
    fields.finish(diags);
    let name = name.map(|name| Spanned::new(name.span, name.value.to_owned()))?;
    check_name(&name, diags)?;
    Some(NodeDef { name, expr, ty, no_fuse: no_fuse?, full_precision: full_precision? })
}

/// Op, inputs and attributes of a node in full, as the call that they stand for.
fn full_call(fields: &mut Fields, diags: &mut Diagnostics) -> Option<Expr> {
    let op = fields.required("op").and_then(|v| v.word("`op`", diags));
    let inputs = fields.optional("inputs").map_or(Some(&[][..]), |v| v.items("`inputs`", diags));
    let args: Option<Vec<_>> = inputs.map(|inputs| inputs.iter().map(|v| read_expr(v, diags)).collect())?;
    let attrs = fields.optional("attrs").map_or(Some(vec![]), |v| crate::front::entries(v, "`attrs`", diags));
    let named = settings(attrs?, diags);
    let callee = op.map(|op| Spanned::new(op.span, op.value.to_owned()))?;
    let span = fields.span;
    Some(Expr::new(span, ExprKind::Call { callee, args: args?, named: named? }))
}

/// Settings in RON, as the expressions that they stand for.
pub(super) fn settings(written: Vec<(Spanned<&str>, &Ron)>, diags: &mut Diagnostics) -> Option<Vec<Setting>> {
    let read = |(name, value): (Spanned<&str>, &Ron)| {
        setting(value, diags).map(|value| (Spanned::new(name.span, name.value.to_owned()), value))
    };
    written.into_iter().map(read).collect()
}

/// A setting in RON, as the expression that it stands for.
fn setting(value: &Ron, diags: &mut Diagnostics) -> Option<Expr> {
    let kind = match &value.kind {
        RonKind::Bool(b) => ExprKind::Bool(*b),
        RonKind::Int(n) => ExprKind::Int(i64::try_from(*n).ok().or_else(|| too_large(value.span, diags))?),
        RonKind::Float(x) => ExprKind::Float(*x),
        RonKind::Str(text) => ExprKind::Str(text.value.clone()),
        RonKind::Name(name) => ExprKind::Name(name.clone()),
        RonKind::Option(None) => ExprKind::Name("none".to_owned()),
        RonKind::Option(Some(inner)) => return setting(inner, diags),
        _ => {
            let items = value.items("a setting", diags)?;
            ExprKind::List(items.iter().map(|item| setting(item, diags)).collect::<Option<_>>()?)
        }
    };
    Some(Expr::new(value.span, kind))
}

fn too_large<T>(span: Span, diags: &mut Diagnostics) -> Option<T> {
    diags.error(Code::E0015, span, "this number does not fit 64 bits");
    None
}

/// An expression in a string; a number or truth value may stand without quotes.
pub(super) fn read_expr(value: &Ron, diags: &mut Diagnostics) -> Option<Expr> {
    match &value.kind {
        RonKind::Bool(_) | RonKind::Int(_) | RonKind::Float(_) | RonKind::Name(_) => setting(value, diags),
        _ => parse_expr(value.string("an expression", diags)?, diags),
    }
}

/// Reports a name that could not be told from other things in an expression.
pub(super) fn check_name(name: &Spanned<String>, diags: &mut Diagnostics) -> Option<()> {
    let reserved = ["step", "true", "false", "inf", "nan", "none"].contains(&name.as_str());
    let well_formed =
        name.split('.').all(|part| part.starts_with(is_name_start) && part.chars().all(is_name_char));
    if well_formed && !reserved {
        return Some(());
    }
    let help = if reserved {
        "it has a meaning of its own"
    } else {
        "names are letters, digits and `_`, a letter first; dots may join several"
    };
    let shown = crate::text::lex::shorten(name);
    diags.error(Code::E0016, name.span, format!("`{shown}` cannot be a name")).help(help);
    None
}

/// The longest known beginning of a dotted path, and the rest: `w` and `m` of `w.m`. The rest of a known path is empty.
pub(super) fn split_owner(path: &str, is_known: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    if is_known(path) {
        return Some((path, ""));
    }
    let dots = path.rmatch_indices('.');
    let mut splits = dots.map(|(dot, _)| (&path[..dot], &path[dot + 1..]));
    splits.find(|(owner, _)| is_known(owner))
}

/// A function with settings, as a layer declares it: `Linear(width=64)`.
pub(super) fn call_of(value: &Ron, diags: &mut Diagnostics) -> Option<(Spanned<String>, Vec<Setting>)> {
    let expr = read_expr(value, diags)?;
    match expr.kind {
        ExprKind::Name(name) => Some((Spanned::new(expr.span, name), vec![])),
        ExprKind::Call { callee, args, named } if args.is_empty() => Some((callee, named)),
        _ => {
            diags
                .error(Code::E0404, expr.span, "a layer is a function with settings")
                .help("write `Linear(width=64)`; operands follow where the layer is called");
            None
        }
    }
}

/// Names that an expression refers to.
pub(super) fn references(expr: &Expr) -> Vec<Spanned<&str>> {
    let mut names = vec![];
    walk(expr, &mut |part| {
        if let ExprKind::Name(path) = &part.kind {
            names.push(Spanned::new(part.span, path.as_str()));
        }
    });
    names
}

/// Visits an expression and all its parts, settings left out.
pub(super) fn walk<'e>(expr: &'e Expr, visit: &mut impl FnMut(&'e Expr)) {
    steps(1);
    visit(expr);
    match &expr.kind {
        ExprKind::List(parts) | ExprKind::Call { args: parts, .. } => {
            parts.iter().for_each(|part| walk(part, visit))
        }
        ExprKind::Unary(_, part) | ExprKind::Port { base: part, .. } => walk(part, visit),
        ExprKind::Binary { left, right, .. } => [left, right].into_iter().for_each(|part| walk(part, visit)),
        ExprKind::Name(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Str(_) => {}
    }
}

/// An order in which every node comes after those it refers to, otherwise that of the file. A node that reads a
/// parameter of a layer comes after the first call of that layer. Circles are reported.
pub(super) fn sort(defs: &[NodeDef], layers: &[&str], diags: &mut Diagnostics) -> Vec<usize> {
    let index: HashMap<&str, usize> =
        defs.iter().enumerate().map(|(i, def)| (def.name.as_str(), i)).collect();
    let callers = first_callers(defs, layers);
    let operands = |(i, def): (usize, &NodeDef)| -> Vec<usize> {
        let owner_of = |name: Spanned<&str>| {
            let is_known = |path: &str| index.contains_key(path) || callers.contains_key(path);
            let (owner, _) = split_owner(name.value, is_known)?;
            index.get(owner).copied().or_else(|| callers[owner].filter(|&caller| caller != i))
        };
        let names = def.expr.iter().flat_map(references).collect::<Vec<_>>();
        names.into_iter().filter_map(owner_of).collect()
    };
    let before = defs.iter().enumerate().map(operands).collect::<Vec<_>>();
    depth_first(&before, |circle| report_circle(circle, defs, diags))
}

/// The first node that calls each layer.
fn first_callers<'d>(defs: &[NodeDef], layers: &[&'d str]) -> HashMap<&'d str, Option<usize>> {
    let mut callers: HashMap<&str, Option<usize>> = layers.iter().map(|&layer| (layer, None)).collect();
    for (i, expr) in defs.iter().enumerate().filter_map(|(i, def)| Some((i, def.expr.as_ref()?))) {
        walk(expr, &mut |part| {
            if let ExprKind::Call { callee, .. } = &part.kind
                && let Some(caller) = callers.get_mut(callee.as_str())
            {
                caller.get_or_insert(i);
            }
        });
    }
    callers
}

/// Indices such that `before[i]` come before i. Every circle without a member of an earlier one is reported.
pub(super) fn depth_first(before: &[Vec<usize>], mut tell: impl FnMut(&[usize])) -> Vec<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut state = vec![State::New; before.len()];
    let mut in_circle = vec![false; before.len()];
    let mut order = Vec::with_capacity(before.len());
    for root in 0..before.len() {
        let mut path: Vec<(usize, usize)> = vec![];
        if state[root] == State::New {
            state[root] = State::Open;
            path.push((root, 0));
        }
        while let Some((i, next)) = path.last_mut() {
            steps(1);
            let i = *i;
            let Some(&operand) = before[i].get(*next) else {
                state[i] = State::Done;
                order.push(i);
                path.pop();
                continue;
            };
            *next += 1;
            if state[operand] == State::New {
                state[operand] = State::Open;
                path.push((operand, 0));
            } else if state[operand] == State::Open && !in_circle[operand] && !in_circle[i] {
                let start = path.iter().rposition(|(open, _)| *open == operand).unwrap_or(0);
                steps(path.len() - start);
                let circle: Vec<usize> = path[start..].iter().map(|(member, _)| *member).collect();
                circle.iter().for_each(|&member| in_circle[member] = true);
                tell(&circle);
            }
        }
    }
    order
}

fn report_circle(circle: &[usize], defs: &[NodeDef], diags: &mut Diagnostics) {
    const SHOWN: usize = 8;
    let name = |i: &usize| defs[*i].name.as_str();
    let mut path: Vec<&str> = circle.iter().take(SHOWN).map(name).collect();
    path.extend((circle.len() > SHOWN).then_some("…"));
    path.extend(circle.first().map(name));
    let message = format!("nodes depend on each other in a circle: {}", path.join(" ← "));
    let error = diags.error(Code::E0301, defs[circle[0]].name.span, message);
    for (at, &member) in circle.iter().take(SHOWN).enumerate() {
        let operand = name(&circle[(at + 1) % circle.len()]);
        let uses = defs[member].expr.iter().flat_map(references).find(|used| {
            used.value.strip_prefix(operand).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if let Some(used) = uses {
            error.also(used.span, format!("`{}` needs `{operand}`", defs[member].name.value));
        }
    }
    error.help("what one step hands to the next is state: declare it as a parameter with `state: true`");
}

/// Reports a name that is defined again.
pub(super) fn report_twice(name: &Spanned<String>, first: Span, diags: &mut Diagnostics) {
    diags
        .error(Code::E0302, name.span, format!("`{}` is defined twice", name.value))
        .also(first, "first here")
        .help("give one of them another name");
}
