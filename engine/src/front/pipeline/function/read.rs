//! Reading functions.

use super::super::dims::{Dims, named_dim};
use super::super::nodes::{NodeDef, check_name, read_expr, read_nodes, report_twice, sort};
use super::{Function, FunctionForm, FunctionNode, Input, ParamDef, names_of, read_layers, read_param_defs};
use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::front::{Fields, Ron, RonKind, entries};
use crate::ir::{Attr, DType, Dim, Literal};
use crate::op::{AttrKind, AttrSpec, Registry};
use crate::text::expr::{Expr, TypePattern, parse_pattern};
use std::collections::HashMap;

impl Function {
    pub(crate) fn read(
        name: Spanned<&str>,
        value: &Ron,
        dims: &Dims,
        registry: &Registry,
        diags: &mut Diagnostics,
    ) -> Option<Function> {
        let name = Spanned::new(name.span, name.value.to_owned());
        check_name(&name, diags)?;
        let known = registry.form::<FunctionForm>(&name).map(|known| known.function.name.span.file);
        let replaces_layer = known.is_some_and(|file| file.is_library() && file != name.span.file);
        if registry.op(&name).is_some() || (known.is_some() && !replaces_layer) {
            diags
                .error(Code::E0302, name.span, format!("there is an op `{}` already", name.value))
                .help("choose another name");
            return None;
        }
        let n_errors = diags.n_errors();
        let mut fields = Fields::of(value, "a function", diags)?;
        let inputs = fields.required("inputs").map_or(vec![], |v| read_inputs(v, diags));
        let settings = fields.optional("attrs").map_or(vec![], |v| read_settings(v, dims, diags));
        let extents = fields.optional("dims").map_or(vec![], |v| read_named_exprs(v, "`dims`", diags));
        let params = fields.optional("params").map_or(vec![], |v| read_params(v, diags));
        let layers = fields.optional("layers").map_or(vec![], |v| read_layers(v, diags));
        let nodes = fields.optional("nodes").map_or(vec![], |v| read_nodes(v, diags));
        let updates = fields.optional("state").map_or(vec![], |v| read_named_exprs(v, "`state`", diags));
        let summary = fields.optional("summary").and_then(|v| v.string("`summary`", diags));
        let summary =
            summary.map_or_else(|| format!("The function `{}`.", name.value), |text| text.to_string());
        let outputs = read_outputs(&mut fields, diags);
        fields.finish(diags);
        let order = sort(&nodes, &names_of(&layers), diags);
        let places: Vec<(String, Span)> = inputs
            .iter()
            .map(|(name, ..)| name)
            .chain(extents.iter().map(|(name, _)| name))
            .chain(params.iter().map(|param| &param.name))
            .chain(layers.iter().map(|layer| &layer.name))
            .chain(nodes.iter().map(|node| &node.name))
            .map(|name| (name.value.clone(), name.span))
            .collect();
        report_names(&places, diags);
        let (inputs, nodes) = (inputs.into_iter().map(Input::from).collect(), in_order(nodes, &order));
        let dims = dims.clone();
        let function = Function {
            name,
            summary,
            inputs,
            settings,
            extents,
            params,
            layers,
            nodes,
            updates,
            outputs,
            dims,
        };
        (diags.n_errors() == n_errors).then_some(function)
    }
}

/// Reports names that are defined twice.
fn report_names(places: &[(String, Span)], diags: &mut Diagnostics) {
    let mut taken: HashMap<&str, Span> = HashMap::new();
    for (name, span) in places {
        match taken.get(name.as_str()) {
            Some(&first) => report_twice(&Spanned::new(*span, name.clone()), first, diags),
            None => _ = taken.insert(name, *span),
        }
    }
}

/// An operand as written: its name, the pattern of its type, its value if it is left out.
type Written = (Spanned<String>, Option<TypePattern>, Option<Expr>);

impl From<Written> for Input {
    fn from((name, pattern, default): Written) -> Input {
        Input { name: name.as_str().into(), pattern, default }
    }
}

