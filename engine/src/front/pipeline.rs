//! From a RON file to a checked [`Pipeline`].
//!
//! Reading goes through the whole file whatever it meets, so that all errors are told at once. What depends on
//! something faulty is passed over in silence.

mod functions;
mod inlining;
mod literals;
mod nodes;
mod set;
mod settings;
mod stages;
#[cfg(test)]
mod tests;
mod types;
mod typing;

pub use stages::{Feeds, StageFields, StageForm, StageReader, given_text};

use super::{Fields, Ron, RonKind, entries, parse_ron};
use crate::diag::{Code, Diagnostics, FileId, Sources, Span, Spanned};
use crate::ir::{Attr, Builder, DType, Graph, InputKind, Level, Literal, NodeOp, Symbol, Type, Value};
use crate::op::Registry;
use crate::pass::sound;
use crate::pipeline::{DataDecl, Init, InputDecl, ParamDecl, Pipeline};
use crate::plan::Precision;
use crate::rules::Numerics;
use functions::Functions;
use inlining::{Inlined, inline};
use nodes::{NodeDef, check_name, read_nodes, sort};
use std::collections::HashMap;
use types::{Dims, read_type};
use typing::{Meaning, Names, Typing};

/// How many nodes all calls of functions may stand for.
const MAX_NODES: usize = 1 << 21;

/// Reads and checks a pipeline.
///
/// The functions of the file and of `plugins` are added to the registry. Each override `("train.epochs", "1")` replaces
/// a field of the file by a RON value. All that is wrong, and warnings, go to `diags`; there is no pipeline if anything
/// there is an error.
pub fn load(
    sources: &mut Sources,
    file: FileId,
    registry: &mut Registry,
    overrides: &[(String, String)],
    plugins: &[FileId],
    diags: &mut Diagnostics,
) -> Option<Pipeline> {
    let plugins: Vec<Ron> = plugins.iter().map(|&file| parse_ron(file, sources.text(file), diags)).collect();
    let mut root = parse_ron(file, sources.text(file), diags);
    // Where brackets do not match, most of what follows would be misunderstood.
    if diags.sorted().iter().any(|diagnostic| diagnostic.code == Code::E0003) || root.is_error() {
        return None;
    }
    set::apply(&mut root, overrides, sources, diags);
    let mut functions = Functions::default();
    for plugin in &plugins {
        read_plugin(plugin, &mut functions, registry, diags);
    }
    let pipeline = read_pipeline(&root, sources.name(file), functions, registry, diags)?;
    if diags.has_errors() {
        return None;
    }
    Some(Pipeline { graph: sound("read", Level::Typed, pipeline.graph), ..pipeline })
}

/// Adds the functions of a file `(functions: {…})` to the registry.
pub fn define(sources: &Sources, file: FileId, registry: &mut Registry, diags: &mut Diagnostics) {
    let root = parse_ron(file, sources.text(file), diags);
    if !root.is_error() {
        read_plugin(&root, &mut Functions::default(), registry, diags);
    }
}

/// A file given with `--plugin`: `(functions: {…})`.
fn read_plugin(root: &Ron, functions: &mut Functions, registry: &mut Registry, diags: &mut Diagnostics) {
    let written = entries(root, "a plugin file", diags).unwrap_or_default();
    for (name, value) in written {
        if name.value == "functions" {
            functions.define(value, &Dims::new(), registry, diags);
        } else {
            diags
                .error(Code::E0403, name.span, format!("a plugin file cannot define `{}`", name.value))
                .help("it holds `functions: {…}` alone; the rest belongs into the pipeline");
        }
    }
}

