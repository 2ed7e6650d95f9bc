//! `engine run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine_core::compile::Options;
use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_core::pipeline::{PredictStage, Stage};
use engine_core::stage::NormShown;
use engine_runtime::data::source::{DataSet, LoadContext, Sources};
use engine_runtime::device::Device;
use engine_runtime::files::Format;
use engine_runtime::session::{
    self, CompilingPlanner, DataReport, Effort, Inspection, Report, Session, SessionError, StageMeasure,
    check_stages,
};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::args::RunArgs;
use super::device::{compile_options, compile_options_for, on_opened, open_during};
use super::dump::{Dumps, expect_nodes, expect_room, nodes_of};
use super::explain::compile_stages;
use super::file::{self, PAGE, REPORT};
use super::html::{self, Seen};
use super::log::Log;
use super::machine;
use super::open::{Opened, open_for};
use super::output::{Failure, complain, remark};
use super::progress::Progress;
use super::record::Recorder;
use super::signals::{end_at_once, interrupt_by};
use crate::Engine;

pub(super) fn run(engine: Engine, mut args: RunArgs) -> Result<(), Failure> {
    let Engine { mut registry, sources } = engine;
    let opened = open_for(&args.pipeline.graph, &args.inputs.named(), &mut registry)?.only(&args.only)?;
    let opened = args.load.iter().fold(opened, |opened, path| opened.loading(path));
    args.dump = nodes_of(&args.dump, &opened.pipeline);
    let args = &args;
    let report = args.report.as_ref();
    let expect = |path: &PathBuf| file::expect_writable(path, report_format(path), args.force.overwrite());
    let held = report.map(expect).transpose()?.flatten();
    args.inputs.expect_known(&opened.pipeline)?;
    let mut progress = Progress::new(args.quiet);
    let is_prediction = |stage: &Stage| stage.get::<PredictStage>().is_some();
    if !args.dump.is_empty() {
        let (data_dir, options) = (args.pipeline.data_dir(), compile_options(&args.machine.compile));
        let mut stages =
            compile_stages(&opened, registry.clone(), &sources, data_dir, options, None, &args.dump)?;
        stages
            .retain(|(name, _)| opened.pipeline.stages.iter().any(|s| s.name == *name && !is_prediction(s)));
        expect_nodes(&args.dump, &opened.pipeline, &stages)?;
        expect_room(args, &stages)?;
    }
    if opened.pipeline.stages.iter().all(is_prediction) && !args.quiet {
        remark("note: there is no stage to run; `engine predict` computes outputs for rows of a file");
    }
    let mut recorder = recorder(&opened, args)?;
    let mut ran = None;
    let watching = (&mut progress, &mut recorder, &mut ran);
    let ended = run_stages(&opened, registry.clone(), &sources, args, watching);
    let ended = recorder.end(ended, ran.as_ref().map(|ran| ran.report.end));
    // Writing into a pipe may block forever if its reader is slow.
    if held.is_some() {
        end_at_once();
    }
    let reported = match (&args.report, ran) {
        (Some(path), Some(ran)) => write_report(path, (&ran, &recorder), args, &opened, registry, &sources),
        _ => Ok(()),
    };
    // If both failed, the failure of the run is reported.
    if let (Err(_), Err(failure)) = (&ended, &reported) {
        complain(&failure.text);
    }
    ended.and(reported)
}

/// A run, even a failed or interrupted one.
struct Ran {
    report: Report,
    /// The compiler settings of its stages.
    options: Options,
    /// The times of the kernels of its stages, for a page.
    measured: Vec<StageMeasure>,
}

/// The effort of measuring kernels for a page.
const EFFORT: Effort = Effort { warmup: 0, steps: 0, at_once: 1, profiled: 5 };

fn recorder(opened: &Opened, args: &RunArgs) -> Result<Recorder, Failure> {
    let how = (args.resume.is_some(), args.force.overwrite());
    let log = args.log.as_ref().map(|folder| Log::open(folder, &opened.pipeline, how)).transpose()?;
    Ok(Recorder::new(log, args.log_every))
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "html")
}

fn report_format(path: &Path) -> &'static Format {
    if is_page(path) { &PAGE } else { &REPORT }
}

