//! A training whose steps the caller takes.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use engine_core::pipeline::{Stage, TrainStage};

use super::Training;
use crate::session::error::SessionError;
use crate::session::report::{EpochReport, StageReport, StepReport};
use crate::session::resume::Resume;
use crate::session::{Session, Subscriber};

/// A training whose steps the caller takes, with work of its own between them.
///
/// Epochs, evaluations, checkpoints and early stopping follow the stage. The steps are those of
/// [`Session::run_stages`], bit by bit, however many are taken at once.
///
/// ```
#[doc = include_str!("../../examples/fit.md")]
/// let mut training = session.training("fit", None, &mut |_| {})?;
/// while let Some(measured) = training.advance(1, &mut |_| {})? {
///     if measured.metrics["loss"] < 0.5 {
///         break;
///     }
///     // Parameters, inference and other stages between two steps.
///     let _weights = training.session().parameters()?;
/// }
/// assert!(training.step() < training.n_steps());
/// let report = training.end(&mut |_| {})?;
/// assert_eq!(report.name, "fit");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StepLoop<'s> {
    session: &'s mut Session,
    training: Training,
}

impl Session {
    /// Begins the `Train` stage of that name, or goes on where its checkpoint `resume` stands.
    ///
    /// ```
    #[doc = include_str!("../../examples/fit.md")]
    /// let mut training = session.training("fit", None, &mut |_| {})?;
    /// while let Some(measured) = training.advance(10, &mut |_| {})? {
    ///     println!("step {}: loss {}", measured.step, measured.metrics["loss"]);
    /// }
    /// assert_eq!((training.step(), training.epochs().len()), (80, 20));
    /// training.end(&mut |_| {})?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such stage, its data is unavailable, or the checkpoint does not fit.
    pub fn training(
        &mut self,
        stage: &str,
        resume: Option<&Path>,
        tell: &mut Subscriber<'_>,
    ) -> Result<StepLoop<'_>, SessionError> {
        let pipeline = Arc::clone(&self.pipeline);
        let of_name = |known: &&Stage| *known.name == *stage;
        let kind = pipeline.stages.iter().find(of_name).and_then(|stage| {
            let kind: &dyn Any = &*stage.kind;
            Some((&stage.name, kind.downcast_ref::<TrainStage>()?))
        });
        let (name, kind) =
            kind.ok_or_else(|| SessionError::NoStage { stage: stage.into(), kind: Some("Train") })?;
        let is_this = |known: &Stage| known.name == *name;
        let resume = resume.map(|path| Resume::read(path, &pipeline, &is_this)).transpose()?;
        let training = Training::begin(self, name, kind, resume, tell)?;
        Ok(StepLoop { session: self, training })
    }
}

impl StepLoop<'_> {
    /// Takes at most so many steps, none of them behind the present epoch, and measures the last one. The last step of an
    /// epoch is followed by its evaluation and its checkpoint. Returns `None` once training has ended.
    ///
    /// # Errors
    /// If the device fails, the loss is no number, or the session's cancel flag is set.
    pub fn advance(
        &mut self,
        most: usize,
        tell: &mut Subscriber<'_>,
    ) -> Result<Option<StepReport>, SessionError> {
        let advanced = self.training.advance(self.session, most.max(1) as u64, tell)?;
        Ok(advanced.then(|| self.training.measured(self.session)))
    }

    /// The steps taken so far, those before a resumed checkpoint included.
    pub fn step(&self) -> u64 {
        self.training.step
    }

    /// The steps of the whole training.
    pub fn n_steps(&self) -> u64 {
        self.training.n_steps
    }

    /// The epochs that have ended.
    pub fn epochs(&self) -> &[EpochReport] {
        &self.training.epochs
    }

    /// The session, for parameters, inference and other stages between steps.
    pub fn session(&mut self) -> &mut Session {
        self.session
    }

    /// Ends the training, which may have steps left: waits for its checkpoint and restores the best epoch if the stage
    /// says so.
    ///
    /// # Errors
    /// If the checkpoint cannot be written.
    pub fn end(self, tell: &mut Subscriber<'_>) -> Result<StageReport, SessionError> {
        let ended = self.training.conclude(self.session, Ok(()), tell);
        ended.map_err(|stopped| *stopped.error)
    }
}
