//! `engine run`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine_core::compile::Options;
use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_core::pipeline::{Stage, StageKind};
use engine_runtime::data::source::{DataSet, LoadContext, Sources};
use engine_runtime::device::Device;
use engine_runtime::session::{self, CompilingPlanner, Inspection, Report, Session, SessionError};
use indexmap::IndexMap;

use super::RunArgs;
use super::device::{compile_options, compile_options_for, on_opened, open_beside};
use super::dump::{Dumps, expect_nodes};
use super::explain::compile_stages;
use super::html;
use super::open::{Opened, open};
use super::output::{Failure, expect_folder, remark};
use super::progress::Progress;
use crate::Engine;

pub(super) fn run(engine: Engine, args: &RunArgs) -> Result<(), Failure> {
    let Engine { mut registry, sources } = engine;
    let opened = open(&args.pipeline.graph, &mut registry)?;
    args.report.iter().try_for_each(|path| expect_folder(path))?;
    let mut progress = Progress::new(args.quiet);
    if !args.dump.is_empty() {
        let (data_dir, options) = (args.pipeline.data_dir(), compile_options(&args.machine.compile));
        let stages = compile_stages(&opened, registry.clone(), &sources, data_dir, options, None)?;
        expect_nodes(&args.dump, &stages)?;
    }
    let is_prediction = |stage: &Stage| matches!(stage.kind, StageKind::Predict(_));
    if opened.pipeline.stages.iter().all(is_prediction) && !args.quiet {
        remark("note: there is no stage to run; `engine predict` computes outputs for rows of a file");
    }
    let (report, options) = run_stages(&opened, registry.clone(), &sources, args, &mut progress)?;
    let Some(path) = &args.report else { return Ok(()) };
    if path.extension().is_some_and(|extension| extension == "html") {
        let data_dir = args.pipeline.data_dir();
        let compiled = compile_stages(&opened, registry, &sources, data_dir, options, None)?;
        return write(path, &html::page(&report, &compiled));
    }
    write(path, &(serde_json::to_string_pretty(&report).map_err(Failure::machine)? + "\n"))
}

/// Runs the stages on the device that is asked for; under `auto`, on the next one where a device cannot. Returns how they
/// were compiled as well.
fn run_stages(
    opened: &Opened,
    registry: Registry,
    sources: &Sources,
    args: &RunArgs,
    progress: &mut Progress,
) -> Result<(Report, Options), Failure> {
    let context = LoadContext { say: |line| remark(line), ..LoadContext::from_env(args.pipeline.data_dir()) };
    let load = || session::load_data(&opened.pipeline, sources, &context, &mut |event| progress.show(event));
    let (used, sets) = open_beside(&args.machine.place, load)?;
    let sets = sets.map_err(|error| opened.failure(error))?;
    on_opened(used, args.quiet, |device| {
        let mut dumps = Dumps::new(args);
        let ran = run_on(device, opened, &registry, sets.clone(), args, (&mut *progress, &mut dumps));
        progress.finish();
        let report = ran.map_err(|error| opened.failure(error))?;
        dumps.finish()?;
        Ok((report, compile_options_for(&args.machine.compile, &**device)))
    })
}

fn run_on(
    device: &Arc<dyn Device>,
    opened: &Opened,
    registry: &Registry,
    sets: IndexMap<Symbol, DataSet>,
    args: &RunArgs,
    (progress, dumps): (&mut Progress, &mut Dumps<'_>),
) -> Result<Report, SessionError> {
    let pipeline = Arc::clone(&opened.pipeline);
    let options = compile_options_for(&args.machine.compile, &**device);
    let kept = args.dump.iter().map(|node| node.as_str().into()).collect();
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry.clone(), options).keeping(kept);
    let mut session = Session::new(pipeline, Arc::new(planner), Arc::clone(device), sets)?;
    args.residency.apply(&mut session);
    session.inspect(Inspection { trace_nan: args.trace_nan, every: args.dump_every });
    interrupt_by(session.cancel_flag());
    session.run_stages(args.resume.as_deref(), &mut |event| {
        dumps.see(event);
        progress.show(event);
    })
}

/// The first Ctrl-C asks the session to stop after its step, a second one ends the program at once.
fn interrupt_by(flag: Arc<AtomicBool>) {
    static CURRENT: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);
    let is_first = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).replace(flag).is_none();
    if !is_first {
        return;
    }
    let handler = || {
        let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|flag| flag.swap(true, Ordering::Relaxed)) {
            std::process::exit(130);
        }
        remark("stopping after this step; press again to stop at once");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        remark(format!("note: Ctrl-C will stop the program at once: {error}"));
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::unwritable(path, &error))
}
