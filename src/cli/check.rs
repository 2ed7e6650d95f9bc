//! `engine check`.

use std::collections::HashSet;
use std::path::Path;

use engine_core::pipeline::{Given, Pipeline};
use engine_runtime::data::source::{DataSet, LoadContext, Sources};
use engine_runtime::diagnostic::Coded;
use engine_runtime::files::Overwrite;
use engine_runtime::session::{check_files, check_stages, load_set};
use indexmap::IndexMap;

use engine_core::diag::Code;
use engine_core::ir::Symbol;

use super::args::{CheckArgs, GraphArgs, InputArgs};
use super::open::{Opened, open_for};
use super::output::{Failure, complain, print, remark};
use crate::Engine;

/// Checks each pipeline by itself. Of several, all faults are printed, then a summary.
pub(super) fn check(engine: Engine, args: &CheckArgs) -> Result<(), Failure> {
    let [graph] = &args.graphs[..] else { return check_several(&engine, args) };
    print(check_one(&engine, graph, args)?);
    Ok(())
}

fn check_several(engine: &Engine, args: &CheckArgs) -> Result<(), Failure> {
    let mut faulty = vec![];
    for graph in &args.graphs {
        match check_one(engine, graph, args) {
            Ok(sound) => print(sound),
            Err(failure) => {
                complain(&failure.text);
                faulty.push(graph.display().to_string());
            }
        }
    }
    let n_graphs = args.graphs.len();
    if faulty.is_empty() {
        print(format!("{n_graphs} pipelines are sound"));
        return Ok(());
    }
    let (n_faulty, names) = (faulty.len(), faulty.join(", "));
    Err(Failure::graph(format!("{n_faulty} of {n_graphs} pipelines cannot run: {names}")))
}

/// The line of a sound pipeline.
fn check_one(engine: &Engine, graph: &Path, args: &CheckArgs) -> Result<String, Failure> {
    let mut registry = engine.registry.clone();
    let graph = GraphArgs { graph: graph.to_owned(), changes: args.changes.clone() };
    let opened = open_for(&graph, &args.inputs.named(), &mut registry)?;
    let pipeline = &opened.pipeline;
    args.inputs.expect_known(pipeline)?;
    let context =
        LoadContext { offline: true, stand_in: false, ..LoadContext::from_env(args.data_dir.as_deref()) };
    let sets = available_data(&opened, &engine.sources, &context)?;
    let open_inputs = check_stages(pipeline, &sets, &args.inputs.given(), &registry);
    for missing in open_inputs.map_err(|error| opened.failure(error))? {
        remark(format!("note: {missing}; {}", missing.help().unwrap_or_default()));
    }
    let overwrite = if args.force { Overwrite::Any } else { Overwrite::Own };
    check_files(&pipeline.stages, &registry, overwrite).map_err(|error| opened.failure(error))?;
    let (n_nodes, n_params, n_stages) =
        (pipeline.graph.nodes.len(), pipeline.params.len(), pipeline.stages.len());
    Ok(format!(
        "{}: {} is sound: {n_nodes} nodes, {n_params} parameters, {n_stages} stages",
        graph.graph.display(),
        pipeline.name
    ))
}

/// The available data sets. For each missing one, a note says that its stages are checked without it.
fn available_data(
    opened: &Opened,
    sources: &Sources,
    context: &LoadContext,
) -> Result<IndexMap<Symbol, DataSet>, Failure> {
    let mut sets = IndexMap::new();
    for decl in &opened.pipeline.data {
        match load_set(&opened.pipeline, decl, sources, context) {
            Ok(set) => drop(sets.insert(decl.name.clone(), set)),
            Err(error) if error.code() == Some(Code::E0501) => {
                remark(format!("note: {error}; its stages are checked without it"));
            }
            Err(error) => return Err(opened.failure(error)),
        }
    }
    Ok(sets)
}

impl InputArgs {
    /// The values by name.
    pub(super) fn given(&self) -> IndexMap<Symbol, Given> {
        self.input.iter().map(|(name, value)| (name.as_str().into(), value.clone())).collect()
    }

    /// The values as [`open_for`] takes them.
    pub(super) fn named(&self) -> Vec<(Option<String>, Given)> {
        self.input.iter().map(|(name, given)| (Some(name.clone()), given.clone())).collect()
    }

    /// A fault that the parser cannot find by itself: an input that is given more than once.
    pub(super) fn misuse(&self) -> Option<String> {
        let mut names = HashSet::new();
        let repeated = self.input.iter().map(|(name, _)| name).find(|name| !names.insert(*name))?;
        Some(format!("--input {repeated} is given twice: leave one of them out"))
    }

    /// Fails if a name is not an input of the graph.
    pub(super) fn expect_known(&self, pipeline: &Pipeline) -> Result<(), Failure> {
        let known = || pipeline.inputs.iter().map(|input| &*input.name);
        match self.input.iter().find(|(name, _)| !known().any(|input| input == name)) {
            Some((name, _)) => Err(unknown_input(name, known().collect())),
            None => Ok(()),
        }
    }
}

fn unknown_input(name: &str, known: Vec<&str>) -> Failure {
    let near = engine_core::diag::nearest(name, known.iter().copied());
    Failure::graph(match near {
        Some(near) => format!("there is no input `{name}`; did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no input `{name}`; the pipeline has none"),
        None => format!("there is no input `{name}`; the inputs are {}", known.join(", ")),
    })
}
