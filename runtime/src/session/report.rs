//! The report of a run as data. `--report` writes it as JSON.

use std::fmt;

use indexmap::IndexMap;
use serde::Serialize;

use super::error::{SessionError, TRAINING};
use crate::autotune::Tuning;
use crate::data::source::DataSet;
use crate::tensor::HostTensor;

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The pipeline's name.
    pub graph: String,
    /// The device's name.
    pub device: String,
    /// The seed.
    pub seed: u64,
    /// Whether all stages ran to their end.
    pub end: RunEnd,
    /// Whether generated data stands in for a missing set. Metrics on such data say nothing about the real task.
    pub stand_in: bool,
    /// The most memory that a stage needs of the device, in bytes.
    pub peak_bytes: usize,
    /// The data sets by their name in the pipeline.
    pub data: IndexMap<String, DataReport>,
    /// The stages that ran, in order.
    pub stages: Vec<StageReport>,
    /// Results of `Run` stages by name.
    pub outputs: IndexMap<String, OutputReport>,
    /// The choices of autotuning, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunEnd {
    /// All stages ran to their end.
    Complete,
    /// The run was cancelled, and its last stage is incomplete.
    Interrupted,
    /// Something went wrong, or has yet to go right.
    #[default]
    Failed,
}

/// The provenance of the rows of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataReport {
    /// The set that was really used.
    pub name: String,
    /// Files, download or synthetic.
    pub provenance: String,
    /// Whether the set is made by the program.
    pub synthetic: bool,
    /// The requested set or file that this set stands in for, if there is one.
    pub stands_in_for: Option<String>,
    /// The note for the user.
    pub note: Option<String>,
    /// Rows by split.
    pub rows: IndexMap<String, usize>,
}

impl Report {
    /// Appends a stage.
    pub(super) fn add(&mut self, stage: StageReport) {
        self.peak_bytes = self.peak_bytes.max(stage.peak_bytes);
        self.stages.push(stage);
    }
}

impl StageReport {
    /// The reports of all parts, then this one.
    pub(super) fn flat(mut self) -> Vec<StageReport> {
        let parts = std::mem::take(&mut self.parts).into_iter().flat_map(StageReport::flat);
        parts.collect::<Vec<_>>().into_iter().chain([self]).collect()
    }

    /// The report with the memory of the stage.
    pub(super) fn with_memory(self, memory: MemoryReport) -> Self {
        StageReport { peak_bytes: memory.total(), memory, ..self }
    }

    /// The measures of the stage at its end. A restored epoch is finite.
    fn measured(&self) -> Vec<(String, f64)> {
        let is_restored = self.end.iter().flat_map(|end| &end.best).any(|best| best.is_restored);
        if is_restored {
            return vec![];
        }
        let last = self.epochs.last();
        let in_training = last.into_iter().flat_map(|epoch| {
            let loss = [("loss", epoch.train_loss)].into_iter();
            loss.chain(epoch.train_metrics.iter().map(|(name, value)| (name.as_str(), *value)))
        });
        let in_training = in_training.map(|(name, value)| (format!("{TRAINING}{name}"), value));
        in_training.chain(self.metrics.iter().map(|(name, value)| (name.clone(), *value))).collect()
    }

    /// The failure of a stage that has measured a NaN or an infinity.
    pub(super) fn not_finite(&self) -> Option<SessionError> {
        if let Some(error) = self.parts.iter().find_map(StageReport::not_finite) {
            return Some(error);
        }
        let (metric, value) = self.measured().into_iter().find(|(_, value)| !value.is_finite())?;
        Some(SessionError::Metric { stage: self.name.as_str().into(), metric, value })
    }
}

impl From<&DataSet> for DataReport {
    fn from(set: &DataSet) -> Self {
        DataReport {
            name: set.name.clone(),
            provenance: set.provenance.to_string(),
            synthetic: set.is_synthetic(),
            stands_in_for: set.stands_in_for().map(str::to_string),
            note: set.note.clone(),
            rows: set.splits.iter().map(|(name, split)| (name.clone(), split.n_rows())).collect(),
        }
    }
}

/// One stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// `train`, `evaluate`, `run`, `save`, `load` or `repeat`.
    pub kind: String,
    /// Wall time.
    pub seconds: f64,
    /// Steps taken by this process; trips of a `Repeat` stage.
    pub steps: u64,
    /// Mean wall time of one of them, evaluation apart.
    pub step_us: f64,
    /// Rows that these steps have read, if they read batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Epochs of a training stage that this process completed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub epochs: Vec<EpochReport>,
    /// Why a training stage ended, and its best epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<TrainingEnd>,
    /// The factor of the loss of a training stage in `f16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScaleReport>,
    /// The reports of the parts of a `Repeat` stage. In the report of a run, they stand before it.
    #[serde(skip)]
    pub parts: Vec<StageReport>,
    /// The last metrics.
    pub metrics: IndexMap<String, f64>,
    /// The speed of the batches of a `Search` stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyReport>,
    /// The tokens that a `Generate` stage has written, in all texts together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The texts of a `Generate` stage, with their prompts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// Kernels launched by one step.
    pub kernels_per_step: usize,
    /// Bytes of memory that the stage needs of the device: the sum of `memory`.
    pub peak_bytes: usize,
    /// Their division by purpose.
    pub memory: MemoryReport,
}