fn write_report(
    path: &Path,
    (ran, recorder): (&Ran, &Recorder),
    args: &RunArgs,
    opened: &Opened,
    registry: Registry,
    sources: &Sources,
) -> Result<(), Failure> {
    let text = match is_page(path) {
        true => {
            let data_dir = args.pipeline.data_dir();
            let options = ran.options.clone();
            let compiled = compile_stages(opened, registry, sources, data_dir, options, None, &[])?;
            html::page(&Seen {
                report: &ran.report,
                courses: &recorder.courses,
                compiled: &compiled,
                measured: &ran.measured,
                pipeline: &opened.pipeline,
                settings: &opened.settings,
            })
        }
        false => serde_json::to_string_pretty(&ran.report).map_err(Failure::machine)? + "\n",
    };
    let write = |file: &mut dyn Write| file.write_all(text.as_bytes());
    file::write(path, (report_format(path), args.force.overwrite()), &write)
}

/// Runs the stages on the requested device. Under `auto`, the next device replaces one that fails.
fn run_stages(
    opened: &Opened,
    registry: Registry,
    sources: &Sources,
    args: &RunArgs,
    (progress, recorder, ran): (&mut Progress, &mut Recorder, &mut Option<Ran>),
) -> Result<(), Failure> {
    let context = LoadContext::from_env(args.pipeline.data_dir());
    let context = LoadContext { say: |line| remark(line), stand_in: !args.no_stand_in, ..context };
    let load = || session::load_data(&opened.pipeline, sources, &context, &mut |event| progress.show(event));
    let (used, sets) = open_during(&args.machine.place, load)?;
    let sets = sets.map_err(|error| opened.failure(error))?;
    // Faults that a later stage would report are reported before the first step.
    if args.resume.is_none() {
        let open_inputs = check_stages(&opened.pipeline, &sets, &args.inputs.given(), &registry);
        if let Some(missing) = open_inputs.map_err(|error| opened.failure(error))?.into_iter().next() {
            return Err(opened.failure(missing));
        }
    }
    on_opened(used, args.quiet, |device| {
        let mut dumps = Dumps::new(args);
        recorder.begin(|| facts(opened, &**device, &sets, args), &opened.settings);
        let options = compile_options_for(&args.machine.compile, &**device);
        let mut now = Ran { report: Report::default(), options, measured: vec![] };
        let watching = (&mut *progress, &mut *recorder, &mut dumps);
        let ended = run_on(device, opened, &registry, sets.clone(), args, (watching, &mut now));
        *ran = Some(now);
        progress.finish();
        ended.map_err(|error| opened.failure(error))?;
        dumps.finish()
    })
}

fn run_on(
    device: &Arc<dyn Device>,
    opened: &Opened,
    registry: &Registry,
    sets: IndexMap<Symbol, DataSet>,
    args: &RunArgs,
    ((progress, recorder, dumps), ran): ((&mut Progress, &mut Recorder, &mut Dumps<'_>), &mut Ran),
) -> Result<(), SessionError> {
    let pipeline = Arc::clone(&opened.pipeline);
    let options = ran.options.clone();
    let kept = args.dump.iter().map(|node| node.as_str().into()).collect();
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry.clone(), options).keeping(kept);
    let has_page = args.report.as_ref().is_some_and(|path| is_page(path));
    let is_watched = progress.shows_numbers() || args.log.is_some() || has_page;
    let planner = planner.reporting_norm(match (args.grad_norm, is_watched) {
        (true, _) => NormShown::Always,
        (false, true) => NormShown::IfClipped,
        (false, false) => NormShown::Never,
    });
    let mut session = Session::new(pipeline, Arc::new(planner), Arc::clone(device), sets)?;
    opened.fill(&mut session)?;
    args.residency.apply(&mut session);
    for (input, value) in &args.inputs.input {
        session.give(input, value.clone())?;
    }
    session.inspect(Inspection {
        trace_nan: args.trace_nan,
        every: args.dump_every,
        progress_every: args.log_every,
    });
    interrupt_by(session.cancel_flag());
    session.overwrite(args.force.overwrite());
    session.report_stages(args.resume.as_deref(), &mut ran.report, &mut |event| {
        dumps.see(event);
        progress.show(event);
        recorder.see(event);
    })?;
    if has_page {
        // A page without times is better than none.
        ran.measured = session.measure(None, EFFORT).unwrap_or_default();
    }
    Ok(())
}

/// The facts of a run for the first line of its log.
fn facts(
    opened: &Opened,
    device: &dyn Device,
    sets: &IndexMap<Symbol, DataSet>,
    args: &RunArgs,
) -> Map<String, Value> {
    let data: Map<String, Value> =
        sets.iter().map(|(name, set)| (name.to_string(), json!(DataReport::from(set)))).collect();
    let facts = [
        ("graph", json!(opened.pipeline.name)),
        ("device", json!(device.info().name)),
        ("seed", json!(opened.pipeline.seed)),
        ("command", json!(machine::command())),
        ("machine", json!(machine::description())),
        ("resumed", json!(args.resume)),
        ("data", data.into()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