fn read_pipeline(
    root: &Ron,
    file_name: &str,
    functions: Functions,
    registry: &mut Registry,
    diags: &mut Diagnostics,
) -> Option<Pipeline> {
    let mut fields = Fields::of(root, "a pipeline", diags)?;
    let name =
        fields.optional("name").and_then(|v| v.word("`name`", diags)).map(|name| name.value.to_owned());
    let name = name.unwrap_or_else(|| stem(file_name).to_owned());
    let seed = fields.optional("seed").and_then(|v| v.integer("`seed`", 0..=u64::MAX, diags)).unwrap_or(0);
    let precisions = [("F32", Precision::F32), ("Tf32", Precision::Tf32)];
    let matmul = fields.optional("matmul").and_then(|v| v.choice("`matmul`", &precisions, diags));
    let numerics = [("Strict", Numerics::Strict), ("Default", Numerics::Default), ("Fast", Numerics::Fast)];
    let numerics = fields.optional("numerics").and_then(|v| v.choice("`numerics`", &numerics, diags));
    let deterministic = fields.optional("deterministic").and_then(|v| v.boolean("`deterministic`", diags));
    let dims = fields.optional("dims").map(|v| read_dims(v, diags)).unwrap_or_default();
    let mut functions = functions;
    if let Some(value) = fields.optional("functions") {
        functions.define(value, &dims, registry, diags);
    }
    let data = fields.optional("data").map(|v| read_data(v, diags)).unwrap_or_default();
    let inputs = fields.optional("inputs").map(|v| read_inputs(v, &data, &dims, diags)).unwrap_or_default();
    let params = fields.optional("params").map(|v| read_params(v, &dims, diags)).unwrap_or_default();
    let nodes = fields.optional("nodes").map(|v| read_nodes(v, &dims, diags)).unwrap_or_default();
    let stages = fields.optional("stages");
    fields.finish(diags);

    let mut scope = Scope::default();
    let mut builder = Builder::new(Graph::new(name.clone()), registry);
    for (input, ty) in &inputs {
        scope.input(&mut builder, (&input.name, input.span), InputKind::Data, ty.as_ref(), diags);
    }
    for (name, span, param) in &params {
        let kind = param.as_ref().map_or(InputKind::Param, |param| param.kind);
        scope.input(&mut builder, (name, Some(*span)), kind, param.as_ref().map(|param| &param.ty), diags);
    }
    scope.nodes(&mut builder, nodes, &dims, &functions, diags);
    let first_results = scope.first_results(&builder.graph);
    let Inlined { graph, map } = inline(builder.graph, registry, &scope.places, diags);
    scope.move_values(&map);
    let mut pipeline = Pipeline {
        name,
        seed,
        matmul: matmul.unwrap_or_default(),
        numerics: numerics.unwrap_or_default(),
        deterministic: deterministic.unwrap_or_default(),
        data,
        inputs: inputs.into_iter().map(|(input, _)| input).collect(),
        params: params.into_iter().filter_map(|(.., param)| param).collect(),
        first_results: scope.names_at(first_results, &graph),
        graph,
        stages: vec![],
    };
    if let Some(value) = stages {
        pipeline.stages = stages::read(value, &pipeline, &scope, registry, diags);
    }
    Some(pipeline)
}

/// `graphs/mnist.ron` is called `mnist`.
fn stem(file_name: &str) -> &str {
    let base = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    base.split('.').next().unwrap_or(base)
}

/// What has been given a name, and where.
#[derive(Default)]
struct Scope {
    names: Names,
    places: HashMap<Symbol, Span>,
}

impl Scope {
    /// Takes a name; reports it if it is taken.
    fn take(&mut self, name: &Symbol, span: Option<Span>, diags: &mut Diagnostics) -> Option<()> {
        let name = Spanned::new(span?, name.to_string());
        check_name(&name, diags)?;
        if let Some(&first) = self.places.get(name.as_str()) {
            report_twice(&name, first, diags);
            return None;
        }
        let symbol = Symbol::from(name.as_str());
        self.places.insert(symbol.clone(), name.span);
        self.names.insert(symbol, Meaning::Faulty);
        Some(())
    }

    /// Lets stages name the first of several results as they name the others: `t.values` is `t`. The paths of all.
    fn first_results(&mut self, graph: &Graph) -> Vec<Symbol> {
        let mut paths = vec![];
        for (id, node) in graph.nodes.iter().enumerate() {
            if let NodeOp::Call(call) = &node.op
                && let [first, _, ..] = &call.form.outputs[..]
            {
                let path = Symbol::from(format!("{}.{first}", node.name()));
                self.names.entry(path.clone()).or_insert(Meaning::Value(Value::of(id)));
                paths.push(path);
            }
        }
        paths
    }

    /// The paths with the names of the values that they stand for.
    fn names_at(&self, paths: Vec<Symbol>, graph: &Graph) -> Vec<(Symbol, Symbol)> {
        let name = |path: Symbol| match self.names.get(&path) {
            Some(Meaning::Value(value)) => Some((path, graph.name_of(*value).clone())),
            _ => None,
        };
        paths.into_iter().filter_map(name).collect()
    }

