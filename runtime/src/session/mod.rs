//! Sessions run the stages of a pipeline on a device.
//!
//! A session owns the parameters and other state; the plans of all stages share them. Data sets stay on the device
//! until the session ends. A background thread prepares the next epoch's order, uploads the evaluation's data and writes
//! checkpoints. The training loop allocates nothing while it runs.
//!
//! The calls block; an asynchronous program makes them on a thread of its own (`spawn_blocking`).

pub mod stages;

mod inference;
mod measure;

mod background;
mod base;
mod batches;
mod check;
mod compiling;
mod decoder;
mod error;
mod event;
mod given;
mod layout;
mod loading;
mod memory;
mod names;
mod order;
mod origin;
mod plan;
mod prepared;
mod report;
mod resident;
mod resume;
mod rows;
mod saving;
mod state;
mod trace;
mod weights;
mod windows;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use engine_core::pipeline::Stage;
use indexmap::IndexMap;

use crate::autotune::Tuning;
use crate::checkpoint::Checkpoint;
use resume::{Resume, TUNING};
use stages::{StageRun, Stopped, runnable};

pub use base::{Inspection, Session};
pub use check::check_stages;
pub use compiling::{CompiledStage, CompilingPlanner};
pub use error::{Fault, PlanError, SessionError, StageFault};
pub use event::{Event, Measure, Subscriber};
pub use loading::{load_data, load_set};
pub use measure::{Effort, StageMeasure};
pub use names::{DataNames, data_names};
pub use origin::{Origin, OriginNode};
pub use plan::{Planner, Request, StagePlan, Sum};
pub use report::{
    BestEpoch, DataReport, EndReason, EpochReport, LatencyReport, MemoryReport, OutputReport, Report, RunEnd,
    StageReport, StepReport, TrainingEnd, Values,
};
pub use resident::split_shape;
pub use saving::check_files;
pub use stages::StepLoop;

impl Session {
    /// Runs all stages except `Predict` stages, in order. A run that resumes from a checkpoint continues in the stage that
    /// wrote it, with the results of an uninterrupted run.
    ///
    /// ```
    #[doc = include_str!("examples/fit.md")]
    /// use engine::runtime::session::Event;
    ///
    /// let mut losses = vec![];
    /// let report = session.run_stages(None, &mut |event| {
    ///     if let Event::EpochDone { report, .. } = event {
    ///         losses.push(report.train_loss);
    ///     }
    /// })?;
    /// assert!(losses.len() == 20 && losses[19] < losses[0]);
    /// assert_eq!(report.stages[0].steps, 80);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a stage fails or is interrupted. After all stages, if one has measured a NaN or an infinity.
    pub fn run_stages(
        &mut self,
        resume: Option<&Path>,
        tell: &mut Subscriber<'_>,
    ) -> Result<Report, SessionError> {
        let mut report = Report::default();
        self.report_stages(resume, &mut report, tell)?;
        Ok(report)
    }

    /// As [`Session::run_stages`]. `report` is filled while the stages run, so that a failed run has a report, too.
    ///
    /// ```
    #[doc = include_str!("examples/fit.md")]
    /// use engine::runtime::session::{Report, RunEnd};
    ///
    /// let mut report = Report::default();
    /// session.report_stages(None, &mut report, &mut |_| {})?;
    /// assert_eq!(report.end, RunEnd::Complete);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Session::run_stages`].
    pub fn report_stages(
        &mut self,
        resume: Option<&Path>,
        report: &mut Report,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        *report = self.empty_report();
        let ended = self.run_in_order(resume, report, tell);
        report.tuning = self.device.tuning();
        report.end = match &ended {
            Ok(()) => RunEnd::Complete,
            Err(SessionError::Interrupted { .. }) => RunEnd::Interrupted,
            Err(_) => RunEnd::Failed,
        };
        ended
    }

