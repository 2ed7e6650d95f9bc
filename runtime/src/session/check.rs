//! Faults that would end a run before its first step, found without a device. Stages are bound to the available data by
//! the functions that a session uses.

use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_core::pipeline::{Given, Pipeline, SplitRef, Stage};
use engine_core::stage::{SplitShape, StageIssue};
use indexmap::IndexMap;

use super::compiling::StageFault;
use super::error::SessionError;
use super::resident::split_shape;
use super::stages::runnable;
use crate::data::source::DataSet;

/// Looks for faults that would end a run of the stages before its first step. Stages whose data is not in `sets` are
/// skipped, and so are files that an earlier stage writes. Returns an error for each input of a `Run` stage that has no
/// value, which the caller of the run may give.
///
/// # Errors
/// The error that a session would end with.
pub fn check_stages(
    pipeline: &Pipeline,
    sets: &IndexMap<Symbol, DataSet>,
    given: &IndexMap<Symbol, Given>,
    registry: &Registry,
) -> Result<Vec<SessionError>, SessionError> {
    let mut open = vec![];
    for (i, stage) in pipeline.stages.iter().enumerate() {
        let before = &pipeline.stages[..i];
        let checking = Checking { pipeline, sets, given, registry, name: &stage.name, before };
        open.extend(runnable(stage, registry)?.check(&checking)?);
    }
    Ok(open)
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
    /// The stages before it.
    pub before: &'c [Stage],
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
