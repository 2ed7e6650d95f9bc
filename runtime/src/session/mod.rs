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
mod batches;
mod check;
mod compiling;
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
use std::sync::atomic::{AtomicBool, Ordering};

use engine_core::ir::Symbol;
use engine_core::pipeline::{Given, LoadName, Pipeline, Stage};
use engine_core::stage::expect_declared;
use indexmap::IndexMap;

use crate::autotune::Tuning;
use crate::checkpoint::{self, Checkpoint};
use crate::data::source::DataSet;
use crate::device::Device;
use crate::files::{Disk, Overwrite, RealDisk};
use crate::tensor::HostTensor;
use background::Background;
use resident::Resident;
use resume::{Resume, TUNING};
use stages::{StageRun, Stopped, runnable};
use state::State;

pub use check::check_stages;
pub use compiling::{CompiledStage, CompilingPlanner};
pub use error::{Fault, PlanError, SessionError, StageFault};
pub use event::Event;
pub use loading::{load_data, load_set};
pub use measure::{Effort, StageMeasure};
pub use names::{DataNames, data_names};
pub use origin::{Origin, OriginNode};
pub use plan::{Planner, StagePlan, Sum};
pub use report::{
    BestEpoch, DataReport, EndReason, EpochReport, MemoryReport, OutputReport, Report, RunEnd, StageReport,
    TrainingEnd, Values,
};
pub use resident::split_shape;
pub use saving::check_files;

/// Receives the events of a session.
pub type Subscriber<'s> = dyn FnMut(&Event<'_>) + 's;

/// A pipeline on a device, with its state.
pub struct Session {
    pipeline: Arc<Pipeline>,
    planner: Arc<dyn Planner>,
    device: Arc<dyn Device>,
    state: State,
    resident: Resident,
    background: Background,
    cancel: Arc<AtomicBool>,
    /// Of the pipeline's graph as text; tells a checkpoint whether it is of this graph.
    fingerprint: String,
    /// The progress of the last training stage, for a stage that saves it.
    trained: Trained,
    /// The names of columns and classes, from the data or from a loaded file.
    names: DataNames,
    /// Values of inputs of `Run` stages.
    given: IndexMap<Symbol, Given>,
    inferences: inference::Cache,
    inspection: Inspection,
    /// The most bytes of a split that are kept on the device; none: the device's limit.
    most_resident_bytes: Option<u64>,
    overwrite: Overwrite,
    /// Where checkpoints go.
    disk: Arc<dyn Disk>,
}

/// The values that a session inspects while its stages run.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Finds the first node with a NaN or an infinity. Steps are taken one by one and are slower.
    pub trace_nan: bool,
    /// Reports the values that the planner keeps ([`CompilingPlanner::keeping`]) every so many steps; none: after the last
    /// step of a stage.
    pub every: Option<u64>,
}

/// Where training stands, beside the tensors themselves.
#[derive(Clone, Debug, Default)]
struct Trained {
    step: u64,
    cursor: checkpoint::Cursor,
    /// The state that belongs to a checkpoint.
    names: Vec<Symbol>,
    extra: IndexMap<String, String>,
}

impl Session {
    /// A session whose parameters have their initial values. Stages find their data in `sets`, by name.
    ///
    /// # Errors
    /// If the pipeline's declarations contradict each other, or the device has no memory for the parameters.
    pub fn new(
        pipeline: Arc<Pipeline>,
        planner: Arc<dyn Planner>,
        device: Arc<dyn Device>,
        sets: IndexMap<Symbol, DataSet>,
    ) -> Result<Self, SessionError> {
        let declared = expect_declared(&pipeline);
        declared.map_err(|issue| SessionError::Declared(Box::new(StageFault(issue))))?;
        let state = State::new(Arc::clone(&device), &pipeline.params, pipeline.seed)?;
        let params = pipeline.params.iter().map(|param| param.name.clone());
        let trained = Trained { names: params.collect(), ..Trained::default() };
        Ok(Session {
            planner,
            state,
            names: names::of_sets(&sets),
            resident: Resident::new(sets),
            background: Background::new().map_err(SessionError::Background)?,
            cancel: Arc::default(),
            fingerprint: format!("{:08x}", crc32fast::hash(pipeline.graph.to_string().as_bytes())),
            trained,
            given: IndexMap::new(),
            inferences: inference::Cache::default(),
            inspection: Inspection::default(),
            most_resident_bytes: None,
            overwrite: Overwrite::default(),
            disk: Arc::new(RealDisk),
            pipeline,
            device,
        })
    }

    /// Inspects the stages that run from now on.
    pub fn inspect(&mut self, inspection: Inspection) {
        self.inspection = inspection;
    }

