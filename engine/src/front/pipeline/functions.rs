//! Functions: ops that a file defines out of other ops.

use super::names::{Meaning, Names};
use super::nodes::{
    NodeDef, check_name, depth_first, read_expr, read_nodes, references, sort, split_port, walk,
};
use super::op_names::{op_name, unary_op_name};
use super::types::{Dims, named_dim};
use super::typing::Typing;
use crate::diag::{Code, Diagnostics, Spanned};
use crate::front::fields::suggestion;
use crate::front::{Fields, Ron, RonKind, entries};
use crate::ir::{Attr, Attrs, Builder, DType, Graph, InputKind, Literal, Symbol, Type, Value};
use crate::op::{
    AttrKind, AttrSpec, Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role, TypeIssue, TypeRule,
};
use crate::text::expr::{Expr, ExprKind};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How many nodes a function may stand for once the functions that it calls are written out.
const MAX_SIZE: usize = 10_000;
/// How deep functions may call functions.
const MAX_DEPTH: usize = 16;

/// The functions of the files read so far.
#[derive(Default)]
pub(super) struct Functions {
    /// By name: how many nodes each stands for, and how deep it calls others.
    extents: HashMap<String, (usize, usize)>,
    /// Names of those that could not be defined, which has been reported.
    pub(super) faulty: HashSet<String>,
}

impl Functions {
    /// Reads `functions: {…}` and adds them to the registry.
    pub(super) fn define(
        &mut self,
        value: &Ron,
        dims: &Dims,
        registry: &mut Registry,
        diags: &mut Diagnostics,
    ) {
        let mut functions = vec![];
        for (name, value) in entries(value, "`functions`", diags).unwrap_or_default() {
            match Function::read(name, value, dims, registry, diags) {
                Some(function) => functions.push(Some(function)),
                None if registry.op(name.value).is_none() => _ = self.faulty.insert(name.value.to_owned()),
                None => (),
            }
        }
        for i in self.callees_first(&functions, diags) {
            let Some(function) = functions[i].take() else {
                continue;
            };
            match self.check(&function, registry, diags) {
                Some(extent) => {
                    self.extents.insert(function.name.value.clone(), extent);
                    let ops = registry.subset(function.callees().iter().map(|callee| callee.value));
                    registry.add(form(Arc::new(function), ops));
                }
                None => _ = self.faulty.insert(function.name.value.clone()),
            }
        }
    }

    /// How many nodes an expression stands for once functions are written out.
    pub(super) fn size_of(&self, expr: &Expr) -> usize {
        callees(expr).iter().map(|callee| self.extents.get(callee.value).map_or(1, |(size, _)| *size)).sum()
    }

    fn callees_first(&mut self, functions: &[Option<Function>], diags: &mut Diagnostics) -> Vec<usize> {
        let functions: Vec<&Function> = functions.iter().flatten().collect();
        let index: HashMap<&str, usize> =
            functions.iter().enumerate().map(|(i, function)| (function.name.as_str(), i)).collect();
        let called = |function: &&Function| -> Vec<usize> {
            function.callees().iter().filter_map(|callee| index.get(callee.value).copied()).collect()
        };
        let before: Vec<_> = functions.iter().map(called).collect();
        depth_first(&before, |circle| {
            let names: Vec<_> = circle.iter().map(|&i| functions[i].name.as_str()).collect();
            let message =
                format!("functions call each other in a circle: {} → {}", names.join(" → "), names[0]);
            diags
                .error(Code::E0402, functions[circle[0]].name.span, message)
                .help("a function is written out where it is called, which would not end");
            self.faulty.extend(names.iter().map(|name| name.to_string()));
        })
    }

    /// Checks names and limits, which need no types, and returns the function's extent.
    fn check(
        &self,
        function: &Function,
        registry: &Registry,
        diags: &mut Diagnostics,
    ) -> Option<(usize, usize)> {
        let mut sound = !self.faulty.contains(&function.name.value);
        for name in function.unknown_names() {
            sound = false;
            let help = suggestion(name.value, &function.known_names(), diags);
            let message = format!("nothing is called `{}` in this function", name.value);
            diags.error(Code::E0101, name.span, message).help(help);
        }
        let (mut size, mut depth) = (1, 1);
        for callee in function.callees() {
            let known = self.extents.get(callee.value);
            size += known.map_or(1, |(size, _)| *size);
            depth = depth.max(known.map_or(1, |(_, depth)| depth + 1));
            if self.faulty.contains(callee.value) {
                sound = false;
            } else if registry.op(callee.value).is_none() {
                sound = false;
                super::typing::report_unknown_op(registry, &callee, diags);
            }
        }
        if size > MAX_SIZE || depth > MAX_DEPTH {
            let message =
                format!("`{}` stands for {size} nodes, {depth} functions deep", function.name.value);
            let help = format!("the limits are {MAX_SIZE} nodes and {MAX_DEPTH} functions");
            diags.error(Code::E0401, function.name.span, message).help(help);
            return None;
        }
        sound.then_some((size, depth))
    }
}