/// `["x", "y"]`, or with patterns of their types: `{"x": "[..., D]", "h": (type: "[D]", default: "zeros(shape=[D])")}`.
fn read_inputs(value: &Ron, diags: &mut Diagnostics) -> Vec<Written> {
    let named = |name: Spanned<&str>, diags: &mut Diagnostics| {
        let name = Spanned::new(name.span, name.value.to_owned());
        check_name(&name, diags).map(|()| name)
    };
    if matches!(value.kind, RonKind::Map(_) | RonKind::Struct { .. }) {
        let mut inputs: Vec<Written> = vec![];
        for (name, value) in entries(value, "`inputs`", diags).unwrap_or_default() {
            let (pattern, default) = read_operand(value, diags);
            let follows_optional = inputs.last().is_some_and(|(_, _, default)| default.is_some());
            if follows_optional && default.is_none() {
                let message = format!("`{}` follows an operand that may be left out", name.value);
                diags.error(Code::E0401, name.span, message).help("put required operands first");
            }
            inputs.extend(named(name, diags).map(|name| (name, pattern, default)));
        }
        return inputs;
    }
    let items = value.items("`inputs`", diags).unwrap_or_default();
    let words = items.iter().filter_map(|item| {
        let word = item.word("the name of an operand", diags)?;
        named(word, diags).map(|name| (name, None, None))
    });
    words.collect()
}

/// The pattern of an operand, and its value if it is left out.
fn read_operand(value: &Ron, diags: &mut Diagnostics) -> (Option<TypePattern>, Option<Expr>) {
    let pattern = |value: &Ron, diags: &mut Diagnostics| {
        value.string("a pattern", diags).and_then(|text| parse_pattern(text, diags))
    };
    if !matches!(value.kind, RonKind::Map(_) | RonKind::Struct { .. }) {
        return (pattern(value, diags), None);
    }
    let Some(mut fields) = Fields::of(value, "an operand", diags) else { return (None, None) };
    let ty = fields.required("type").and_then(|value| pattern(value, diags));
    let default = fields.optional("default").and_then(|value| read_expr(value, diags));
    fields.finish(diags);
    (ty, default)
}

fn read_params(value: &Ron, diags: &mut Diagnostics) -> Vec<ParamDef> {
    let defs = read_param_defs(value, diags).into_iter();
    defs.filter_map(|(name, def)| check_name(&name, diags).and(def)).collect()
}

/// `state: {"mean": "mean * 0.9 + batch_mean * 0.1"}`, `dims: {"W": "D / heads"}`
fn read_named_exprs(value: &Ron, what: &str, diags: &mut Diagnostics) -> Vec<(Spanned<String>, Expr)> {
    let written = entries(value, what, diags).unwrap_or_default();
    let read = |(name, value): (Spanned<&str>, &Ron)| {
        Some((Spanned::new(name.span, name.value.to_owned()), read_expr(value, diags)?))
    };
    written.into_iter().filter_map(read).collect()
}

/// `attrs: {"beta": 1.0, "width": Int}`: a setting has the kind of its default, or a kind alone and no default.
fn read_settings(value: &Ron, dims: &Dims, diags: &mut Diagnostics) -> Vec<AttrSpec> {
    let written = entries(value, "`attrs`", diags).unwrap_or_default();
    let read = |(name, value): (Spanned<&str>, &Ron)| {
        let (kind, default) = match (
            required_kind(value),
            setting_of(value, dims).or_else(|| choice_of(value)),
        ) {
            (Some(kind), _) => (kind, None),
            (None, Some((kind, default))) => (kind, Some(default)),
            (None, None) => {
                diags.error(Code::E0401, value.span, format!("`{}` needs a default value", name.value)).help(
                    "numbers, truth values, strings, element types, lists of extents and \
                         `Choice(\"a\", \"b\")` are settings; `Int`, `Float`, `Bool` and `Str` have no default",
                );
                return None;
            }
        };
        Some(AttrSpec { name: name.value.to_owned(), doc: String::new(), kind, default, range: None })
    };
    written.into_iter().filter_map(read).collect()
}

