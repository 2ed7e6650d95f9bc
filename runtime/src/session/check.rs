//! Faults that would end a run before its first step, found without a device. Stages are bound to the available data by
//! the functions that a session uses.

use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_core::pipeline::{Given, Pipeline};
use indexmap::IndexMap;

use super::error::SessionError;
use super::stages::{Checking, runnable};
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
    let (mut open, mut written) = (vec![], vec![]);
    for stage in &pipeline.stages {
        let kind = runnable(stage, registry)?;
        let checking = Checking { pipeline, sets, given, registry, name: &stage.name, written: &written };
        open.extend(kind.check(&checking)?);
        written.extend(kind.files().into_iter().map(|(path, _)| path.to_path_buf()));
    }
    Ok(open)
}
