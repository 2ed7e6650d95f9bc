//! Files that stages write: whether they can be written is known before the first step.

use std::path::{Path, PathBuf};

use engine_core::op::Registry;
use engine_core::pipeline::{CheckpointDecl, Stage};

use super::base::Session;
use super::error::SessionError;
use super::event::{Event, Subscriber};
use super::stages::runnable;
use crate::checkpoint::{self, ARCHIVE, CHECKPOINT, Checkpoint, CheckpointError, CheckpointFact};
use crate::files::{Format, Overwrite, Refusal, Target};

impl Session {
    /// Lets stages replace files that this program has not written. Without this they are left alone, and a stage that
    /// names one fails before the first step.
    pub fn overwrite(&mut self, overwrite: Overwrite) {
        self.overwrite = overwrite;
    }

    /// Writes a state, as plain arrays if the name ends in `.npz`.
    pub(super) fn write_state(&self, path: &Path, state: &Checkpoint) -> Result<(), SessionError> {
        match checkpoint::is_archive(path) {
            true => Ok(checkpoint::write_arrays_on(&*self.disk, &state.tensors, path, self.overwrite)?),
            false => self.write_checkpoint(path, state),
        }
    }

    /// Writes a state of the run.
    pub(super) fn write_checkpoint(&self, path: &Path, state: &Checkpoint) -> Result<(), SessionError> {
        Ok(checkpoint::write_on(&*self.disk, state, path, self.overwrite)?)
    }

    /// Where an interrupted run without a checkpoint leaves its state: no other file is in the way there.
    pub(super) fn interrupted_path(&self) -> PathBuf {
        const MOST_TRIED: usize = 1000;
        let name = &self.pipeline.name;
        let numbered = (2..MOST_TRIED).map(|number| format!("{name}.interrupted-{number}.ckpt"));
        let mut paths = [format!("{name}.interrupted.ckpt")].into_iter().chain(numbered).map(PathBuf::from);
        let is_free = |path: &PathBuf| Target::new(path, &CHECKPOINT, self.overwrite).is_ok();
        paths.find(is_free).unwrap_or_else(|| format!("{name}.interrupted.ckpt").into())
    }

    /// Repairs the file of the best state for a run that resumes from `state`, whose best state was that of step `best_step`.
    /// A file of a later step stays, because the run reaches that step again.
    pub(super) fn repair_best(
        &self,
        decl: &CheckpointDecl,
        (state, best_step): (&Checkpoint, Option<u64>),
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        let (Some(path), Some(best_step)) = (decl.best.as_ref().map(Path::new), best_step) else {
            return Ok(());
        };
        let is_of_run =
            |found: &Checkpoint| found.seed == state.seed && found.fingerprint == state.fingerprint;
        match Checkpoint::read(path).ok().filter(is_of_run) {
            Some(found) if found.step == best_step || found.step > state.step => Ok(()),
            _ if best_step == state.step => {
                self.write_checkpoint(path, state)?;
                tell(&Event::Note("the best state so far was not in its file; it is written there now"));
                tell(&Event::CheckpointWritten { path });
                Ok(())
            }
            _ => {
                let path = path.display();
                tell(&Event::Note(&format!(
                    "{path} does not hold the best state so far, that of step {best_step}; the next better one goes there"
                )));
                Ok(())
            }
        }
    }
}

/// Fails unless all files of these stages can be written.
///
/// # Errors
/// If a path is not that of a regular file, or a stage writes a file twice. If the file is not of this program, unless
/// `overwrite` allows that.
pub fn check_files<'s>(
    stages: impl IntoIterator<Item = &'s Stage>,
    registry: &Registry,
    overwrite: Overwrite,
) -> Result<(), SessionError> {
    for stage in stages {
        let mut latest = None;
        for (path, format) in runnable(stage, registry)?.files() {
            let target = checked_target(path, (format, overwrite), latest.as_ref());
            latest = Some(target.map_err(|refusal| refused(path, format, refusal))?);
        }
    }
    Ok(())
}

/// The error of a file that cannot be written: a state, or results.
fn refused(path: &Path, format: &Format, refusal: Refusal) -> SessionError {
    let path = path.to_path_buf();
    match [CHECKPOINT, ARCHIVE].iter().any(|state| state.name == format.name) {
        true => CheckpointError { path, fact: CheckpointFact::Refused(refusal) }.into(),
        false => SessionError::Refused { path, refusal },
    }
}

/// The place of a file of a stage, which can be written and is not that of the stage's file before.
fn checked_target(
    path: &Path,
    (format, overwrite): (&Format, Overwrite),
    before: Option<&Target>,
) -> Result<Target, Refusal> {
    let target = Target::new(path, format, overwrite)?;
    target.probe()?;
    match before {
        Some(before) if before.is_same_file(&target) => Err(Refusal::Taken),
        _ => Ok(target),
    }
}
