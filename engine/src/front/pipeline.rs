//! From a RON file to a checked [`Pipeline`].
//!
//! Reading goes through the whole file, so that one run shows all errors. A value that depends on a faulty one is not
//! reported.

mod constants;
mod declarations;
mod dims;
mod draft;
mod extents;
mod function;
mod functions;
mod libraries;
mod literals;
mod manner;
mod names;
mod nodes;
mod op_names;
mod params;
mod precision;
mod scope;
mod set;
mod settings;
mod stages;
#[cfg(test)]
mod tests;
mod types;
mod typing;

pub use draft::Draft;
pub use extents::{dims_of_values, fixed_extents};
pub use functions::layers;
pub use libraries::{LibraryText, add_library, add_sound_library, library_text};
pub use set::settings;
pub use stages::{Feeds, StageFields, StageForm, StageReader, given_text};

use super::{Fields, Ron, parse_ron};
use crate::diag::{Code, Diagnostics, FileId, Sources};
use crate::ir::{Builder, Graph, Level, Node, NodeId, Symbol, Value};
use crate::numerics::{Numerics, Precision};
use crate::op::Registry;
use crate::pass::sound;
use crate::pipeline::Pipeline;
use constants::Constants;
use declarations::{read_data, read_dims, read_inputs, read_params};
use function::read_layers;
use functions::Functions;
use indexmap::IndexMap;
use libraries::{add_libraries, read_plugin};
use names::Names;
use nodes::read_nodes;
use precision::read_precision;
use scope::{Scope, report_taken};
use std::collections::HashSet;
use std::ops::Range;

/// Reads and checks a pipeline.
///
/// The functions of the file and of `plugins` are added to the registry. Each override `("train.epochs", "1")` replaces
/// a field of the file by a RON value. Errors and warnings go to `diags`. With an error there is no
/// pipeline.
pub fn load(
    sources: &mut Sources,
    file: FileId,
    registry: &mut Registry,
    overrides: &[(String, String)],
    plugins: &[FileId],
    diags: &mut Diagnostics,
) -> Option<Pipeline> {
    registry.taken().for_each(|fault| _ = diags.push(fault));
    add_libraries(registry, sources);
    let plugins: Vec<Ron> = plugins.iter().map(|&file| parse_ron(file, sources.text(file), diags)).collect();
    let mut root = parse_ron(file, sources.text(file), diags);
    // After a bracket without its partner, most values would be misread.
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

fn read_pipeline(
    root: &Ron,
    file_name: &str,
    mut functions: Functions,
    registry: &mut Registry,
    diags: &mut Diagnostics,
) -> Option<Pipeline> {
    let mut fields = Fields::of(root, "a pipeline", diags)?;
    let name = read_name(&mut fields, file_name, diags);
    let seed = fields.optional("seed").and_then(|v| v.integer("`seed`", 0..=u64::MAX, diags)).unwrap_or(0);
    let (matmul, numerics) = read_numerics(&mut fields, diags);
    let precision = fields.optional("precision").and_then(|v| read_precision(v, "`precision`", diags));
    let deterministic = fields.optional("deterministic").and_then(|v| v.boolean("`deterministic`", diags));
    let dims = fields.optional("dims").map(|v| read_dims(v, root, diags)).unwrap_or_default();
    if let Some(value) = fields.optional("functions") {
        functions.define(value, &dims, registry, diags);
    }
    let known = Constants { names: &Names::new(), dims: &dims };
    let data = fields.optional("data").map(|v| read_data(v, known, diags)).unwrap_or_default();
    let inputs = fields.optional("inputs").map(|v| read_inputs(v, &data, known, diags)).unwrap_or_default();
    let params = fields.optional("params").map(|v| read_params(v, known, diags)).unwrap_or_default();
    let layers = fields.optional("layers").map(|v| read_layers(v, diags)).unwrap_or_default();
    let nodes = fields.optional("nodes").map(|v| read_nodes(v, diags)).unwrap_or_default();
    let stages = fields.optional("stages");
    fields.finish(diags);

    let mut scope = Scope::default();
    let mut builder = Builder::new(Graph::new(name.clone()), registry);
    scope.inputs(&mut builder, &inputs, diags);
    scope.params(&mut builder, &params, diags);
    let written = scope.nodes(&mut builder, (layers, nodes), &dims, &functions.faulty, diags);
    let graph = builder.graph;
    report_taken(&graph, &scope.places, diags);
    let mut first_results = scope.first_results(&graph);
    first_results.extend(scope.paths_of(&written));
    let calls = written.calls_in(&graph);
    let layer_params = written.params.values().map(|(decl, _)| decl.clone());
    let mut pipeline = Pipeline {
        name,
        seed,
        matmul,
        numerics,
        precision: precision.unwrap_or_default(),
        full_precision: &names_of(&graph, &written.full_precision) | &written.full_in_loops,
        recomputed: regions(&graph, written.recomputed),
        deterministic: deterministic.unwrap_or_default(),
        data,
        inputs: inputs.into_iter().map(|(input, _)| input).collect(),
        params: params.into_iter().filter_map(|(.., param)| param).chain(layer_params).collect(),
        first_results: scope.names_at(first_results, &graph),
        calls,
        updates: updates(&graph, written.updates),
        graph,
        stages: vec![],
    };
    if let Some(value) = stages {
        stages::add(value, &mut pipeline, (&scope, &dims, &functions), registry, diags);
    }
    Some(pipeline)
}

/// The name of the pipeline, by default that of its file.
fn read_name(fields: &mut Fields, file_name: &str, diags: &mut Diagnostics) -> String {
    let name = fields.optional("name").and_then(|v| v.word("`name`", diags));
    name.map_or(stem(file_name), |name| name.value).to_owned()
}

/// How matrices are multiplied, and which rewrites are allowed.
fn read_numerics(fields: &mut Fields, diags: &mut Diagnostics) -> (Precision, Numerics) {
    let precisions = [("F32", Precision::F32), ("Tf32", Precision::Tf32)];
    let matmul = fields.optional("matmul").and_then(|v| v.choice("`matmul`", &precisions, diags));
    let numerics = [("Strict", Numerics::Strict), ("Default", Numerics::Default), ("Fast", Numerics::Fast)];
    let numerics = fields.optional("numerics").and_then(|v| v.choice("`numerics`", &numerics, diags));
    (matmul.unwrap_or_default(), numerics.unwrap_or_default())
}

/// States with the names of their next values.
fn updates(graph: &Graph, updates: IndexMap<Symbol, Value>) -> Vec<(Symbol, Symbol)> {
    updates.into_iter().map(|(state, next)| (state, graph.name_of(next).clone())).collect()
}

/// Calls with the names of their nodes.
fn regions(graph: &Graph, calls: Vec<(Symbol, Range<NodeId>)>) -> Vec<(Symbol, HashSet<Symbol>)> {
    calls.into_iter().map(|(path, nodes)| (path, names_of(graph, &[nodes]))).collect()
}

/// The names of nodes, and of those in their regions.
fn names_of(graph: &Graph, ranges: &[Range<NodeId>]) -> HashSet<Symbol> {
    let nodes = ranges.iter().flat_map(|nodes| &graph.nodes[nodes.clone()]);
    nodes.flat_map(Node::names_within).collect()
}

/// `graphs/mnist.ron` is called `mnist`.
fn stem(file_name: &str) -> &str {
    let base = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    base.split('.').next().unwrap_or(base)
}
