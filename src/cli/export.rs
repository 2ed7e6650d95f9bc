//! `engine export`.

use std::sync::Arc;

use engine_core::compile::Options;
use engine_core::diag::Sources;
use engine_core::ir::{Dim, Symbol, Value};
use engine_core::pipeline::Pipeline;
use engine_core::stage::StageIssue;
use engine_runtime::session::{CompilingPlanner, Fault, Session};
use indexmap::IndexMap;

use super::args::ExportArgs;
use super::file::{self, MODEL};
use super::open::{Opened, open_to_export};
use super::output::{Failure, print, remark};
use super::predict::{expect_checkpoint, loaded};
use crate::Engine;
use crate::devices::{self, Choice};
use crate::export::{Refused, model};

/// Writes nodes of a graph, with the values of its parameters, as an ONNX model.
pub(super) fn export(engine: Engine, args: &ExportArgs) -> Result<(), Failure> {
    let Engine { mut registry, .. } = engine;
    let opened = open_to_export(&args.graph, &args.outputs, &mut registry)?;
    expect_checkpoint(&opened, args.load.as_deref())?;
    file::expect_room(&args.model, &MODEL, args.force.overwrite())?;
    let weights = {
        let device = devices::open(Choice::Cpu, None).map_err(Failure::machine)?.device;
        let pipeline = Arc::clone(&opened.pipeline);
        let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry.clone(), Options::default());
        let session = Session::new(pipeline, Arc::new(planner), device, IndexMap::new());
        let mut session = session.map_err(|error| opened.failure(error))?;
        opened.fill(&mut session)?;
        for note in loaded(&opened, &mut session, args.load.as_deref())? {
            remark(format!("note: {note}"));
        }
        session.parameters()?
    };
    let outputs: Vec<Symbol> = args.outputs.iter().map(|name| name.as_str().into()).collect();
    expect_open(&opened.pipeline, &args.dim)
        .and_then(|()| expect_numbers(&opened.pipeline, &outputs, &args.dim))
        .map_err(|issue| failure(&opened, Refused::Stage(issue)))?;
    let bytes = model((&opened.pipeline, &registry), &weights, &outputs, &args.dim);
    let bytes = bytes.map_err(|refused| failure(&opened, refused))?;
    file::write(&args.model, (&MODEL, args.force.overwrite()), &|file| file.write_all(&bytes))?;
    print(format!("{}: {} bytes", args.model.display(), bytes.len()));
    Ok(())
}

fn failure(opened: &Opened, refused: Refused) -> Failure {
    match refused {
        Refused::Stage(issue) => opened.issue_failure(issue),
        Refused::Model(diagnostic) => Failure::diagnostic(Fault::Graph, diagnostic, &Sources::new()),
    }
}

/// Fails if an input of the outputs has an extent without a number.
fn expect_numbers(
    pipeline: &Pipeline,
    outputs: &[Symbol],
    extents: &[(Symbol, usize)],
) -> Result<(), StageIssue> {
    let mut graph = pipeline.graph.clone();
    graph.outputs = outputs.iter().filter_map(|name| Some((name.clone(), graph.find(name)?))).collect();
    let graph = graph.pruned();
    let is_open = |name: &&Symbol| !extents.iter().any(|(given, _)| given == *name);
    for (id, _) in graph.inputs() {
        let node = &graph.nodes[id];
        if let Some(open) = node.outputs[0].ty.shape.iter().flat_map(Dim::names).find(is_open) {
            let message = format!("`{}`: the extent `{open}` has no value", node.name());
            return Err(StageIssue::new(message, node.span).help(format!("`--dim {open}=N` gives it one")));
        }
    }
    Ok(())
}

/// Fails if an extent is no open one of an input.
fn expect_open(pipeline: &Pipeline, extents: &[(Symbol, usize)]) -> Result<(), StageIssue> {
    let graph = &pipeline.graph;
    let types = graph.inputs().map(|(id, _)| graph.ty(Value::of(id)));
    let open: Vec<&Symbol> = types.flat_map(|ty| &ty.shape).filter_map(Dim::name).collect();
    let Some((unknown, _)) = extents.iter().find(|(name, _)| !open.contains(&name)) else { return Ok(()) };
    let issue = StageIssue::new(format!("no input has an open extent `{unknown}`"), None);
    Err(issue.help("`--set dims.NAME=N` changes an extent of the pipeline"))
}
