//! The session: its fields, its settings and its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine_core::ir::Symbol;
use engine_core::pipeline::{Given, LoadName, Pipeline};
use engine_core::stage::expect_declared;
use indexmap::IndexMap;

use super::background::Background;
use super::error::{SessionError, StageFault};
use super::names::{self, DataNames, data_names};
use super::plan::Planner;
use super::prepared::Cache;
use super::resident::Resident;
use super::resume::{PARTIAL, Parts, Resume, TUNING};
use super::state::State;
use super::weights;
use crate::checkpoint::{self, Checkpoint};
use crate::data::source::DataSet;
use crate::device::Device;
use crate::files::{Disk, Overwrite, RealDisk};
use crate::tensor::HostTensor;

/// A pipeline on a device, with its state.
pub struct Session {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) planner: Arc<dyn Planner>,
    pub(super) device: Arc<dyn Device>,
    pub(super) state: State,
    pub(super) resident: Resident,
    pub(super) background: Background,
    pub(super) cancel: Arc<AtomicBool>,
    /// A hash of the pipeline's graph, which identifies the checkpoints of this graph.
    pub(super) fingerprint: String,
    /// The progress of the last training stage, for a stage that saves it.
    pub(super) trained: Trained,
    /// The progress of the parts of a running stage that has some.
    pub(super) parts: Parts,
    /// The names of columns and classes, from the data or from a loaded file.
    pub(super) names: DataNames,
    /// Values of inputs of `Run` stages.
    pub(super) given: IndexMap<Symbol, Given>,
    pub(super) inferences: Cache,
    pub(super) inspection: Inspection,
    /// The most bytes of a split that stay on the device; `None` for the device's limit.
    pub(super) most_resident_bytes: Option<u64>,
    pub(super) overwrite: Overwrite,
    /// The disk of checkpoints.
    pub(super) disk: Arc<dyn Disk>,
    /// The file that parameters and state were last read from.
    pub(super) state_file: Option<PathBuf>,
}

/// The values that a session inspects while its stages run.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Finds the first node with a NaN or an infinity. Steps run one by one and are slower.
    pub trace_nan: bool,
    /// The interval of steps at which the planner's kept values are reported; `None` for the last step of each stage. See
    /// [`CompilingPlanner::keeping`](super::CompilingPlanner::keeping).
    pub every: Option<u64>,
    /// The interval of steps at which training reports its progress. Without one, it reports about 20 times a second.
    pub progress_every: Option<u64>,
}

