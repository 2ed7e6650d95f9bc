//! A model as a whole: its opset, inputs and outputs.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use engine_core::diag::{Diagnostic, nearest};
use engine_core::ir::{Dim, Symbol, Type};
use engine_core::op::Registry;
use engine_core::text::expr::{Expr, ExprKind};
use prost::Message;

use crate::body::walk;
use crate::fault::{broken, malformed, unsupported};
use crate::functions;
use crate::inline::inlined;
use crate::narrow::Narrow;
use crate::old::modern;
use crate::proto::{
    DimensionProto, GraphProto, ModelProto, OperatorSetIdProto, TensorTypeProto, ValueInfoProto,
};
use crate::seen::Seen;
use crate::special::OPS;
use crate::table;
use crate::table::expression;
use crate::tensor::{Stored, element_of};
use crate::translate::{self, Forms, Translation};
use crate::values::{Body, Defined, Param};
use crate::write::Parts;

/// The oldest opset that is read.
pub const OLDEST_OPSET: i64 = 6;
/// The newest opset that is read.
pub const NEWEST_OPSET: i64 = 27;

/// What the table does not say.
const FORMS: Forms = Forms { special: OPS, modern };

/// A model that has become a pipeline.
pub struct Imported {
    parts: Parts,
}

impl Imported {
    /// The text of the pipeline. If `weights` names a file, a stage loads the parameters from there. `extents` has values
    /// of extents that the model leaves open.
    pub fn text(&self, weights: Option<&str>, extents: &[(Symbol, usize)]) -> String {
        self.parts.text(weights, extents)
    }

    /// The inputs.
    pub fn inputs(&self) -> &[(String, Type)] {
        &self.parts.inputs
    }

    /// The parameters, in the order of their first use.
    pub fn params(&self) -> &[Param] {
        &self.parts.params
    }

    /// The names of the model's outputs, and of their nodes.
    pub fn outputs(&self) -> &[(String, String)] {
        &self.parts.outputs
    }

    /// The number of nodes of the pipeline.
    pub fn n_nodes(&self) -> usize {
        self.parts.nodes.len()
    }
}

/// Facts that the caller adds to a model.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Numbers for extents that the model leaves open.
    pub dims: Vec<(Symbol, usize)>,
    /// Values for inputs, which become constants. An input that determines shapes needs one.
    pub values: Vec<(String, Stored)>,
    /// What is known of inputs that stay inputs.
    pub seen: Vec<Seen>,
}

/// Reads a model. `path` is its place, which external data must not leave.
///
/// # Errors
/// If the bytes are no sound model, or a part of it has no translation.
pub fn import(
    bytes: Vec<u8>,
    path: &Path,
    facts: &Facts,
    registry: &Registry,
) -> Result<Imported, Diagnostic> {
    let model = ModelProto::decode(Bytes::from(bytes)).map_err(|error| malformed("the model", &error))?;
    let opset = opset_of(&model.opset_import)?;
    let graph = model
        .graph
        .ok_or_else(|| broken("the model has no graph", "the file is damaged, or no ONNX model"))?;
    let mut of = Translation::new(registry, opset, path.parent().map(or_here), &facts.dims, FORMS);
    of.functions = Rc::new(functions::read(&model.functions, of.folder)?);
    of.is_pytorch = model.producer_name == "pytorch";
    let outputs = reserve_outputs(&graph);
    of.initializers(&graph)?;
    fix_inputs(&mut of, &graph, &facts.values)?;
    let inputs = inputs(&mut of, &graph, &facts.seen)?;
    of.nodes(&graph.node)?;
    let (outputs, types) = finish(&mut of, outputs)?;
    let kept: HashSet<String> = outputs.iter().map(|(_, node)| node.clone()).collect();
    let nodes = inlined(of.values.nodes, &kept);
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let producer = if model.producer_name.is_empty() {
        String::new()
    } else {
        format!(", written by {}", one_line(&model.producer_name))
    };
    let origin = format!("Imported by `engine import` from {} (opset {opset}{producer}).", one_line(&file));
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let params = used_params(of.values.params, &nodes, &outputs);
    let bodies = called(of.values.bodies, &nodes);
    let settled = of.settled;
    Ok(Imported { parts: Parts { origin, name, inputs, params, bodies, nodes, outputs, types, settled } })
}

/// The ops that are read: the name, the first opset of a form, and the expression of its results. An op without an
/// expression is translated by a function.
pub fn ops() -> Vec<(&'static str, i64, Option<String>)> {
    let text = |results: &[Expr]| results.iter().map(Expr::to_string).collect::<Vec<_>>().join("; ");
    let written = table::rows().iter().map(|row| (row.op.as_str(), row.since, Some(text(&row.results))));
    let mut ops: Vec<_> = written.chain(OPS.iter().map(|(name, _)| (*name, 1, None))).collect();
    ops.sort();
    ops
}

fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// A text of the model without line breaks.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect()
}

fn opset_of(imports: &[OperatorSetIdProto]) -> Result<i64, Diagnostic> {
    let version = translate::opset_of(imports);
    // A model may have ops of other domains alone.
    let version = version.or_else(|| (!imports.is_empty()).then_some(NEWEST_OPSET));
    let version = version
        .ok_or_else(|| broken("the model names no opset of ONNX", "the file is damaged, or no ONNX model"))?;
    match (OLDEST_OPSET..=NEWEST_OPSET).contains(&version) {
        true => Ok(version),
        false => Err(unsupported(
            format!("the model has opset {version}"),
            format!(
                "opsets {OLDEST_OPSET} to {NEWEST_OPSET} are read; `onnx.version_converter` converts models"
            ),
        )),
    }
}

/// The names of the outputs.
fn reserve_outputs(graph: &GraphProto) -> Vec<String> {
    graph.output.iter().map(|output| output.name.clone()).collect()
}

/// Makes inputs constants.
fn fix_inputs(
    of: &mut Translation,
    graph: &GraphProto,
    values: &[(String, Stored)],
) -> Result<(), Diagnostic> {
    for (name, value) in values {
        if !graph.input.iter().any(|input| input.name == *name) {
            let known = graph.input.iter().map(|input| input.name.as_str());
            let near = nearest(name, known).map(|near| format!("did you mean `{near}`?"));
            let help = near.unwrap_or_else(|| "give the name of an input".to_owned());
            return Err(unsupported(format!("the model has no input `{name}`"), help));
        }
        let declared = graph.input.iter().find(|input| input.name == *name);
        let declared = declared.and_then(|input| input.r#type.as_ref()?.tensor_type.as_ref());
        let number = declared.map_or(0, |tensor| tensor.elem_type);
        let (dtype, narrow) = element_of(number, &format!("the input `{name}`"))?;
        if dtype != value.dtype {
            let message = format!("the input `{name}` is {dtype}, the given value is {}", value.dtype);
            return Err(unsupported(message, "give elements of the type of the input"));
        }
        of.values.add_stored(name, Stored { narrow, ..value.clone() });
    }
    Ok(())
}

/// Adds the inputs that no initializer fills.
fn inputs(
    of: &mut Translation,
    graph: &GraphProto,
    seen: &[Seen],
) -> Result<Vec<(String, Type)>, Diagnostic> {
    let mut open: BTreeMap<String, Dim> = BTreeMap::new();
    let mut inputs = vec![];
    for input in graph.input.iter().filter(|input| !of.values.has(&input.name)).collect::<Vec<_>>() {
        let seen = seen.iter().find(|seen| seen.is_of(&input.name, inputs.is_empty()));
        let (ty, narrow) = input_type(of, input, seen, &mut open)?;
        let name = of.values.names.source(&input.name);
        of.values.add_input(&input.name, &name, (ty.clone(), narrow));
        if let Some(known) = seen.filter(|_| narrow.is_none()).and_then(|seen| seen.known(&ty)) {
            of.values.set_known(&input.name, known);
        }
        inputs.push((name, ty));
    }
    of.open_extents = open.values().filter_map(Dim::name).map(|name| name.to_string()).collect();
    let is_open = |(_, dim): &(&String, &Dim)| dim.name().is_some();
    of.open_names = open.iter().filter(is_open).map(|(name, _)| name.clone()).collect();
    let unknown = of.dims.iter().find(|(name, _)| !open.keys().any(|known| is_called(name, known)));
    if let Some((name, _)) = unknown {
        let known: Vec<&str> = open.keys().map(String::as_str).collect();
        let help = match (nearest(name, known.iter().copied()), known.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, true) => "all extents of the model are numbers".to_owned(),
            (None, false) => format!("there are {}", known.join(", ")),
        };
        return Err(unsupported(format!("--dim: the model has no open extent `{name}`"), help));
    }
    Ok(inputs)
}

