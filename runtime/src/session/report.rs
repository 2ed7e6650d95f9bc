//! What a run has to show for itself, as data; `--report` writes it as JSON.

use indexmap::IndexMap;
use serde::Serialize;

use crate::data::source::DataSet;
use crate::tensor::HostTensor;
use crate::tuning::Tuning;

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The pipeline's name.
    pub graph: String,
    /// The device's name.
    pub device: String,
    /// The seed.
    pub seed: u64,
    /// The data sets by their name in the pipeline.
    pub data: IndexMap<String, DataReport>,
    /// The stages that ran, in order.
    pub stages: Vec<StageReport>,
    /// Results of `Run` stages by name.
    pub outputs: IndexMap<String, OutputReport>,
    /// What the device has found out by trying, if it tries anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
}

/// Where the rows of a run came from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataReport {
    /// The set that was really used.
    pub name: String,
    /// Files, download or synthetic.
    pub provenance: String,
    /// Whether the set is made by the program.
    pub synthetic: bool,
    /// What the user was told about it.
    pub note: Option<String>,
    /// Rows by split.
    pub rows: IndexMap<String, usize>,
}

impl From<&DataSet> for DataReport {
    fn from(set: &DataSet) -> Self {
        DataReport {
            name: set.name.clone(),
            provenance: set.provenance.to_string(),
            synthetic: set.is_synthetic(),
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
    /// `train`, `evaluate`, `run`, `save` or `load`.
    pub kind: String,
    /// Wall time.
    pub seconds: f64,
    /// Steps taken by this process.
    pub steps: u64,
    /// Mean wall time of one of them, evaluation apart.
    pub step_us: f64,
    /// Epochs of a training stage that this process completed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub epochs: Vec<EpochReport>,
    /// What was measured last.
    pub metrics: IndexMap<String, f64>,
    /// Kernels launched by one step.
    pub kernels_per_step: usize,
    /// Arena of the largest plan.
    pub peak_bytes: usize,
}

/// One epoch of a training stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Mean of the loss over the rows of the epoch.
    pub train_loss: f64,
    /// Wall time, evaluation included.
    pub seconds: f64,
    /// Means of the stage's other metrics over the rows of the epoch.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub train_metrics: IndexMap<String, f64>,
    /// What the evaluation after the epoch measured.
    pub metrics: IndexMap<String, f64>,
}

/// One result of a `Run` stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutputReport {
    /// Its type: `f32[2,3]`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Its first elements, row-major, at most [`OutputReport::MOST_VALUES`]; a value that is no finite number is null.
    pub values: Vec<f64>,
}

impl OutputReport {
    /// More elements than this are not reported.
    pub const MOST_VALUES: usize = 1024;
}

impl From<&HostTensor> for OutputReport {
    fn from(tensor: &HostTensor) -> Self {
        let mut values = tensor.to_f64();
        values.truncate(OutputReport::MOST_VALUES);
        OutputReport { ty: format!("{tensor:?}"), values }
    }
}
