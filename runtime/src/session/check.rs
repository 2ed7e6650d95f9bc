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
/// skipped, and so are files that an earlier stage writes. Returns an error for each input of `Run` stages that has no
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
        kind.check(&checking)?.into_iter().for_each(|missing| add(&mut open, missing));
        written.extend(kind.files().into_iter().map(|(path, _)| path.to_path_buf()));
    }
    Ok(open)
}

/// Adds an error of a stage. An input without a value that several stages take is one error, which names them all.
fn add(open: &mut Vec<SessionError>, missing: SessionError) {
    if let SessionError::NoInput { input, stages, ty } = &missing {
        for known in open.iter_mut() {
            if let SessionError::NoInput { input: known_input, stages: known_stages, ty: known_ty } = known
                && (&*known_input, &*known_ty) == (input, ty)
            {
                known_stages.extend(stages.iter().cloned());
                return;
            }
        }
    }
    open.push(missing);
}