fn input_type(
    of: &mut Translation,
    input: &ValueInfoProto,
    seen: Option<&Seen>,
    open: &mut BTreeMap<String, Dim>,
) -> Result<(Type, Option<&'static Narrow>), Diagnostic> {
    let what = format!("the input `{}`", input.name);
    let tensor = input.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let Some(TensorTypeProto { elem_type, shape: Some(shape) }) = tensor else {
        return Err(unsupported(
            format!("{what} is no tensor with a known number of axes"),
            "export the model with tensors as inputs",
        ));
    };
    let (dtype, narrow) = element_of(*elem_type, &what)?;
    let seen = seen.map(|seen| &seen.extents).filter(|extents| extents.len() == shape.dim.len());
    let mut extents = vec![];
    for (axis, dim) in shape.dim.iter().enumerate() {
        extents.push(extent(of, dim, (&input.name, axis), seen.and_then(|extents| extents[axis]), open));
    }
    let ty = Type { dtype, shape: extents };
    match ty.is_holdable() {
        true => Ok((ty, narrow)),
        false => Err(broken(
            format!("{what} is {ty}, which no machine holds"),
            "the file is damaged; export the model again",
        )),
    }
}

/// An extent: a number, or a name that is valid in a pipeline. `seen` is the number that a value shows.
fn extent(
    of: &mut Translation,
    dim: &DimensionProto,
    (input, axis): (&str, usize),
    seen: Option<usize>,
    open: &mut BTreeMap<String, Dim>,
) -> Dim {
    if let Some(n) = dim.dim_value.and_then(|n| usize::try_from(n).ok()) {
        return Dim::Fixed(n);
    }
    // Some exporters write -1 or `?` for each extent that is open.
    let name = match dim.dim_param.as_str() {
        "" | "?" | "-1" | "None" => format!("{input}_{axis}"),
        name => name.to_owned(),
    };
    if let Some(known) = open.get(&name) {
        return known.clone();
    }
    let given = of.dims.iter().find(|(given, _)| is_called(given, &name)).map(|(_, n)| *n);
    let dim = match given.or(seen) {
        Some(n) => Dim::Fixed(n),
        None => Dim::Named(of.values.names.unique(&plain(&name)).replace('.', "_").into()),
    };
    open.insert(name, dim.clone());
    dim
}

/// Whether a name is that of an extent in the model, or as messages write it.
fn is_called(given: &str, name: &str) -> bool {
    given == name || given == plain(name)
}

/// The name of an extent without punctuation.
fn plain(name: &str) -> String {
    name.replace(['.', ':', '/'], "_")
}

/// Outputs with their nodes, and the types of these.
type Outputs = (Vec<(String, String)>, Vec<Type>);

/// The nodes of the outputs. An output that is an input, a parameter or a number becomes a node.
fn finish(of: &mut Translation, outputs: Vec<String>) -> Result<Outputs, Diagnostic> {
    let (mut named, mut types): Outputs = (vec![], vec![]);
    let mut labels = HashSet::new();
    for output in outputs {
        if !of.values.has(&output) || !labels.insert(output.clone()) {
            let message = match of.values.has(&output) {
                true => format!("the output `{output}` is named twice"),
                false => format!("no node gives the output `{output}`"),
            };
            return Err(broken(message, "the file is damaged; export the model again"));
        }
        let tensor = of.values.tensor(&output);
        let (mut node, ty) = tensor.map_err(|fault| of.advised(fault))?;
        if !of.values.is_node(&node) {
            node = of.values.define(&output, expression(&format!("copy({node})")))?;
        }
        named.push((output, node));
        types.push(ty);
    }
    match named.is_empty() {
        true => Err(broken("the model has no outputs", "the file is damaged; export the model again")),
        false => Ok((named, types)),
    }
}

/// The functions that nodes call. A function stands behind those that it calls.
fn called(bodies: Vec<Body>, nodes: &[Defined]) -> Vec<Body> {
    let mut callees = HashSet::new();
    let note = |nodes: &[Defined], callees: &mut HashSet<String>| {
        let mut visit = |expr: &Expr| {
            if let ExprKind::Call { callee, .. } = &expr.kind {
                callees.insert(callee.value.clone());
            }
        };
        nodes.iter().for_each(|node| walk(&node.expr, &mut visit));
    };
    note(nodes, &mut callees);
    let mut found: Vec<Body> = vec![];
    for body in bodies.into_iter().rev() {
        if callees.contains(&body.name) {
            note(&body.nodes, &mut callees);
            found.push(body);
        }
    }
    found.reverse();
    found
}

/// The parameters that nodes read.
fn used_params(params: Vec<Param>, nodes: &[Defined], outputs: &[(String, String)]) -> Vec<Param> {
    let mut used: HashSet<String> = outputs.iter().map(|(_, node)| node.clone()).collect();
    nodes
        .iter()
        .for_each(|node| crate::inline::names(&node.expr, &mut |name| _ = used.insert(name.to_owned())));
    params.into_iter().filter(|param| used.contains(&param.name)).collect()
}