/// The kind of a setting that every call gives.
fn required_kind(value: &Ron) -> Option<AttrKind> {
    let RonKind::Name(word) = &value.kind else { return None };
    Some(match word.as_str() {
        "Int" => AttrKind::Int,
        "Float" => AttrKind::Float,
        "Bool" => AttrKind::Bool,
        "Str" => AttrKind::Str,
        _ => return None,
    })
}

fn setting_of(value: &Ron, dims: &Dims) -> Option<(AttrKind, Attr)> {
    match &value.kind {
        RonKind::Bool(b) => Some((AttrKind::Bool, Attr::Lit(Literal::Bool(*b)))),
        RonKind::Int(n) => Some((AttrKind::Int, Attr::Lit(Literal::Int(i64::try_from(*n).ok()?)))),
        RonKind::Float(x) => Some((AttrKind::Float, Attr::Lit(Literal::Float(*x)))),
        RonKind::Str(text) => Some((AttrKind::Str, Attr::Str(text.value.as_str().into()))),
        RonKind::Name(name) => Some((AttrKind::DType, Attr::DType(DType::from_name(name)?))),
        RonKind::List(items) => list_of(items, dims),
        _ => None,
    }
}

/// `Choice("l2", "ip")`: one of some words, by default the first.
fn choice_of(value: &Ron) -> Option<(AttrKind, Attr)> {
    let RonKind::Tuple { name: Some(name), items } = &value.kind else { return None };
    let words: Option<Vec<String>> = items
        .iter()
        .map(|item| match &item.kind {
            RonKind::Str(text) => Some(text.value.clone()),
            _ => None,
        })
        .collect();
    let words = words.filter(|words| name.value == "Choice" && !words.is_empty())?;
    let default = Attr::Str(words[0].as_str().into());
    Some((AttrKind::Choice(words), default))
}

fn list_of(items: &[Ron], dims: &Dims) -> Option<(AttrKind, Attr)> {
    let ints: Option<Vec<i64>> = items
        .iter()
        .map(|item| match item.kind {
            RonKind::Int(n) => i64::try_from(n).ok(),
            _ => None,
        })
        .collect();
    if let Some(ints) = ints {
        return Some((AttrKind::Ints, Attr::Ints(ints)));
    }
    let extent = |item: &Ron| match &item.kind {
        RonKind::Int(n) => usize::try_from(*n).ok().map(Dim::Fixed),
        RonKind::Str(text) => Some(named_dim(text, dims)),
        RonKind::Name(name) => Some(named_dim(name, dims)),
        _ => None,
    };
    Some((AttrKind::Shape, Attr::Shape(items.iter().map(extent).collect::<Option<_>>()?)))
}

/// `output: "x * s"`, or `outputs: {"a": …, "b": …}`.
fn read_outputs(fields: &mut Fields, diags: &mut Diagnostics) -> Vec<(String, Expr)> {
    if let Some(several) = fields.optional("outputs") {
        let written = entries(several, "`outputs`", diags).unwrap_or_default();
        let read =
            |(name, value): (Spanned<&str>, &Ron)| Some((name.value.to_owned(), read_expr(value, diags)?));
        return written.into_iter().filter_map(read).collect();
    }
    let output = fields.required("output").and_then(|v| read_expr(v, diags));
    output.into_iter().map(|expr| ("out".to_owned(), expr)).collect()
}

fn in_order(nodes: Vec<NodeDef>, order: &[usize]) -> Vec<FunctionNode> {
    let mut nodes: Vec<_> = nodes.into_iter().map(Some).collect();
    let taken = order.iter().filter_map(|&i| nodes[i].take());
    let node = |NodeDef { name, expr, ty, no_fuse, full_precision }: NodeDef| {
        Some(FunctionNode { name: name.as_str().into(), expr: expr?, ty, no_fuse, full_precision })
    };
    taken.filter_map(node).collect()
}