/// A node of a function.
struct FunctionNode {
    name: Symbol,
    expr: Expr,
    no_fuse: bool,
}

/// A function as written.
struct Function {
    name: Spanned<String>,
    summary: String,
    inputs: Vec<Symbol>,
    settings: Vec<AttrSpec>,
    /// In an order in which operands come first.
    nodes: Vec<FunctionNode>,
    /// Names and expressions of the results.
    outputs: Vec<(String, Expr)>,
    dims: Dims,
}

impl Function {
    fn read(
        name: Spanned<&str>,
        value: &Ron,
        dims: &Dims,
        registry: &Registry,
        diags: &mut Diagnostics,
    ) -> Option<Function> {
        let name = Spanned::new(name.span, name.value.to_owned());
        check_name(&name, diags)?;
        if registry.op(&name).is_some() {
            diags
                .error(Code::E0302, name.span, format!("there is an op `{}` already", name.value))
                .help("choose another name");
            return None;
        }
        let n_errors = diags.n_errors();
        let mut fields = Fields::of(value, "a function", diags)?;
        let inputs = fields.required("inputs").and_then(|v| read_inputs(v, diags)).unwrap_or_default();
        let settings = fields.optional("attrs").map_or(vec![], |v| read_settings(v, dims, diags));
        let nodes = fields.optional("nodes").map_or(vec![], |v| read_nodes(v, dims, diags));
        let summary = fields.optional("summary").and_then(|v| v.string("`summary`", diags));
        let summary =
            summary.map_or_else(|| format!("The function `{}`.", name.value), |text| text.to_string());
        let outputs = read_outputs(&mut fields, diags);
        fields.finish(diags);
        let mut taken: HashMap<&str, _> = HashMap::new();
        for node in &nodes {
            if let Some(first) = taken.insert(&node.name, node.name.span) {
                super::nodes::report_twice(&node.name, first, diags);
            }
        }
        let order = sort(&nodes, diags);
        let nodes = in_order(nodes, &order);
        let inputs = inputs.into_iter().map(|input| input.as_str().into()).collect();
        let function = Function { name, summary, inputs, settings, nodes, outputs, dims: dims.clone() };
        (diags.n_errors() == n_errors).then_some(function)
    }

    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.nodes.iter().map(|node| &node.expr).chain(self.outputs.iter().map(|(_, expr)| expr))
    }

    /// Names of ops and functions that it calls, with repetition.
    fn callees(&self) -> Vec<Spanned<&str>> {
        self.expressions().flat_map(callees).collect()
    }

    fn known_names(&self) -> Vec<&str> {
        let settings = self.settings.iter().map(|spec| spec.name.as_str());
        let nodes = self.nodes.iter().map(|node| &*node.name);
        self.inputs.iter().map(|name| &**name).chain(settings).chain(nodes).collect()
    }

    fn unknown_names(&self) -> Vec<Spanned<&str>> {
        let known: HashSet<&str> = self.known_names().into_iter().collect();
        let used = self.expressions().flat_map(references);
        let is_known = |path: &str| {
            let name = split_port(path, |path| known.contains(path)).0;
            known.contains(name) || self.dims.contains_key(path) || path == "step"
        };
        used.filter(|name| !is_known(name.value)).collect()
    }

    /// Types of the results, found by writing the function out for operands of these types.
    fn infer(&self, types: &[Type], attrs: &Attrs, ops: &Registry) -> Result<Vec<Type>, TypeIssue> {
        let mut builder = Builder::new(Graph::default(), ops);
        let inputs: Vec<Value> = self
            .inputs
            .iter()
            .zip(types)
            .map(|(name, ty)| builder.input(name, InputKind::Data, ty.clone()))
            .collect();
        let results = self.write_out(&mut builder, &inputs, attrs).map_err(|diags| self.issue(&diags))?;
        Ok(results.into_iter().map(|value| builder.ty(value).clone()).collect())
    }

    fn issue(&self, diags: &Diagnostics) -> TypeIssue {
        let Some(first) = diags.sorted().into_iter().next() else {
            return TypeIssue::new(format!("`{}` cannot be written out", self.name.value));
        };
        let mut issue = TypeIssue::new(format!("in `{}`: {}", self.name.value, first.message));
        issue.help = first.help.clone();
        issue.inside = first.labels.first().map(|(span, _)| Box::new((*span, "it arises here".to_owned())));
        issue
    }

    /// Adds the function's nodes under paths that begin with the current scope: node `s` becomes `h.s` where `h` calls the
    /// function. Results have derived names, which the caller may replace.
    fn write_out(
        &self,
        builder: &mut Builder,
        inputs: &[Value],
        attrs: &Attrs,
    ) -> Result<Vec<Value>, Diagnostics> {
        let (outer, span, mark) = (builder.scope(), builder.span(), builder.no_fuse());
        let mut diags = Diagnostics::new();
        let mut names: Names =
            self.inputs.iter().cloned().zip(inputs.iter().map(|&value| Meaning::Value(value))).collect();
        for spec in &self.settings {
            names.insert(spec.name.as_str().into(), Meaning::Setting(attrs.get(&spec.name).clone()));
        }
        let faulty = HashSet::new();
        let mut results = vec![];
        for FunctionNode { name, expr, no_fuse } in &self.nodes {
            let path = format!("{outer}.{name}");
            if *no_fuse && mark.is_none() {
                builder.set_no_fuse(Some(path.as_str().into()));
            }
            let mut typing =
                Typing { builder, names: &names, dims: &self.dims, faulty_ops: &faulty, diags: &mut diags };
            // The path of a node with the name of a result is that of the result.
            let value = match self.outputs.iter().any(|(result, _)| **result == **name) {
                true => typing.value(&path, expr),
                false => typing.define(&path, expr),
            };
            names.insert(name.clone(), value.map_or(Meaning::Faulty, Meaning::Value));
            builder.set_no_fuse(mark.clone());
        }
        for (_, expr) in &self.outputs {
            let mut typing =
                Typing { builder, names: &names, dims: &self.dims, faulty_ops: &faulty, diags: &mut diags };
            results.extend(typing.value(&outer, expr));
        }
        builder.set_scope(&outer, span);
        if diags.has_errors() { Err(diags) } else { Ok(results) }
    }
}

