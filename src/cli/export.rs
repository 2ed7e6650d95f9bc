//! `engine export`.

use std::sync::Arc;

use engine_core::compile::Options;
use engine_core::diag::Sources;
use engine_core::ir::Symbol;
use engine_runtime::session::{CompilingPlanner, Fault, Session, StageFault};
use indexmap::IndexMap;

use super::args::ExportArgs;
use super::file::{self, MODEL};
use super::open::{Opened, open};
use super::output::{Failure, print, remark};
use super::predict::{expect_checkpoint, loaded};
use crate::Engine;
use crate::devices::{self, Choice};
use crate::export::{Refused, model};

/// Writes nodes of a graph, with the values of its parameters, as an ONNX model.
pub(super) fn export(engine: Engine, args: &ExportArgs) -> Result<(), Failure> {
    let Engine { mut registry, .. } = engine;
    let opened = open(&args.graph, &mut registry)?;
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
    let bytes = model((&opened.pipeline, &registry), &weights, &outputs, &args.dim);
    let bytes = bytes.map_err(|refused| failure(&opened, refused))?;
    file::write(&args.model, (&MODEL, args.force.overwrite()), &|file| file.write_all(&bytes))?;
    print(format!("{}: {} bytes", args.model.display(), bytes.len()));
    Ok(())
}

fn failure(opened: &Opened, refused: Refused) -> Failure {
    match refused {
        Refused::Stage(issue) => opened.stage_failure("export", &StageFault(issue)),
        Refused::Model(diagnostic) => Failure::diagnostic(Fault::Graph, diagnostic, &Sources::new()),
    }
}