    /// Lets names stand for values at other places, by node and port.
    fn move_values(&mut self, map: &[Vec<Value>]) {
        for meaning in self.names.values_mut() {
            if let Meaning::Value(value) = meaning {
                *value = map[value.node][value.port];
            }
        }
    }

    fn input(
        &mut self,
        builder: &mut Builder,
        (name, span): (&Symbol, Option<Span>),
        kind: InputKind,
        ty: Option<&Type>,
        diags: &mut Diagnostics,
    ) {
        let taken = self.take(name, span, diags);
        if let (Some(()), Some(ty)) = (taken, ty) {
            builder.set_span(span);
            let value = builder.input(name, kind, ty.clone());
            self.names.insert(name.clone(), Meaning::Value(value));
        }
    }

    fn nodes(
        &mut self,
        builder: &mut Builder,
        mut defs: Vec<NodeDef>,
        dims: &Dims,
        functions: &Functions,
        diags: &mut Diagnostics,
    ) {
        defs.retain(|def| self.take(&def.name.as_str().into(), Some(def.name.span), diags).is_some());
        // Names that nodes derive for their parts keep clear of those that the file gives.
        builder.reserve(self.names.keys().cloned());
        let mut size = 0usize;
        for i in sort(&defs, diags) {
            let NodeDef { name, expr: Some(expr), ty, is_apart } = &defs[i] else {
                continue;
            };
            size = size.saturating_add(functions.size_of(expr));
            if size > MAX_NODES {
                let message = format!("the pipeline stands for more than {MAX_NODES} nodes");
                diags.error(Code::E0401, name.span, message).help("call large functions less often");
                return;
            }
            builder.set_apart(is_apart.then(|| name.as_str().into()));
            let mut typing =
                Typing { builder, names: &self.names, dims, faulty_ops: &functions.faulty, diags };
            let Some(value) = typing.define(name, expr) else {
                continue;
            };
            if let Some(declared) = ty {
                check_declared(name, declared, builder.ty(value), diags);
            }
            self.names.insert(name.as_str().into(), Meaning::Value(value));
        }
    }
}

fn check_declared(name: &Spanned<String>, declared: &Spanned<Type>, found: &Type, diags: &mut Diagnostics) {
    if declared.value != *found {
        let message = format!("`{}` is {found}, not {}", name.value, declared.value);
        diags.error(Code::E0110, declared.span, message).help("correct the type or leave it out");
    }
}

fn report_twice(name: &Spanned<String>, first: Span, diags: &mut Diagnostics) {
    diags
        .error(Code::E0302, name.span, format!("`{}` is defined twice", name.value))
        .also(first, "first here")
        .help("give one of them another name");
}

// ---- Declarations.

/// `dims: {"H": 256}`
fn read_dims(value: &Ron, diags: &mut Diagnostics) -> Dims {
    let mut dims = Dims::new();
    for (name, value) in entries(value, "`dims`", diags).unwrap_or_default() {
        let extent = value.integer("an extent", 0..=1 << 40, diags);
        dims.extend(extent.map(|extent| (name.value.to_owned(), extent)));
    }
    dims
}

/// `data: {"digits": (source: "mnist", …)}`
fn read_data(value: &Ron, diags: &mut Diagnostics) -> Vec<DataDecl> {
    let mut data = vec![];
    for (name, value) in entries(value, "`data`", diags).unwrap_or_default() {
        let Some(all) = entries(value, "a data source", diags) else {
            continue;
        };
        let source = all.iter().find(|(field, _)| field.value == "source");
        if source.is_none() {
            diags
                .error(Code::E0011, value.span, "a data source needs the field `source`")
                .help("add `source: \"mnist\"`, or another source that the engine knows");
        }
        let source = source.and_then(|(_, v)| v.word("`source`", diags)).map(|word| word.value.to_owned());
        let options = all.iter().filter(|(field, _)| field.value != "source");
        let options = options.filter_map(|(field, value)| Some((field.value.into(), option(value, diags)?)));
        let options = options.collect();
        data.push(DataDecl {
            name: name.value.into(),
            source: source.unwrap_or_default(),
            options,
            span: Some(name.span),
        });
    }
    data
}

