//! Sessions: what runs the stages of a pipeline on a device.
//!
//! A session owns the parameters and other state; the plans of all stages share them. Data sets stay on the device
//! for as long as the session lives. What the steps do not depend on at once (the next epoch's order, the upload of
//! the evaluation's data, checkpoint files) happens beside the loop, and the loop allocates nothing while it runs.
//!
//! The calls block; an asynchronous program makes them on a thread of its own (`spawn_blocking`).

mod train;

mod evaluate;
mod inference;
mod measure;

mod background;
mod batches;
mod best;
mod check;
mod compiling;
mod error;
mod event;
mod given;
mod names;
mod order;
mod plan;
mod report;
mod resident;
mod rows;
mod saving;
mod search;
mod state;
mod trace;
mod weights;
mod windows;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use engine_core::ir::{DType, InputKind, Symbol};
use engine_core::pipeline::{DataDecl, Given, LoadName, LoadStage, Pipeline, SplitRef, Stage, StageKind};
use engine_core::plan::{Place, Plan};
use engine_core::stage::expect_declared;
use indexmap::IndexMap;

use crate::autotune::Tuning;
use crate::checkpoint::{self, Checkpoint};
use crate::data::source::{DataSet, LoadContext, Sources};
use crate::device::{Device, Executable, largest_tensors};
use crate::files::{Disk, Overwrite, RealDisk};
use crate::tensor::HostTensor;
use background::Background;
use resident::Resident;
use rows::DataInputs;
use state::State;

pub use check::check_stages;
pub use compiling::{CompiledStage, CompilingPlanner, StageFault};
pub use error::{Fault, PlanError, SessionError};
pub use event::Event;
pub use measure::{Effort, StageMeasure};
pub use names::{DataNames, data_names};
pub use plan::{Planner, StagePlan, Sum};
pub use report::{
    BestEpoch, DataReport, EndReason, EpochReport, MemoryReport, OutputReport, Report, RunEnd, StageReport,
    TrainingEnd, Values,
};
pub use resident::split_shape;
pub use saving::check_files;
pub use trace::{Origin, OriginNode};

/// Someone who is told what happens.
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
    /// What the last training stage left behind, for a stage that saves it.
    trained: Trained,
    /// What columns and classes are called, of its data or as a file says that was loaded.
    names: DataNames,
    /// Values of inputs of `Run` stages.
    given: IndexMap<Symbol, Given>,
    inferences: inference::Cache,
    inspection: Inspection,
    /// Bytes of a split that are kept on the device; none: what the device says.
    most_resident_bytes: Option<u64>,
    overwrite: Overwrite,
    /// Where checkpoints go.
    disk: Arc<dyn Disk>,
}

/// What a session looks at while its stages run.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Finds the node that first makes a NaN or an infinity; steps are taken one by one and are slower.
    pub trace_nan: bool,
    /// Tells the values that the planner keeps ([`CompilingPlanner::keeping`]) every so many steps; none: after the last
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

/// Loads the data sets of a pipeline, by their names in it.
pub fn load_data(
    pipeline: &Pipeline,
    sources: &Sources,
    context: &LoadContext,
    tell: &mut Subscriber<'_>,
) -> Result<IndexMap<Symbol, DataSet>, SessionError> {
    let mut sets = IndexMap::new();
    for decl in &pipeline.data {
        let set = load_set(pipeline, decl, sources, context)?;
        tell(&Event::DataLoaded { data: &decl.name, set: &set });
        sets.insert(decl.name.clone(), set);
    }
    Ok(sets)
}

/// Loads one data set of a pipeline, in the types that its inputs declare where the source reads text.
///
/// # Errors
/// If it cannot be had.
pub fn load_set(
    pipeline: &Pipeline,
    decl: &DataDecl,
    sources: &Sources,
    context: &LoadContext,
) -> Result<DataSet, SessionError> {
    let (options, types) = (decl.options.clone(), declared_types(pipeline, &decl.name));
    let context = LoadContext { options, types, ..context.clone() };
    let set = sources.load(&decl.source, &context);
    set.map_err(|source| SessionError::Data { data: decl.name.clone(), source: Box::new(source) })
}

/// The element types of the inputs that a data source feeds, by field.
fn declared_types(pipeline: &Pipeline, data: &Symbol) -> Vec<(Symbol, DType)> {
    let fed = pipeline.inputs.iter().filter_map(|input| {
        let (_, field) = input.from.as_ref().filter(|(source, _)| source == data)?;
        Some((field.clone(), pipeline.graph.ty(pipeline.graph.find(&input.name)?).dtype))
    });
    fed.collect()
}

impl Session {
    /// A session whose parameters have their initial values. Stages find their data in `sets`, by name.
    ///
    /// # Errors
    /// If what the pipeline declares does not go together, or the device has no room for the parameters.
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