    fn run_in_order(
        &mut self,
        resume: Option<&Path>,
        report: &mut Report,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        let pipeline = Arc::clone(&self.pipeline);
        let planner = Arc::clone(&self.planner);
        let registry = planner.registry();
        let is_resumable = |stage: &Stage| runnable(stage, registry).is_ok_and(|kind| kind.is_resumable());
        let mut resume = resume.map(|path| Resume::read(path, &pipeline, &is_resumable)).transpose()?;
        if let Some(resume) = &resume {
            self.adopt_tuning(&resume.checkpoint, tell);
        }
        let first = resume.as_ref().map_or(0, |resume| resume.stage_idx);
        let is_left = |stage: &&Stage| pipeline.stages[first..].iter().any(|left| left.name == stage.name);
        let stages: Vec<&Stage> = pipeline.stages_in_order().filter(is_left).collect();
        let written = stages.iter().flat_map(|stage| pipeline.with_parts(stage));
        saving::check_files(written, registry, self.overwrite)?;
        // Stages after a metric that is not finite still run, because a later stage may save the parameters.
        let mut not_finite = None;
        for stage in stages {
            let done = self.run_one(stage, resume.take(), &mut report.outputs, tell);
            match done {
                Ok(None) => {}
                Ok(Some(done)) => {
                    not_finite = not_finite.or_else(|| done.not_finite());
                    for done in done.flat() {
                        tell(&Event::StageDone { report: &done });
                        report.add(done);
                    }
                }
                Err(Stopped { error, report: begun }) => {
                    begun.into_iter().flat_map(|begun| begun.flat()).for_each(|begun| report.add(begun));
                    return Err(*error);
                }
            }
        }
        not_finite.map_or(Ok(()), Err)
    }

    /// Runs the stage of that name alone. Returns no report for a kind that [`Session::run_stages`] passes over.
    ///
    /// ```
    #[doc = include_str!("examples/fit.md")]
    /// let report = session.run_stage("fit", &mut |_| {})?;
    /// assert_eq!(report.map(|report| report.steps), Some(80));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such stage, it fails or is interrupted, or it has measured a NaN or an infinity.
    pub fn run_stage(
        &mut self,
        stage: &str,
        tell: &mut Subscriber<'_>,
    ) -> Result<Option<StageReport>, SessionError> {
        let pipeline = Arc::clone(&self.pipeline);
        let planner = Arc::clone(&self.planner);
        let idx = pipeline.stages.iter().position(|known| *known.name == *stage);
        let idx = idx.ok_or_else(|| SessionError::NoStage { stage: stage.into(), kind: None })?;
        let written = pipeline.with_parts(&pipeline.stages[idx]);
        saving::check_files(written, planner.registry(), self.overwrite)?;
        let ran = self.run_one(&pipeline.stages[idx], None, &mut IndexMap::new(), tell);
        let done = ran.map_err(|stopped| *stopped.error)?;
        match done.as_ref().and_then(StageReport::not_finite) {
            Some(error) => Err(error),
            None => Ok(done),
        }
    }

    pub(crate) fn run_one(
        &mut self,
        stage: &Stage,
        resume: Option<Resume>,
        outputs: &mut IndexMap<String, OutputReport>,
        tell: &mut Subscriber<'_>,
    ) -> Result<Option<StageReport>, Stopped> {
        let planner = Arc::clone(&self.planner);
        let runnable = runnable(stage, planner.registry())?;
        let done = runnable.run(StageRun { session: self, name: &stage.name, tell, resume, outputs });
        self.device.take_notes().iter().for_each(|note| tell(&Event::Note(note)));
        done.map_err(|stopped| stopped.of_state_from(self.state_file.as_deref()))
    }

    /// Adopts the autotuned choices of the run that wrote a checkpoint, if the device allows.
    fn adopt_tuning(&self, checkpoint: &Checkpoint, tell: &mut Subscriber<'_>) {
        let Some(tuning) = checkpoint.extra.get(TUNING).and_then(|text| Tuning::from_text(text)) else {
            return;
        };
        if !self.device.adopt(&tuning) {
            tell(&Event::Note(&format!(
                "the checkpoint was written on another device ({}), so products may be rounded otherwise from here on",
                tuning.device
            )));
        }
    }

    fn empty_report(&self) -> Report {
        Report {
            graph: self.pipeline.name.clone(),
            device: self.device.info().name,
            seed: self.pipeline.seed,
            stand_in: self.resident.sets().values().any(|set| set.stands_in_for().is_some()),
            data: self.resident.sets().iter().map(|(name, set)| (name.to_string(), set.into())).collect(),
            ..Report::default()
        }
    }
}