fn option(value: &Ron, diags: &mut Diagnostics) -> Option<Attr> {
    match &value.kind {
        RonKind::Bool(b) => Some(Attr::from(*b)),
        RonKind::Float(x) => Some(Attr::from(*x)),
        RonKind::Str(_) => value.string("an option", diags).map(|text| Attr::from(&*text.to_string())),
        _ => value.integer("an option", i64::MIN..=i64::MAX, diags).map(Attr::from),
    }
}

/// `inputs: {"image": (type: "u8[B, 784]", from: "digits.images")}`; a type alone is fed by the caller.
fn read_inputs(
    value: &Ron,
    data: &[DataDecl],
    dims: &Dims,
    diags: &mut Diagnostics,
) -> Vec<(InputDecl, Option<Type>)> {
    let mut inputs = vec![];
    for (name, value) in entries(value, "`inputs`", diags).unwrap_or_default() {
        let (ty, from) = match &value.kind {
            RonKind::Str(_) => (read_type(value, dims, diags), None),
            _ => read_input(value, data, dims, diags),
        };
        inputs.push((InputDecl { name: name.value.into(), from, span: Some(name.span) }, ty));
    }
    inputs
}

type From = Option<(Symbol, Symbol)>;

fn read_input(value: &Ron, data: &[DataDecl], dims: &Dims, diags: &mut Diagnostics) -> (Option<Type>, From) {
    let Some(mut fields) = Fields::of(value, "an input", diags) else {
        return (None, None);
    };
    let ty = fields.required("type").and_then(|v| read_type(v, dims, diags));
    let from = fields.optional("from").and_then(|v| read_path(v, "digits.images", data, diags));
    fields.finish(diags);
    (ty, from)
}

/// A data source of the pipeline and one of its fields or splits: `digits.images`.
fn read_path(value: &Ron, example: &str, data: &[DataDecl], diags: &mut Diagnostics) -> From {
    let text = value.string("a part of a data source", diags)?;
    let Some((source, part)) = text.split_once('.') else {
        let message = format!("`{}` names no part of a data source", super::lex::shorten(text));
        diags.error(Code::E0203, text.whole(), message).help(format!("it looks like `{example}`"));
        return None;
    };
    if !data.iter().any(|decl| &*decl.name == source) {
        let known: Vec<&str> = data.iter().map(|decl| &*decl.name).collect();
        let help = super::fields::suggestion(source, &known, diags);
        let span = text.span(0, source.len());
        diags.error(Code::E0202, span, format!("there is no data source `{source}`")).help(help);
        return None;
    }
    Some((source.into(), part.into()))
}

type Param = (Symbol, Span, Option<ParamDecl>);

/// `params: {"w1": (type: "f32[784, 256]", init: Kaiming)}`; a type alone starts at zero.
fn read_params(value: &Ron, dims: &Dims, diags: &mut Diagnostics) -> Vec<Param> {
    let mut params = vec![];
    for (name, value) in entries(value, "`params`", diags).unwrap_or_default() {
        let param = match &value.kind {
            RonKind::Str(_) => {
                read_type(value, dims, diags).map(|ty| (InputKind::Param, ty, value.span, Init::Zeros))
            }
            _ => read_param(value, dims, diags),
        };
        let param = param.filter(|(kind, ty, span, init)| check_param(*kind, ty, *span, init, diags));
        let decl = |(kind, ty, _, init)| ParamDecl {
            name: name.value.into(),
            kind,
            ty,
            init,
            span: Some(name.span),
        };
        params.push((name.value.into(), name.span, param.map(decl)));
    }
    params
}

fn read_param(value: &Ron, dims: &Dims, diags: &mut Diagnostics) -> Option<(InputKind, Type, Span, Init)> {
    let mut fields = Fields::of(value, "a parameter", diags)?;
    let written = fields.required("type");
    let ty = written.and_then(|v| read_type(v, dims, diags));
    let state = fields.optional("state").and_then(|v| v.boolean("`state`", diags)).unwrap_or(false);
    let written_init = fields.optional("init");
    let init = written_init.map_or(Some(Init::Zeros), |v| read_init(v, diags));
    fields.finish(diags);
    if let (Some(init), Some(ty), Some(written)) = (&init, &ty, written_init)
        && let Some(value) = beyond(init, ty.dtype)
    {
        let message = format!("`{value}` is no element of {}", ty.dtype);
        diags
            .error(Code::E0114, written.span, message)
            .help("write a number that the type has, or a wider type");
        return None;
    }
    let kind = if state { InputKind::State } else { InputKind::Param };
    Some((kind, ty?, written?.span, init?))
}

