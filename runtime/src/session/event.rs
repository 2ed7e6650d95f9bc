//! The events of a session, reported as they occur.

use std::fmt;
use std::path::Path;

use engine_core::ir::Symbol;

use super::report::{EpochReport, StageReport, StepReport};
use crate::data::source::DataSet;
use crate::tensor::HostTensor;
use indexmap::IndexMap;

/// Receives the events of a session.
pub type Subscriber<'s> = dyn FnMut(&Event<'_>) + 's;

/// An event of a session.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A data set is in memory.
    DataLoaded {
        /// Its name in the pipeline.
        data: &'a str,
        /// The set.
        set: &'a DataSet,
    },
    /// A note for the user.
    Note(&'a str),
    /// A stage begins.
    StageStarted {
        /// Its name.
        stage: &'a str,
        /// `train`, `evaluate`, `run`, `save`, `load` or `repeat`.
        kind: &'static str,
        /// The most steps that it runs, counted from its beginning.
        n_steps: u64,
    },
    /// Some steps of training are done.
    Progress {
        /// The stage.
        stage: &'a str,
        /// Completed steps, including those before a resumed checkpoint.
        step: u64,
        /// Steps in all.
        n_steps: u64,
        /// The epoch, counted from 1.
        epoch: u64,
        /// Epochs in all.
        n_epochs: u64,
        /// Loss of the last step, if it is a scalar of `f32`.
        loss: Option<f64>,
        /// Measures the last step.
        measure: Measure<'a>,
    },
    /// A trip of a `Repeat` stage is complete.
    Trip {
        /// The stage.
        stage: &'a str,
        /// Trips so far.
        trip: u64,
        /// The most trips.
        times: u64,
    },
    /// An epoch of training is complete, its evaluation included.
    EpochDone {
        /// The stage.
        stage: &'a str,
        /// Epochs in all.
        n_epochs: u64,
        /// Its measurements.
        report: &'a EpochReport,
        /// The set that it was evaluated on, which may be a stand-in.
        set: Option<&'a DataSet>,
    },
    /// An evaluation stage is complete.
    Evaluated {
        /// The stage.
        stage: &'a str,
        /// Its metrics.
        metrics: &'a IndexMap<String, f64>,
        /// The set that it was measured on, which may be a stand-in.
        set: &'a DataSet,
    },
    /// A `Run` stage has results.
    Outputs {
        /// The stage.
        stage: &'a str,
        /// Results by name.
        outputs: &'a IndexMap<String, HostTensor>,
    },
    /// A part of a text is generated, or is its beginning.
    Generated {
        /// The stage.
        stage: &'a str,
        /// The next characters.
        text: &'a str,
    },
    /// The value of a node that is kept ([`CompilingPlanner::keeping`](super::CompilingPlanner::keeping)).
    Kept {
        /// The stage.
        stage: &'a str,
        /// The step that computed it, counted from 0.
        step: u64,
        /// The node.
        node: &'a str,
        /// Its value.
        value: &'a HostTensor,
    },
    /// A checkpoint was written to disk.
    CheckpointWritten {
        /// The file.
        path: &'a Path,
    },
    /// Results were written to a file.
    ResultsWritten {
        /// The file.
        path: &'a Path,
    },
    /// State was read from a checkpoint.
    CheckpointRead {
        /// The file.
        path: &'a Path,
        /// The number of steps before it.
        step: u64,
    },
    /// A stage is complete.
    StageDone {
        /// Its report.
        report: &'a StageReport,
    },
}

/// A measurement that is made when it is asked for. Training pays for no measurement that is not shown.
#[derive(Clone, Copy)]
pub struct Measure<'a>(pub(super) &'a dyn Fn() -> StepReport);

impl Measure<'_> {
    /// Makes the measurement.
    pub fn take(&self) -> StepReport {
        (self.0)()
    }
}

impl fmt::Debug for Measure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.take().fmt(f)
    }
}

/// Reports the values of kept nodes.
pub(super) fn report_kept(
    stage: &str,
    step: u64,
    kept: Vec<(Symbol, HostTensor)>,
    tell: &mut Subscriber<'_>,
) {
    for (node, value) in &kept {
        tell(&Event::Kept { stage, step, node, value });
    }
}