    /// Keeps at most so many bytes of a split on the device. Rows of larger splits stay on the host and stream to the
    /// device; results are the same, bit for bit.
    ///
    /// The default is the device's limit: half of a GPU's memory, or the largest binding through wgpu. The CPU has none,
    /// for it reads rows in place.
    pub fn keep_resident(&mut self, most_bytes: u64) {
        self.most_resident_bytes = Some(most_bytes);
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The name of that device.
    pub fn device_name(&self) -> String {
        self.device.info().name
    }

    /// Set this to stop after the step that is underway.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Runs all stages but `Predict` ones, in order. From a checkpoint, a run goes on in the stage that wrote it, with the
    /// results of an uninterrupted run.
    ///
    /// # Errors
    /// If a stage fails or is interrupted, or, when all have run, if one has measured a NaN or an infinity.
    pub fn run_stages(
        &mut self,
        resume: Option<&Path>,
        tell: &mut Subscriber<'_>,
    ) -> Result<Report, SessionError> {
        let mut report = Report::default();
        self.report_stages(resume, &mut report, tell)?;
        Ok(report)
    }

    /// As [`Session::run_stages`]. `report` is filled while the stages run, so that a run that fails has one, too.
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
        saving::check_files(&pipeline.stages[first..], registry, self.overwrite)?;
        // Stages after a metric that is not finite still run, for a later stage may save the parameters.
        let mut not_finite = None;
        for stage in &pipeline.stages[first..] {
            let run = StageRun {
                session: self,
                name: &stage.name,
                tell,
                resume: resume.take(),
                outputs: &mut report.outputs,
            };
            let done = runnable(stage, registry).map_err(Stopped::from).and_then(|it| it.run(run));
            self.device.take_notes().iter().for_each(|note| tell(&Event::Note(note)));
            match done {
                Ok(None) => {}
                Ok(Some(done)) => {
                    tell(&Event::StageDone { report: &done });
                    not_finite = not_finite.or_else(|| done.not_finite());
                    report.add(done);
                }
                Err(Stopped { error, report: begun }) => {
                    begun.into_iter().for_each(|begun| report.add(*begun));
                    return Err(*error);
                }
            }
        }
        not_finite.map_or(Ok(()), Err)
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

    /// Takes over the pipeline's parameters from a checkpoint, or from a file of another tool (safetensors, `.npz`).
    /// Other tensors of the file are ignored. Floats of another type are converted; returns remarks on that.
    ///
    /// # Errors
    /// If the file is damaged, a parameter is missing or has another type, or a number is too large for its type.
    pub fn load(&mut self, path: &Path) -> Result<Vec<String>, SessionError> {
        let params: Vec<Symbol> = self.pipeline.params.iter().map(|param| param.name.clone()).collect();
        let mut remarks = self.take_over(path, &params, weights::read(path)?)?;
        let trained = data_names(path);
        let remark = |said| format!("{} was trained on other data: {said}", path.display());
        remarks.extend(names::difference(&trained, &self.names).map(remark));
        for (field, names) in trained {
            self.names.entry(field).or_insert(names);
        }
        Ok(remarks)
    }

    /// Takes over some parameters from a file of another tool, where they have other names or lie with their axes
    /// exchanged. All others stay as they are. Returns remarks as [`Session::load`] does.
    ///
    /// # Errors
    /// As for [`Session::load`].
    pub fn load_named(&mut self, path: &Path, names: &[LoadName]) -> Result<Vec<String>, SessionError> {
        let params: Vec<Symbol> = names.iter().map(|name| name.param.clone()).collect();
        self.take_over(path, &params, weights::renamed(path, names, &weights::read(path)?)?)
    }

    fn take_over(
        &mut self,
        path: &Path,
        params: &[Symbol],
        tensors: IndexMap<String, HostTensor>,
    ) -> Result<Vec<String>, SessionError> {
        let (tensors, remarks) = weights::in_types_of(&self.pipeline.params, path, tensors)?;
        self.state.restore(path, params, &tensors, false)?;
        Ok(remarks)
    }

    /// Writes the parameters and the state of the last training stage; as plain arrays if the name ends in `.npz`.
    ///
    /// # Errors
    /// If the file cannot be written, or one is there that this program has not written.
    pub fn save(&self, path: &Path) -> Result<(), SessionError> {
        let state = self.checkpoint()?;
        match checkpoint::is_archive(path) {
            true => Ok(checkpoint::write_arrays_on(&*self.disk, &state.tensors, path, self.overwrite)?),
            false => self.write_checkpoint(path, &state),
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

    /// The state of the run, from which another run can go on.
    fn checkpoint(&self) -> Result<Checkpoint, SessionError> {
        let mut extra = self.trained.extra.clone();
        extra.extend(self.device.tuning().map(|tuning| (TUNING.to_string(), tuning.to_text())));
        extra.extend(names::to_extra(&self.names));
        Ok(Checkpoint {
            tensors: self.state.snapshot(&self.trained.names)?,
            step: self.trained.step,
            seed: self.pipeline.seed,
            cursor: self.trained.cursor,
            fingerprint: self.fingerprint.clone(),
            extra,
        })
    }

    /// Whether kept values are due after a step that was the `step`th, counted from 1.
    fn is_kept_after(&self, step: u64) -> bool {
        self.inspection.every.is_some_and(|every| step.is_multiple_of(every.max(1)))
    }

    /// At most so many steps at once, so that inspected steps are the last of a call.
    fn steps_at_once(&self, step: u64, most: usize) -> usize {
        if self.inspection.trace_nan {
            return 1;
        }
        let left = self.inspection.every.map(|every| every.max(1) - step % every.max(1));
        left.map_or(most, |left| most.min(left as usize))
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// The input that holds the order in which training visits the rows.
const ORDER: &str = "order";
