//! Stage kinds as they run, an open set: one file each.

mod evaluate;
mod load;
mod predict;
mod run;
mod save;
mod search;
mod train;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use engine_core::compile::Compiled;
use engine_core::front::StageForm;
use engine_core::ir::Symbol;
use engine_core::op::{Form, Registry};
use engine_core::pipeline::{
    Evaluation, LoadStage, Pipeline, PredictStage, RunStage, SaveStage, SearchStage, SplitRef, Stage,
    StageKind, TrainStage,
};
use engine_core::plan::Plan;
use engine_core::stage::SplitShape;
use indexmap::IndexMap;

use super::check::Checking;
use super::compiling::CompilingPlanner;
use super::error::SessionError;
use super::plan::Planner;
use super::report::{OutputReport, StageReport};
use super::resume::Resume;
use super::{Session, Subscriber};
use crate::device::{KernelTime, RunError};
use crate::files::Format;
use crate::tensor::HostTensor;

/// A stage that a session can run.
pub trait Runnable: StageKind {
    /// Runs the stage. A kind that `engine run` passes over returns no report.
    ///
    /// # Errors
    /// If the stage does not end, with its report so far.
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped>;

    /// Looks for faults that would end the stage before its first step. Returns an error for each input without a
    /// value, which the caller of the run may give.
    ///
    /// # Errors
    /// If the stage would fail.
    fn check(&self, _checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        Ok(vec![])
    }

    /// Compiles one step, if the stage takes steps.
    ///
    /// # Errors
    /// If the stage has no graph.
    fn compile(&self, _compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        Ok(None)
    }

    /// Prepares the steps for measuring, if the stage takes steps.
    ///
    /// # Errors
    /// As for running the stage.
    fn steps(&self, _session: &mut Session, _name: &Symbol) -> Result<Option<Box<dyn Steps>>, SessionError> {
        Ok(None)
    }

    /// The files that the stage writes, with their formats.
    fn files(&self) -> Vec<(&Path, &'static Format)> {
        vec![]
    }

    /// Whether a run can be resumed within the stage.
    fn is_resumable(&self) -> bool {
        false
    }
}

/// The steps of a stage, prepared.
pub trait Steps {
    /// The plan of a whole step.
    fn plan(&self) -> &Arc<Plan>;

    /// Whole steps before the first comes again.
    fn n_whole(&self) -> u64 {
        u64::from(u32::MAX)
    }

    /// Takes steps.
    ///
    /// # Errors
    /// If the device fails.
    fn run(&mut self, step: u64, n_steps: usize) -> Result<(), RunError>;

    /// Seconds in which the host submitted the last steps to a GPU, if the device is one.
    fn host_seconds(&self) -> Option<f64>;

    /// Takes a step, each launch timed.
    ///
    /// # Errors
    /// If the device fails.
    fn profile(&mut self, step: u64) -> Result<Vec<KernelTime>, RunError>;
}

/// How stages of one kind become [`Runnable`].
pub struct Runner {
    name: &'static str,
    cast: fn(&dyn StageKind) -> Option<&dyn Runnable>,
}

impl Runner {
    /// The runner of the kind `T`, whose keyword is `name`.
    pub const fn of<T: Runnable>(name: &'static str) -> Runner {
        Runner { name, cast: cast::<T> }
    }
}

fn cast<T: Runnable>(kind: &dyn StageKind) -> Option<&dyn Runnable> {
    let kind: &dyn Any = kind;
    kind.downcast_ref::<T>().map(|kind| kind as &dyn Runnable)
}

/// The built-in runners, in the order of the built-in stage kinds.
static RUNNERS: [Runner; 7] = [
    Runner::of::<TrainStage>("Train"),
    Runner::of::<Evaluation>("Evaluate"),
    Runner::of::<PredictStage>("Predict"),
    Runner::of::<RunStage>("Run"),
    Runner::of::<SearchStage>("Search"),
    Runner::of::<SaveStage>("Save"),
    Runner::of::<LoadStage>("Load"),
];

impl Form for Runner {
    const SET: &'static str = "stage runner";

    fn name(&self) -> &str {
        self.name
    }

    fn builtin() -> &'static [Self] {
        &RUNNERS
    }
}

/// Registers a stage kind: how it is read, and that it runs as `T` does.
///
/// # Panics
/// If the keyword is taken.
pub fn register<T: Runnable>(registry: &mut Registry, form: StageForm) {
    let runner = Runner::of::<T>(form.keyword);
    registry.register(form).register(runner);
}

/// The stage as its kind's runner sees it.
///
/// # Errors
/// If the kind has no runner.
pub(super) fn runnable<'s>(stage: &'s Stage, registry: &Registry) -> Result<&'s dyn Runnable, SessionError> {
    let mut runners = registry.forms::<Runner>();
    runners.find_map(|runner| (runner.cast)(&*stage.kind)).ok_or_else(|| SessionError::NoRunner {
        stage: stage.name.clone(),
        kind: stage.kind.keyword().to_string(),
    })
}

/// Compiles one step of a stage, for whole batches.
///
/// # Errors
/// If the stage has no graph or no runner.
pub fn compile_stage(
    stage: &Stage,
    planner: &CompilingPlanner,
    shape: Shapes<'_>,
    most_rows: Option<usize>,
) -> Result<Option<Compiled>, SessionError> {
    let runnable = runnable(stage, planner.registry())?;
    runnable.compile(&Compiling { name: &stage.name, planner, shape, most_rows })
}

/// Finds the shape of a split.
pub type Shapes<'c> = &'c dyn Fn(&SplitRef) -> Result<SplitShape, SessionError>;

/// The means to compile a stage without a device.
pub struct Compiling<'c> {
    /// The stage's name.
    pub name: &'c Symbol,
    /// The compiler.
    pub planner: &'c CompilingPlanner,
    /// The shapes of splits.
    pub shape: Shapes<'c>,
    /// The most rows of a batch.
    pub most_rows: Option<usize>,
}

impl Compiling<'_> {
    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        self.planner.pipeline()
    }
}

/// One run of a stage.
pub struct StageRun<'r, 's> {
    /// The session, with parameters, data and device.
    pub session: &'r mut Session,
    /// The stage's name.
    pub name: &'r Symbol,
    /// Receives events.
    pub tell: &'r mut Subscriber<'s>,
    /// The checkpoint to go on from.
    pub(super) resume: Option<Resume>,
    /// The results of the run.
    pub(super) outputs: &'r mut IndexMap<String, OutputReport>,
}

impl StageRun<'_, '_> {
    /// Adds results to the report of the run.
    pub fn add_outputs(&mut self, outputs: &IndexMap<String, HostTensor>) {
        self.outputs.extend(outputs.iter().map(|(name, tensor)| (name.clone(), tensor.into())));
    }

    /// The report of a stage that takes no steps.
    pub fn report(&self, kind: &str, start: Instant) -> StageReport {
        StageReport {
            name: self.name.to_string(),
            kind: kind.to_string(),
            seconds: start.elapsed().as_secs_f64(),
            ..StageReport::default()
        }
    }
}

/// A stage that did not end.
#[derive(Debug)]
pub struct Stopped {
    /// Why.
    pub error: Box<SessionError>,
    /// The report so far.
    pub report: Option<Box<StageReport>>,
}

impl From<SessionError> for Stopped {
    fn from(error: SessionError) -> Self {
        Stopped { error: Box::new(error), report: None }
    }
}
