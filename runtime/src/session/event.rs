//! What happens in a session, told while it happens.

use std::path::Path;

use engine_core::ir::Symbol;

use super::Subscriber;
use super::report::{EpochReport, StageReport};
use crate::data::source::DataSet;
use crate::tensor::HostTensor;
use indexmap::IndexMap;

/// Something that a subscriber may want to show.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A data set is in memory.
    DataLoaded {
        /// Its name in the pipeline.
        data: &'a str,
        /// The set.
        set: &'a DataSet,
    },
    /// Something the user should know.
    Note(&'a str),
    /// A stage begins.
    StageStarted {
        /// Its name.
        stage: &'a str,
        /// `train`, `evaluate`, `run`, `save` or `load`.
        kind: &'static str,
        /// Steps it will take at most, counted from where it begins.
        n_steps: u64,
    },
    /// Some steps are done.
    Progress {
        /// The stage.
        stage: &'a str,
        /// Steps done, those before a resumed checkpoint included.
        step: u64,
        /// Steps in all.
        n_steps: u64,
        /// The epoch, counted from 1.
        epoch: u64,
        /// Epochs in all.
        n_epochs: u64,
        /// Loss of the last step; none outside training.
        loss: Option<f64>,
    },
    /// An epoch of training is complete, its evaluation included.
    EpochDone {
        /// The stage.
        stage: &'a str,
        /// Epochs in all.
        n_epochs: u64,
        /// What it measured.
        report: &'a EpochReport,
        /// The set that it was evaluated on, which may be a stand-in.
        set: Option<&'a DataSet>,
    },
    /// An evaluation stage is complete.
    Evaluated {
        /// The stage.
        stage: &'a str,
        /// What it measured.
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
    /// A checkpoint is safely on the disk.
    CheckpointWritten {
        /// The file.
        path: &'a Path,
    },
    /// Results are in a file.
    ResultsWritten {
        /// The file.
        path: &'a Path,
    },
    /// State was read from a checkpoint.
    CheckpointRead {
        /// The file.
        path: &'a Path,
        /// Steps that it had taken.
        step: u64,
    },
    /// A stage is complete.
    StageDone {
        /// What it has to show.
        report: &'a StageReport,
    },
}

/// Tells the values of nodes that are kept.
pub(super) fn tell_kept(stage: &str, step: u64, kept: Vec<(Symbol, HostTensor)>, tell: &mut Subscriber<'_>) {
    for (node, value) in &kept {
        tell(&Event::Kept { stage, step, node, value });
    }
}
