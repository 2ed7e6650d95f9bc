//! What a `Train` stage says.

use super::{Evaluation, Goal, MixedPrecision, Mode, OptimizerDecl, SplitRef};
use crate::ir::Symbol;

/// A training stage.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainStage {
    /// The name of the stage. It tells the states of its optimizer from those of other stages.
    pub name: Symbol,
    /// Training rows.
    pub data: SplitRef,
    /// Rows per batch; binds the leading named extent of the data inputs.
    pub batch: usize,
    /// Batches whose gradients are averaged for one step of the optimizer.
    pub accumulate: usize,
    /// Passes over the data.
    pub epochs: usize,
    /// Stops after so many steps (of the optimizer) even if epochs remain.
    pub max_steps: Option<usize>,
    /// Scalar node that is minimised and reported.
    pub loss: Symbol,
    /// How ops behave; gradients are of this behaviour.
    pub mode: Mode,
    /// The precision of its nodes; parameters and optimizer states are `f32`.
    pub precision: MixedPrecision,
    /// Other scalar nodes to report, averaged over the epoch: (name, node).
    pub metrics: Vec<(Symbol, Symbol)>,
    /// The optimizer; `None` if `state` spells the update out.
    pub optimizer: Option<OptimizerDecl>,
    /// State assigned by hand: (state, node that is its next value). Without an optimizer, a parameter may stand for a state.
    pub state: Vec<(Symbol, Symbol)>,
    /// Gradients are scaled down so that their global 2-norm is at most this.
    pub clip_norm: Option<f64>,
    /// Elements of gradients are clamped to at most this, and to at least its negative.
    pub clip_value: Option<f64>,
    /// Rows that do not fill a batch.
    pub last_batch: LastBatch,
    /// Evaluated after every epoch.
    pub evaluate: Option<Evaluation>,
    /// The metric of the evaluation that tells the best epoch; see [`monitored`](super::monitored) for the default.
    pub monitor: Option<Monitor>,
    /// Ends training before its last epoch.
    pub early_stop: Option<EarlyStop>,
    /// Where checkpoints go; none are written without it.
    pub checkpoint: Option<CheckpointDecl>,
}

/// A metric of an evaluation, and which of its values are better.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitor {
    /// The metric's name in the evaluation.
    pub metric: Symbol,
    /// The direction of improvement.
    pub goal: Goal,
}

/// When training ends before its last epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyStop {
    /// Training ends after so many epochs without an improvement of the monitored metric.
    pub patience: usize,
    /// A smaller change is no improvement.
    pub min_delta: f64,
    /// Whether the state of the best epoch is restored when training ends, for any reason.
    pub restore_best: bool,
}

/// Where and how often checkpoints are written.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointDecl {
    /// The file of the latest state.
    pub path: String,
    /// Every so many epochs.
    pub every: usize,
    /// Also keeps the state of the best epoch, here.
    pub best: Option<String>,
}

/// What happens to the rows that do not fill a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastBatch {
    /// They are left out of this epoch (shuffling picks others the next time).
    Drop,
    /// They form a short batch with a plan of its own.
    Short,
}
