//! The interface of a session to the compiler.

use std::sync::Arc;

use engine_core::ir::{Graph, Symbol};
use engine_core::op::Registry;
use engine_core::pipeline::{Evaluation, Mode, RunStage, TrainStage};
use engine_core::plan::Plan;
use engine_core::stage::{Rows, SplitShape};

use super::error::PlanError;

/// Turns the stages of one pipeline into plans.
///
/// Inputs of the plans are bound by name: the pipeline's parameters and state; `DATA.FIELD` for a field of a resident
/// split, all its rows; `order` (`i32[rows]`) for the order in which training visits them.
pub trait Planner: Send + Sync {
    /// The ops, stage kinds and metrics of the pipeline.
    fn registry(&self) -> &Registry;

    /// One training step on some rows of `data` in the order `order`; one batch of it if the stage accumulates.
    fn training(&self, stage: &TrainStage, data: &SplitShape, rows: Rows) -> Result<StagePlan, PlanError>;

    /// The step of the optimizer after so many batches as the stage accumulates gradients over.
    fn applying(&self, stage: &TrainStage, data: &SplitShape) -> Result<StagePlan, PlanError>;

    /// One evaluation step on rows of `data` in file order. `scope` separates the sums of several evaluations.
    fn evaluation(
        &self,
        scope: &str,
        evaluation: &Evaluation,
        data: &SplitShape,
        rows: Rows,
    ) -> Result<StagePlan, PlanError>;

    /// The named nodes from the pipeline's plain inputs, with named extents bound: (name, node), (extent, value).
    fn inference(
        &self,
        outputs: &[(Symbol, Symbol)],
        extents: &[(Symbol, usize)],
        mode: Mode,
    ) -> Result<Arc<Plan>, PlanError>;

    /// One step of a `Run` stage from the pipeline's plain inputs.
    fn running(&self, stage: &RunStage) -> Result<StagePlan, PlanError>;
}

/// A plan with the state in which it sums its metrics.
#[derive(Clone, Debug)]
pub struct StagePlan {
    /// The plan of one step.
    pub plan: Arc<Plan>,
    /// The nodes that the plan's kernels were made of, for the interpreter.
    pub graph: Arc<Graph>,
    /// The metrics: for training, the loss first.
    pub sums: Vec<Sum>,
    /// A state `i32[]` that holds 1 + the first step whose loss was NaN or infinite, 0 while there is none.
    pub nan_step: Option<Symbol>,
}

/// A state `f32[]` to which each step adds a metric of its rows, times their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The metric.
    pub metric: Symbol,
    /// The state.
    pub state: Symbol,
}