/// A number of an initialiser that no element of the type holds. Integers are drawn by rounding.
fn beyond(init: &Init, dtype: DType) -> Option<Literal> {
    let numbers = match *init {
        Init::Constant(value) => vec![value],
        Init::Uniform { low, high } if dtype.is_float() => vec![Literal::Float(low), Literal::Float(high)],
        Init::Normal { mean, std } if dtype.is_float() => vec![Literal::Float(mean), Literal::Float(std)],
        _ => vec![],
    };
    numbers.into_iter().find(|number| number.element(dtype).is_none())
}

fn check_param(kind: InputKind, ty: &Type, span: Span, init: &Init, diags: &mut Diagnostics) -> bool {
    let open = ty.shape.iter().find(|dim| dim.fixed().is_none());
    let fault = match open {
        Some(dim) => Some((
            format!("the extent `{dim}` of a parameter is not known"),
            format!("write a number, or `dims: {{\"{dim}\": …}}`"),
        )),
        None if kind == InputKind::Param && !ty.dtype.is_float() => {
            Some((format!("{ty} cannot be trained"), "use a float type, or `state: true`".to_owned()))
        }
        None if matches!(init, Init::Xavier | Init::Kaiming) && ty.rank() < 2 => Some((
            format!("{ty} has no axis of inputs and axis of outputs, by which {init:?} scales"),
            "use `Zeros` or `Normal(mean: 0, std: …)`".to_owned(),
        )),
        None => None,
    };
    if let Some((message, help)) = &fault {
        diags.error(Code::E0204, span, message).help(help);
    }
    fault.is_none()
}

fn read_init(value: &Ron, diags: &mut Diagnostics) -> Option<Init> {
    let names = ["Zeros", "Ones", "Constant", "Uniform", "Normal", "Xavier", "Kaiming"];
    let Some(head) = value.head() else {
        return value.literal("`init`", diags).map(Init::Constant);
    };
    let order: &[&str] = match head.value {
        "Constant" => &["value"],
        "Uniform" => &["low", "high"],
        "Normal" => &["mean", "std"],
        _ => &[],
    };
    let mut fields = Fields::of_choice(value, "an initialiser", order, diags)?;
    let mut number = |name| fields.required(name).and_then(|v| v.number(name, diags));
    let init = match head.value {
        "Zeros" => Some(Init::Zeros),
        "Ones" => Some(Init::Constant(Literal::Int(1))),
        "Constant" => fields.required("value").and_then(|v| v.literal("value", diags)).map(Init::Constant),
        "Uniform" => number("low").zip(number("high")).map(|(low, high)| Init::Uniform { low, high }),
        "Normal" => number("mean").zip(number("std")).map(|(mean, std)| Init::Normal { mean, std }),
        "Xavier" => Some(Init::Xavier),
        "Kaiming" => Some(Init::Kaiming),
        _ => {
            let help = super::fields::suggestion(head.value, &names, diags);
            diags
                .error(Code::E0014, head.span, format!("there is no initialiser `{}`", head.value))
                .help(help);
            return None;
        }
    };
    fields.finish(diags);
    init.filter(|init| check_init(init, value.span, diags))
}

/// Whether there are numbers of such a distribution.
fn check_init(init: &Init, span: Span, diags: &mut Diagnostics) -> bool {
    let (fault, help) = match *init {
        Init::Uniform { low, high } if !(low <= high && (high - low).is_finite()) => (
            format!("no numbers are uniform in {low}..{high}"),
            "the lower end comes first, and both are finite",
        ),
        Init::Normal { mean, std } if !(mean.is_finite() && std.is_finite() && std >= 0.0) => (
            format!("there is no normal distribution of mean {mean} and standard deviation {std}"),
            "both are finite, and the standard deviation is at least 0",
        ),
        _ => return true,
    };
    diags.error(Code::E0015, span, fault).help(help);
    false
}