/// The progress of training, without the tensors.
#[derive(Clone, Debug, Default)]
pub(super) struct Trained {
    pub(super) step: u64,
    pub(super) cursor: checkpoint::Cursor,
    /// The state that belongs to a checkpoint.
    pub(super) names: Vec<Symbol>,
    pub(super) extra: IndexMap<String, String>,
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
            parts: Parts::default(),
            given: IndexMap::new(),
            inferences: Cache::default(),
            inspection: Inspection::default(),
            most_resident_bytes: None,
            overwrite: Overwrite::default(),
            disk: Arc::new(RealDisk),
            state_file: None,
            pipeline,
            device,
        })
    }

    /// Inspects the stages that run from now on.
    ///
    /// ```
    #[doc = include_str!("examples/fit.md")]
    /// use engine::runtime::session::Inspection;
    ///
    /// // The first step that makes a parameter NaN is found, and its values are named in the error.
    /// session.inspect(Inspection { trace_nan: true, ..Inspection::default() });
    /// session.run_stages(None, &mut |_| {})?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inspect(&mut self, inspection: Inspection) {
        self.inspection = inspection;
    }

    /// Keeps at most so many bytes of a split on the device. Rows of larger splits stay on the host and stream to the
    /// device, with bitwise equal results.
    ///
    /// The default is the device's limit: half of a GPU's memory, or the largest binding through wgpu. The CPU reads rows in
    /// place and has no limit.
    ///
    /// ```
    #[doc = include_str!("examples/fit.md")]
    /// // Rows stream to the device, and training is the same.
    /// session.keep_resident(64);
    /// session.run_stages(None, &mut |_| {})?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Setting this flag stops the run after the present step.
    ///
    /// ```no_run
    #[doc = include_str!("examples/fit.md")]
    /// use std::sync::atomic::Ordering;
    ///
    /// let stop = session.cancel_flag();
    /// let mut training = session.training("fit", None, &mut |_| {})?;
    /// training.advance(10, &mut |_| {})?;
    /// stop.store(true, Ordering::Relaxed);
    /// // The checkpoint of the interrupted training lies in the working directory.
    /// assert!(training.advance(10, &mut |_| {}).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Loads the pipeline's parameters from a checkpoint, or from a file of another tool (safetensors, `.npz`). Other tensors
    /// of the file are ignored. Floats of another type are converted. Returns remarks on conversions.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("weights.safetensors");
    /// session.save(&path)?;
    /// let remarks = session.load(&path)?;
    /// assert!(remarks.is_empty(), "nothing was converted");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the file is damaged, a parameter is missing or has another type, or a number is too large for its type.
    pub fn load(&mut self, path: &Path) -> Result<Vec<String>, SessionError> {
        let params: Vec<Symbol> = self.pipeline.params.iter().map(|param| param.name.clone()).collect();
        let tensors = weights::read(path, &self.pipeline.params, &[])?;
        let mut remarks = self.take_over(path, &params, tensors)?;
        let trained = data_names(path);
        let remark = |message| format!("{} was trained on other data: {message}", path.display());
        remarks.extend(names::difference(&trained, &self.names).map(remark));
        for (field, names) in trained {
            self.names.entry(field).or_insert(names);
        }
        Ok(remarks)
    }

    /// Loads some parameters from a file of another tool, in which they have other names or exchanged axes. Other parameters
    /// stay unchanged. Returns remarks as [`Session::load`] does.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// use engine::core::pipeline::LoadName;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("weights.npz");
    /// session.save(&path)?;
    /// // The file of another tool would have another name here.
    /// let names = [LoadName { param: "w".into(), tensor: "w".into(), is_transposed: false }];
    /// assert!(session.load_named(&path, &names)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Session::load`].
    pub fn load_named(&mut self, path: &Path, names: &[LoadName]) -> Result<Vec<String>, SessionError> {
        let params: Vec<Symbol> = names.iter().map(|name| name.param.clone()).collect();
        let tensors = weights::read(path, &self.pipeline.params, names)?;
        let mut remarks = weights::left_out(&self.pipeline.params, names, &tensors);
        remarks.extend(self.take_over(path, &params, weights::renamed(path, names, &tensors)?)?);
        Ok(remarks)
    }

    fn take_over(
        &mut self,
        path: &Path,
        params: &[Symbol],
        tensors: IndexMap<String, HostTensor>,
    ) -> Result<Vec<String>, SessionError> {
        let (tensors, remarks) = weights::in_types_of(&self.pipeline.params, path, tensors)?;
        self.state.restore(path, params, &tensors, false)?;
        self.state_file = Some(path.to_path_buf());
        Ok(remarks)
    }

    /// The values of the pipeline's parameters and declared states, copied to the host.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// assert_eq!(session.parameters()?["w"].as_slice::<f32>()?, [2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the device fails.
    pub fn parameters(&self) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let names: Vec<Symbol> = self.pipeline.params.iter().map(|param| param.name.clone()).collect();
        self.state.snapshot(&names)
    }

    /// Gives parameters and declared states values. Others keep theirs. Floats of another type are converted; returns
    /// remarks on conversions.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// use engine::runtime::tensor::HostTensor;
    ///
    /// session.set_parameters([("w".to_string(), HostTensor::scalar(3.0f32))].into_iter().collect())?;
    /// assert_eq!(session.parameters()?["w"].as_slice::<f32>()?, [3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the pipeline has no such parameter, or a value has another shape. No parameter is changed then.
    pub fn set_parameters(
        &mut self,
        values: IndexMap<String, HostTensor>,
    ) -> Result<Vec<String>, SessionError> {
        let given = Path::new("the given values");
        let names: Vec<Symbol> = values.keys().map(|name| name.as_str().into()).collect();
        let (values, remarks) = weights::in_types_of(&self.pipeline.params, given, values)?;
        self.state.restore(given, &names, &values, true)?;
        Ok(remarks)
    }

    /// Writes the parameters and the state of the last training stage, as plain arrays if the name ends in `.npz`.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("weights.npz");
    /// session.save(&path)?;
    /// assert!(path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the file cannot be written, or would replace a file that another program wrote.
    pub fn save(&self, path: &Path) -> Result<(), SessionError> {
        self.write_state(path, &self.checkpoint()?)
    }

    /// Writes some parameters and declared states, as plain arrays if the name ends in `.npz`. No run can resume from the
    /// file.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("weights.safetensors");
    /// session.save_named(&path, &["w".into()])?;
    /// assert!(session.load(&path)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Session::save`], or if the pipeline has no such parameter.
    pub fn save_named(&self, path: &Path, names: &[Symbol]) -> Result<(), SessionError> {
        weights::expect_params(path, names, &self.pipeline.params)?;
        let partial = (PARTIAL.to_string(), "true".to_string());
        // Without the progress and the fingerprint of the run, the file is no state of it.
        let state = Checkpoint {
            tensors: self.state.snapshot(names)?,
            seed: self.pipeline.seed,
            extra: names::to_extra(&self.names).into_iter().chain([partial]).collect(),
            ..Checkpoint::default()
        };
        self.write_state(path, &state)
    }

    /// The state of the run, from which another run can resume.
    pub(super) fn checkpoint(&self) -> Result<Checkpoint, SessionError> {
        let mut extra = self.trained.extra.clone();
        extra.extend(self.device.tuning().map(|tuning| (TUNING.to_string(), tuning.to_text())));
        extra.extend(names::to_extra(&self.names));
        extra.extend(self.parts.to_extra());
        Ok(Checkpoint {
            tensors: self.state.snapshot(&self.trained.names)?,
            step: self.trained.step,
            seed: self.pipeline.seed,
            cursor: self.trained.cursor,
            fingerprint: self.fingerprint.clone(),
            extra,
        })
    }

    /// Fails unless a checkpoint was written by a run on data with the same names of columns and classes.
    pub(super) fn expect_same_data(&self, resume: &Resume) -> Result<(), SessionError> {
        match names::difference(&names::from_extra(&resume.checkpoint.extra), &self.names) {
            Some(message) => Err(resume.cannot(format!("its data was another one; {message}"))),
            None => Ok(()),
        }
    }

    /// Whether kept values are due after a step that was the `step`th, counted from 1.
    pub(super) fn is_kept_after(&self, step: u64) -> bool {
        self.inspection.every.is_some_and(|every| step.is_multiple_of(every.max(1)))
    }

    /// The number of steps in one call, at most `most`. Inspected steps are the last of their call.
    pub(super) fn steps_at_once(&self, step: u64, most: usize) -> usize {
        if self.inspection.trace_nan {
            return 1;
        }
        let Inspection { every, progress_every, .. } = self.inspection;
        let left =
            [every, progress_every].into_iter().flatten().map(|every| every.max(1) - step % every.max(1));
        left.fold(most, |most, left| most.min(left as usize))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}
