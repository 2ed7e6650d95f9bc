//! The interface of a stage kind to sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine_core::compile::Compiled;
use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_core::pipeline::{Given, Pipeline, SplitRef, Stage, StageKind};
use engine_core::plan::Plan;
use engine_core::stage::{SplitShape, StageIssue};
use indexmap::IndexMap;

use super::part::{Again, Part};
use super::stage_run::{StageRun, Stopped};
use crate::data::source::DataSet;
use crate::device::{KernelTime, RunError};
use crate::files::Format;
use crate::session::Session;
use crate::session::compiling::CompilingPlanner;
use crate::session::error::{SessionError, StageFault};
use crate::session::plan::Request;
use crate::session::report::StageReport;
use crate::session::resident::split_shape;

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

    /// Compiles the plan that ends a step of several batches, if there is one.
    ///
    /// # Errors
    /// If the stage has no graph.
    fn compile_end(&self, _compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        Ok(None)
    }

    /// Prepares the steps for measuring, if the stage takes steps.
    ///
    /// # Errors
    /// As for running the stage.
    fn steps(&self, _session: &mut Session, _name: &Symbol) -> Result<Option<Box<dyn Steps>>, SessionError> {
        Ok(None)
    }

    /// Whether the stage runs before a later one is measured, which may read the state that it writes.
    fn runs_before_measures(&self) -> bool {
        false
    }

    /// Prepares the stage as a part of the `Repeat` that runs. A training takes `steps` steps in a trip; by default, those to
    /// the end of an epoch.
    ///
    /// # Errors
    /// As for running the stage.
    fn part(
        &self,
        _run: &mut StageRun<'_, '_>,
        name: &Symbol,
        _steps: Option<u64>,
    ) -> Result<Box<dyn Part>, SessionError> {
        Ok(Box::new(Again::new(Stage { name: name.clone(), kind: self.boxed(), span: None })))
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

    /// The number of whole steps before the first one repeats.
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

/// The means to check a stage.
pub struct Checking<'c> {
    /// The pipeline.
    pub pipeline: &'c Pipeline,
    /// The available data sets.
    pub sets: &'c IndexMap<Symbol, DataSet>,
    /// Values of inputs that the caller gives.
    pub given: &'c IndexMap<Symbol, Given>,
    /// The ops and other forms.
    pub registry: &'c Registry,
    /// The stage's name.
    pub name: &'c Symbol,
    /// The files that earlier stages write.
    pub written: &'c [PathBuf],
}

impl Checking<'_> {
    /// A graph or another part of the stage that could be made.
    ///
    /// # Errors
    /// If it could not.
    pub fn planned<T>(&self, made: Result<T, StageIssue>) -> Result<T, SessionError> {
        made.map_err(|issue| SessionError::plan(self.name, StageFault(issue)))
    }

    /// The types of a split, if its data is available.
    ///
    /// # Errors
    /// If the data has no such split.
    pub fn shape(&self, split: &SplitRef) -> Result<Option<SplitShape>, SessionError> {
        let Some(set) = self.sets.get(&split.data) else { return Ok(None) };
        let rows = set.split(&split.split);
        let rows =
            rows.map_err(|source| SessionError::Data { data: split.data.clone(), source: Box::new(source) })?;
        Ok(Some(split_shape(&split.data, rows)))
    }
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

    /// Compiles a plan of the stage.
    ///
    /// # Errors
    /// If the stage has no graph.
    pub fn compile(&self, request: &Request) -> Result<Option<Compiled>, SessionError> {
        let stage = self.planner.compile(request).map_err(|fault| SessionError::plan(self.name, fault))?;
        Ok(Some(stage.compiled))
    }
}