    /// Looks closer at the stages that run from now on.
    pub fn inspect(&mut self, inspection: Inspection) {
        self.inspection = inspection;
    }

    /// Keeps at most so many bytes of a split on the device. Rows of larger ones stay on the host and come to the device
    /// as steps need them; results are the same, bit for bit. Unless this is called, the device has a limit of its own: half
    /// of a GPU's memory, the largest binding through wgpu, none on the CPU, which reads rows where they are.
    pub fn keep_resident(&mut self, most_bytes: u64) {
        self.most_resident_bytes = Some(most_bytes);
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// What that device is called.
    pub fn device_name(&self) -> String {
        self.device.info().name
    }

    /// Set this to stop after the step that is underway.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Runs all stages but `Predict` ones, in order, or goes on from a checkpoint: at the stage that wrote it, as if it
    /// had never stopped.
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

    /// The same; `report` is made whole while the stages run, so that a run that does not come to its end has one, too.
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
        let mut resume = resume.map(|path| Resume::read(path, &pipeline)).transpose()?;
        if let Some(resume) = &resume {
            self.adopt_tuning(&resume.checkpoint, tell);
        }
        let first = resume.as_ref().map_or(0, |resume| resume.stage_idx);
        saving::check_files(&pipeline.stages[first..], self.overwrite)?;
        // Stages after a metric that is not finite still run: one of them may save what was trained.
        let mut not_finite = None;
        for stage in &pipeline.stages[first..] {
            let done = self.run_stage(stage, resume.take(), &mut report.outputs, tell);
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

    /// Lets choices of the run that wrote a checkpoint stand, where they can.
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

    /// Takes over the pipeline's parameters from a checkpoint, or from a file of another tool (safetensors, `.npz`);
    /// whatever else is in it does not matter. Floats of another type are converted; returns remarks on that.
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

    /// Writes the parameters, and what the last training stage needs to go on; as plain arrays if the name ends in
    /// `.npz`.
    ///
    /// # Errors
    /// If the file cannot be written, or one is there that this program has not written.
    pub fn save(&self, path: &Path) -> Result<(), SessionError> {
        let state = self.checkpoint()?;
        match saving::is_archive(path) {
            true => Ok(checkpoint::write_arrays_on(&*self.disk, &state.tensors, path, self.overwrite)?),
            false => self.write_checkpoint(path, &state),
        }
    }

    fn run_stage(
        &mut self,
        stage: &Stage,
        resume: Option<Resume>,
        outputs: &mut IndexMap<String, OutputReport>,
        tell: &mut Subscriber<'_>,
    ) -> Result<Option<StageReport>, Stopped> {
        let done = match &stage.kind {
            StageKind::Train(train) => self.train(&stage.name, train, resume, tell)?,
            StageKind::Evaluate(evaluation) => self.evaluate_stage(&stage.name, evaluation, tell)?,
            StageKind::Run(run) => self.running_stage(&stage.name, run, outputs, tell)?,
            StageKind::Search(search) => self.search_stage(&stage.name, search, tell)?,
            StageKind::Save { path } => self.save_stage(&stage.name, path.as_ref(), tell)?,
            StageKind::Load(load) => self.load_stage(&stage.name, load, tell)?,
            StageKind::Predict(_) => return Ok(None),
        };
        Ok(Some(done))
    }

    fn save_stage(
        &mut self,
        stage: &Symbol,
        path: &Path,
        tell: &mut Subscriber<'_>,
    ) -> Result<StageReport, SessionError> {
        let start = Instant::now();
        self.save(path)?;
        tell(&Event::CheckpointWritten { path });
        Ok(short_report(stage, "save", start))
    }

    fn load_stage(
        &mut self,
        stage: &Symbol,
        load: &LoadStage,
        tell: &mut Subscriber<'_>,
    ) -> Result<StageReport, SessionError> {
        let (start, path) = (Instant::now(), Path::new(&load.path));
        let remarks = match load.names.is_empty() {
            true => self.load(path)?,
            false => self.load_named(path, &load.names)?,
        };
        remarks.iter().for_each(|remark| tell(&Event::Note(remark)));
        tell(&Event::CheckpointRead { path, step: 0 });
        Ok(short_report(stage, "load", start))
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

    /// All that is needed to go on from here.
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

    /// Makes a plan ready to run, with its inputs bound: state by name, and data from where it is.
    fn prepare(
        &mut self,
        stage: &Symbol,
        plan: &Arc<Plan>,
        data: DataInputs<'_>,
    ) -> Result<Box<dyn Executable>, SessionError> {
        // Before anything of that size is allocated.
        self.check_memory(stage, &[], (plan, plan.arena_bytes))?;
        self.state.ensure_all(plan).map_err(|error| error.of_plan(plan))?;
        let executable = self.device.prepare(Arc::clone(plan), self.pipeline.seed);
        let mut executable = executable.map_err(|error| error.of_plan(plan))?;
        for (name, kind) in inputs(plan) {
            let buffer = match kind {
                InputKind::Step => continue,
                InputKind::Param | InputKind::State => self.state.buffer(name),
                InputKind::Data => match data {
                    DataInputs::None => None,
                    DataInputs::Ring(ring) => ring.get(name),
                    DataInputs::Resident(_, order) if name == ORDER => order,
                    DataInputs::Resident(split, _) => self.resident.buffer(split, name),
                },
            };
            let Some(buffer) = buffer else {
                engine_core::bug!("nothing is bound to `{name}` of `{}`", plan.name)
            };
            executable.bind(name, buffer)?;
        }
        Ok(executable)
    }

    /// What a stage takes of the device's memory, given what its plans take.
    fn memory(&self, splits: &[&SplitRef], steps: usize) -> Result<MemoryReport, SessionError> {
        let mut data = 0;
        for split in splits {
            if self.is_resident(split)? {
                data += self.resident.bytes(split)?;
            }
        }
        let params = self.pipeline.params.iter().filter(|param| param.kind == InputKind::Param);
        let parameters = params.map(|param| param.ty.bytes()).sum();
        Ok(MemoryReport { parameters, state: self.state.bytes().saturating_sub(parameters), data, steps })
    }

    /// What a stage takes of memory, given its largest plan and what all of them take; fails if that would not fit on the
    /// device.
    fn check_memory(
        &self,
        stage: &Symbol,
        splits: &[&SplitRef],
        (plan, plans): (&Plan, usize),
    ) -> Result<MemoryReport, SessionError> {
        let info = self.device.info();
        let memory = self.memory(splits, plans)?;
        let needed = memory.total() as u64;
        // A device that does not know its memory says 0.
        if info.memory_bytes == 0 || needed <= info.memory_bytes {
            return Ok(memory);
        }
        let (stage, available, largest) = (stage.clone(), info.memory_bytes, largest_tensors(plan));
        Err(SessionError::OutOfMemory { stage, needed, available, name: info.name, largest })
    }

    /// Whether kept values are due after a step that was the `step`th, counted from 1.
    fn is_kept_after(&self, step: u64) -> bool {
        self.inspection.every.is_some_and(|every| step.is_multiple_of(every.max(1)))
    }

    /// At most so many steps at once, so that none is missed that is looked at.
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

fn inputs(plan: &Plan) -> impl Iterator<Item = (&str, InputKind)> {
    plan.buffers.iter().filter_map(|buffer| match buffer.place {
        Place::Input(kind) => Some((&*buffer.name, kind)),
        Place::Arena(_) => None,
    })
}

fn short_report(stage: &Symbol, kind: &str, start: Instant) -> StageReport {
    StageReport {
        name: stage.to_string(),
        kind: kind.to_string(),
        seconds: start.elapsed().as_secs_f64(),
        ..StageReport::default()
    }
}

/// A stage that has not come to its end.
struct Stopped {
    error: Box<SessionError>,
    /// What it has to show all the same.
    report: Option<Box<StageReport>>,
}

impl From<SessionError> for Stopped {
    fn from(error: SessionError) -> Self {
        Stopped { error: Box::new(error), report: None }
    }
}

/// A checkpoint to go on from.
struct Resume {
    path: PathBuf,
    checkpoint: Checkpoint,
    /// The stage that wrote it.
    stage_idx: usize,
}

/// The entry of [`Checkpoint::extra`] that names the training stage.
const STAGE: &str = "stage";
/// The entry that holds what the device has found out by trying.
const TUNING: &str = "tuning";

impl Resume {
    fn read(path: &Path, pipeline: &Pipeline) -> Result<Self, SessionError> {
        let checkpoint = Checkpoint::read(path)?;
        let cannot = |why: String| SessionError::CannotResume { path: path.to_path_buf(), why };
        let Some(stage) = checkpoint.extra.get(STAGE) else {
            return Err(cannot("it was not written by a training stage".to_string()));
        };
        let is_stage = |known: &Stage| *known.name == **stage && matches!(known.kind, StageKind::Train(_));
        let Some(stage_idx) = pipeline.stages.iter().position(is_stage) else {
            return Err(cannot(format!(
                "it was written by stage `{stage}`, which is no training stage here"
            )));
        };
        if checkpoint.seed != pipeline.seed {
            let (was, is) = (checkpoint.seed, pipeline.seed);
            return Err(cannot(format!("it was written with seed {was}, this run has seed {is}")));
        }
        Ok(Resume { path: path.to_path_buf(), checkpoint, stage_idx })
    }
}