/// The factor of a scaled loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossScaleReport {
    /// The factor after the last step.
    pub factor: f32,
    /// Steps that were skipped, since their gradients were not finite.
    pub skipped: u64,
}

impl fmt::Display for LossScaleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LossScaleReport { factor, skipped } = self;
        let steps = if *skipped == 1 { "1 step was".to_owned() } else { format!("{skipped} steps were") };
        write!(f, "the loss scale is {factor} at the end; {steps} skipped for gradients that are not finite")
    }
}

/// The wall times of the batches of a search, from their way to the device to the results on the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyReport {
    /// Queries by second.
    pub queries_per_second: f64,
    /// The median in microseconds.
    pub p50_us: f64,
    /// The time in microseconds that at most one of a hundred batches exceeds.
    pub p99_us: f64,
}

impl LatencyReport {
    /// Of batches that took so many seconds each, and had so many queries together; none without batches.
    pub(super) fn of(n_queries: usize, seconds: &[f64]) -> Option<LatencyReport> {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The nearest rank: the least time that so large a share of the batches does not exceed.
        let at_share = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted.get(rank.saturating_sub(1)).map(|seconds| seconds * 1e6)
        };
        let queries_per_second = n_queries as f64 / seconds.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        Some(LatencyReport { queries_per_second, p50_us: at_share(50)?, p99_us: at_share(99)? })
    }
}

/// The device memory of a stage in bytes, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// Parameters.
    pub parameters: usize,
    /// Other state: the optimizer's state, sums, states of the pipeline.
    pub state: usize,
    /// Rows that are resident on the device.
    pub data: usize,
    /// Values within steps, workspaces, and rows on their way.
    pub steps: usize,
}

impl MemoryReport {
    /// All of it.
    pub fn total(&self) -> usize {
        self.parameters + self.state + self.data + self.steps
    }
}

/// One step of a training stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepReport {
    /// Steps taken until then, those before a resumed checkpoint included.
    pub step: u64,
    /// The epoch of the step, counted from 1.
    pub epoch: u64,
    /// The loss, then the stage's other metrics, on the rows of this step. With `accumulate`, on those of its last batch.
    pub metrics: IndexMap<String, f64>,
    /// The learning rates of this step: `lr`, and `lr.N` for the group of parameters of number N, counted from 1.
    pub rates: IndexMap<String, f64>,
    /// The 2-norm of all gradients together, before clipping; for a stage with `clip_norm`, if the planner reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grad_norm: Option<f64>,
    /// Rows that all steps so far have read, those before a resumed checkpoint included.
    pub rows: u64,
    /// Wall time of the steps of this process in seconds, evaluations apart.
    pub seconds: f64,
    /// Bytes of memory that the stage needs of the device.
    pub device_bytes: usize,
}

/// One epoch of a training stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Steps taken until its end.
    pub step: u64,
    /// Mean of the loss over the rows of the epoch.
    pub train_loss: f64,
    /// Wall time, evaluation included.
    pub seconds: f64,
    /// Means of the stage's other metrics over the rows of the epoch.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub train_metrics: IndexMap<String, f64>,
    /// The metrics of the evaluation after the epoch.
    pub metrics: IndexMap<String, f64>,
    /// The split of that evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluated_on: Option<String>,
}

/// How a training stage ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingEnd {
    /// Why.
    pub reason: EndReason,
    /// The last epoch, counted from 1.
    pub epoch: u64,
    /// Epochs that there were to be.
    pub n_epochs: u64,
    /// The best epoch by the monitored metric, if one is monitored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<BestEpoch>,
}

/// Why a training stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All epochs are done.
    Epochs,
    /// `max_steps` are done.
    MaxSteps,
    /// The monitored metric had not improved for some epochs.
    EarlyStop {
        /// How many.
        patience: usize,
        /// By more than this.
        min_delta: f64,
    },
}

/// The epoch with the best value of the monitored metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestEpoch {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The metric.
    pub metric: String,
    /// Its value then.
    pub value: f64,
    /// Whether the state of that epoch has taken the place of the last one.
    #[serde(rename = "restored")]
    pub is_restored: bool,
}

/// One result of a `Run` stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutputReport {
    /// Its type: `f32[2,3]`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Its first elements, row-major, at most [`OutputReport::MOST_VALUES`]; a value that is no finite number is null.
    pub values: Values,
}

/// Elements of a result, in row-major order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Values {
    /// Those of all types but `i64`.
    Floats(Vec<f64>),
    /// Those of `i64`, which a float may round.
    Whole(Vec<i64>),
}

impl Values {
    /// The elements as floats.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Values::Floats(values) => values.clone(),
            Values::Whole(values) => values.iter().map(|&value| value as f64).collect(),
        }
    }
}

impl OutputReport {
    /// More elements than this are not reported.
    pub const MOST_VALUES: usize = 1024;
}

impl From<&HostTensor> for OutputReport {
    fn from(tensor: &HostTensor) -> Self {
        let values = match tensor.as_slice::<i64>() {
            Ok(whole) => Values::Whole(whole.iter().copied().take(OutputReport::MOST_VALUES).collect()),
            Err(_) => {
                let mut values = tensor.to_f64();
                values.truncate(OutputReport::MOST_VALUES);
                Values::Floats(values)
            }
        };
        OutputReport { ty: format!("{tensor:?}"), values }
    }
}
