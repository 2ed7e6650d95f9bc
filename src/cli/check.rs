//! `engine check`.

use std::collections::HashSet;

use engine_core::pipeline::{Given, Pipeline};
use engine_runtime::data::source::{DataSet, LoadContext, Sources};
use engine_runtime::diagnostic::Coded;
use engine_runtime::files::Overwrite;
use engine_runtime::session::{check_files, check_stages, load_set};
use indexmap::IndexMap;

use engine_core::diag::Code;
use engine_core::ir::Symbol;

use super::args::{CheckArgs, InputArgs};
use super::open::{Opened, open};
use super::output::{Failure, print, remark};
use crate::Engine;

pub(super) fn check(engine: Engine, args: &CheckArgs) -> Result<(), Failure> {
    let Engine { mut registry, sources } = engine;
    let opened = open(&args.pipeline.graph, &mut registry)?;
    let pipeline = &opened.pipeline;
    args.inputs.expect_known(pipeline)?;
    let context =
        LoadContext { offline: true, stand_in: false, ..LoadContext::from_env(args.pipeline.data_dir()) };
    let sets = available_data(&opened, &sources, &context)?;
    let open_inputs = check_stages(pipeline, &sets, &args.inputs.given(), &registry);
    for missing in open_inputs.map_err(|error| opened.failure(error))? {
        let help = missing.help().unwrap_or_default();
        remark(format!("note: {missing}; {help}"));
    }
    let overwrite = if args.force { Overwrite::Any } else { Overwrite::Own };
    check_files(&pipeline.stages, &registry, overwrite).map_err(|error| opened.failure(error))?;
    let (n_nodes, n_params, n_stages) =
        (pipeline.graph.nodes.len(), pipeline.params.len(), pipeline.stages.len());
    print(format!(
        "{}: {} is sound: {n_nodes} nodes, {n_params} parameters, {n_stages} stages",
        args.pipeline.graph.graph.display(),
        pipeline.name
    ));
    Ok(())
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

    /// The first input that is given more than once.
    pub(super) fn repeated(&self) -> Option<&str> {
        let mut names = HashSet::new();
        self.input.iter().map(|(name, _)| name.as_str()).find(|name| !names.insert(*name))
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