fn form(function: Arc<Function>, ops: Registry) -> OpForm {
    let input = |name: &Symbol| InputSpec::required(name, "an operand");
    let inferring = function.clone();
    let expanding = function.clone();
    OpForm {
        name: function.name.value.clone(),
        family: "function".into(),
        summary: function.summary.clone(),
        inputs: function.inputs.iter().map(input).collect(),
        outputs: function.outputs.iter().map(|(name, _)| name.clone()).collect(),
        attrs: function.settings.clone(),
        types: TypeRule::custom(move |types, attrs| inferring.infer(types, attrs, &ops)),
        lower: Lower::expand(move |builder, call| {
            expanding.write_out(builder, call.inputs, call.attrs).unwrap_or_else(|diags| {
                crate::bug!("`{}` has a type but no lowering: {:?}", expanding.name.value, diags.sorted())
            })
        }),
        grad: Grad::Derive,
        check: GradCheck::None { why: "made of ops that are checked" },
        examples: vec![],
        role: Role::Function,
    }
}

// ---- Reading.

fn read_inputs(value: &Ron, diags: &mut Diagnostics) -> Option<Vec<String>> {
    let items = value.items("`inputs`", diags)?;
    let names = items.iter().map(|item| {
        let name = item.word("the name of an operand", diags)?;
        let name = Spanned::new(name.span, name.value.to_owned());
        check_name(&name, diags).map(|()| name.value)
    });
    names.collect()
}

/// `attrs: {"beta": 1.0}`: a setting has the kind of its default.
fn read_settings(value: &Ron, dims: &Dims, diags: &mut Diagnostics) -> Vec<AttrSpec> {
    let written = entries(value, "`attrs`", diags).unwrap_or_default();
    let read = |(name, value): (Spanned<&str>, &Ron)| {
        let Some((kind, default)) = setting_of(value, dims) else {
            diags
                .error(Code::E0401, value.span, format!("`{}` needs a default value", name.value))
                .help("numbers, truth values, strings, element types and lists of extents are settings");
            return None;
        };
        let doc = format!("by default {default}");
        Some(AttrSpec { name: name.value.to_owned(), doc, kind, default: Some(default), range: None })
    };
    written.into_iter().filter_map(read).collect()
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
        RonKind::Int(n) => usize::try_from(*n).ok().map(crate::ir::Dim::Fixed),
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
    let node = |NodeDef { name, expr, no_fuse, .. }: NodeDef| {
        Some(FunctionNode { name: name.as_str().into(), expr: expr?, no_fuse })
    };
    taken.filter_map(node).collect()
}

/// Names of the ops that an expression calls, also by operators.
fn callees(expr: &Expr) -> Vec<Spanned<&str>> {
    let mut names = vec![];
    walk(expr, &mut |part| match &part.kind {
        ExprKind::Call { callee, .. } => names.push(Spanned::new(callee.span, callee.as_str())),
        ExprKind::Binary { op, .. } => names.push(Spanned::new(op.span, op_name(op.value))),
        ExprKind::Unary(op, _) => names.push(Spanned::new(part.span, unary_op_name(*op))),
        _ => (),
    });
    names
}
