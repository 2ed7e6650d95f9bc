//! The interface of a session to the compiler.

use std::sync::Arc;

use engine_core::ir::{Graph, Symbol};
use engine_core::op::Registry;
use engine_core::pipeline::{Behaviour, Evaluation, GenerateStage, RunStage, TrainStage};
use engine_core::plan::Plan;
use engine_core::stage::{Rows, ScaleStates, SplitShape};

use super::error::{PlanError, SessionError};

/// Turns the stages of one pipeline into plans.
///
/// Inputs of the plans are bound by name: the pipeline's parameters and state; `DATA.FIELD` for a field of a resident
/// split, all its rows; `order` (`i32[rows]`) for the order in which training visits them.
pub trait Planner: Send + Sync {
    /// The ops, stage kinds and metrics of the pipeline.
    fn registry(&self) -> &Registry;

    /// Makes a plan.
    fn plan(&self, request: &Request) -> Result<StagePlan, PlanError>;
}

impl dyn Planner {
    /// Makes a plan for the stage of that name.
    pub(super) fn plan_for(&self, stage: &Symbol, request: &Request) -> Result<StagePlan, SessionError> {
        self.plan(request).map_err(|source| SessionError::Plan { stage: stage.clone(), source })
    }
}

/// One plan of a pipeline.
#[derive(Clone, Copy, Debug)]
pub enum Request<'r> {
    /// One training step on some rows of `data` in the order `order`; one batch of it if the stage accumulates.
    Training {
        /// The stage.
        stage: &'r TrainStage,
        /// The types of its split.
        data: &'r SplitShape,
        /// The rows of the step.
        rows: Rows,
    },
    /// The step of the optimizer after the batches over which a stage accumulates gradients.
    Applying {
        /// The stage.
        stage: &'r TrainStage,
        /// The types of its split.
        data: &'r SplitShape,
    },
    /// One evaluation step on rows of `data` in file order.
    Evaluation {
        /// Separates the sums of several evaluations.
        scope: &'r str,
        /// The evaluation.
        evaluation: &'r Evaluation,
        /// The types of its split.
        data: &'r SplitShape,
        /// The rows of the step.
        rows: Rows,
    },
    /// Named nodes from the pipeline's plain inputs.
    Inference {
        /// Names and nodes.
        outputs: &'r [(Symbol, Symbol)],
        /// The values of named extents.
        extents: &'r [(Symbol, usize)],
        /// Plain inputs that stay unchanged for many runs.
        fixed: &'r [Symbol],
        /// How ops behave.
        behaviour: Behaviour,
    },
    /// One step of a `Generate` stage with a cache.
    Decoding {
        /// The stage.
        stage: &'r GenerateStage,
        /// The values of named extents.
        extents: &'r [(Symbol, usize)],
        /// The tokens of each text that the step takes.
        n_new: usize,
    },
    /// One step of a `Run` stage from the pipeline's plain inputs.
    Running(&'r RunStage),
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
    /// The states by which the stage scales its loss, if it does.
    pub loss_scale: Option<ScaleStates>,
}

/// A state `f32[]` to which each step adds a metric of its rows, times their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The metric.
    pub metric: Symbol,
    /// The state.
    pub state: Symbol,
}
