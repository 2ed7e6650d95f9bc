//! Stage kinds as they run, an open set: one file each.

mod batch_steps;
mod evaluate;
mod generate;
mod load;
mod part;
mod predict;
mod repeat;
mod run;
mod runnable;
mod save;
mod search;
mod stage_run;
mod train;

pub use super::resume::Progress;
pub use part::Part;
pub use runnable::{Checking, Compiling, Runnable, Shapes, Steps};
pub use stage_run::{StageRun, Stopped};
pub use train::StepLoop;

use std::any::Any;

use engine_core::compile::Compiled;
use engine_core::front::StageForm;
use engine_core::op::{Form, Registry};
use engine_core::pipeline::{
    Evaluation, GenerateStage, LoadStage, PredictStage, RepeatStage, RunStage, SaveStage, SearchStage, Stage,
    StageKind, TrainStage,
};

use super::compiling::CompilingPlanner;
use super::error::SessionError;
use super::plan::Planner;

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
static RUNNERS: [Runner; 9] = [
    Runner::of::<TrainStage>("Train"),
    Runner::of::<Evaluation>("Evaluate"),
    Runner::of::<PredictStage>("Predict"),
    Runner::of::<RunStage>("Run"),
    Runner::of::<SearchStage>("Search"),
    Runner::of::<GenerateStage>("Generate"),
    Runner::of::<SaveStage>("Save"),
    Runner::of::<LoadStage>("Load"),
    Runner::of::<RepeatStage>("Repeat"),
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

/// Compiles all plans of a step of a stage: that of a whole batch, and that which ends a step of several batches.
///
/// # Errors
/// As for [`compile_stage`].
pub fn compile_plans(
    stage: &Stage,
    planner: &CompilingPlanner,
    shape: Shapes<'_>,
    most_rows: Option<usize>,
) -> Result<Vec<Compiled>, SessionError> {
    let runnable = runnable(stage, planner.registry())?;
    let compiling = Compiling { name: &stage.name, planner, shape, most_rows };
    Ok([runnable.compile(&compiling)?, runnable.compile_end(&compiling)?].into_iter().flatten().collect())
}
