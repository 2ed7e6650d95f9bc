//! The planner that sessions normally have: the compiler.

use std::sync::Arc;

use engine_core::compile::{Compiled, Options, compile};
use engine_core::ir::{Graph, Symbol, Value};
use engine_core::op::Registry;
use engine_core::pipeline::{Evaluation, Mode, Pipeline, RunStage, TrainStage};
use engine_core::plan::Plan;
use engine_core::stage::{self, Rows, SplitShape, StageGraph, StageIssue};
use indexmap::IndexMap;

use super::error::{PlanError, StageFault};
use super::plan::{Planner, StagePlan, Sum};

/// Compiles the stages of a pipeline.
pub struct CompilingPlanner {
    pipeline: Arc<Pipeline>,
    registry: Registry,
    options: Options,
    /// By path: the name of the node.
    kept: IndexMap<Symbol, Symbol>,
}

/// The prefix of the output that holds the value of a kept node.
pub(super) const KEPT: &str = "kept.";

/// A compiled stage, with all its forms on the way to the plan.
#[derive(Clone, Debug)]
pub struct CompiledStage {
    /// The compiled graph.
    pub compiled: Compiled,
    /// Its metrics.
    pub sums: Vec<Sum>,
    /// See [`StagePlan::nan_step`].
    pub nan_step: Option<Symbol>,
}

impl CompilingPlanner {
    /// A compiler for the stages of this pipeline.
    pub fn new(pipeline: Arc<Pipeline>, registry: Registry, options: Options) -> Self {
        CompilingPlanner { pipeline, registry, options, kept: IndexMap::new() }
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Lets every stage that computes the value at one of these paths keep it, gradients among them: they are
    /// outputs of its plans, called `kept.PATH`.
    pub fn keeping(self, paths: Vec<Symbol>) -> Self {
        let kept = paths.into_iter().map(|path| (path.clone(), self.pipeline.name_at(&path))).collect();
        CompilingPlanner { kept, ..self }
    }

    /// One training step.
    pub fn compile_training(
        &self,
        stage: &TrainStage,
        data: &SplitShape,
        rows: Rows,
    ) -> Result<CompiledStage, StageFault> {
        let kept = self.kept_gradients();
        self.compile_stage(stage::training_with(&self.pipeline, stage, data, rows, &kept, &self.registry))
    }

    /// The step of the optimizer of a stage that accumulates gradients.
    pub fn compile_applying(
        &self,
        stage: &TrainStage,
        data: &SplitShape,
    ) -> Result<CompiledStage, StageFault> {
        self.compile_stage(stage::applying(&self.pipeline, stage, data, &self.registry))
    }

    /// One evaluation step.
    pub fn compile_evaluation(
        &self,
        scope: &str,
        evaluation: &Evaluation,
        data: &SplitShape,
        rows: Rows,
    ) -> Result<CompiledStage, StageFault> {
        self.compile_stage(stage::evaluation(&self.pipeline, scope, evaluation, data, rows, &self.registry))
    }

    /// The named nodes from the pipeline's plain inputs.
    pub fn compile_inference(
        &self,
        outputs: &[(Symbol, Symbol)],
        extents: &[(Symbol, usize)],
        mode: Mode,
    ) -> Result<Compiled, StageFault> {
        let graph = stage::inference(&self.pipeline, outputs, extents, mode).map_err(StageFault)?;
        Ok(self.compile_graph(&graph))
    }

    /// One step of a `Run` stage.
    pub fn compile_running(&self, stage: &RunStage) -> Result<Compiled, StageFault> {
        let (registry, mut stage) = (&self.registry, stage.clone());
        // Of what is kept, gradients that this stage has.
        for gradient in self.kept_gradients() {
            let mut with = stage.clone();
            with.gradients.push(gradient);
            if stage::running(&self.pipeline, &with, registry).is_ok() {
                stage = with;
            }
        }
        let graph = stage::running(&self.pipeline, &stage, registry).map_err(StageFault)?;
        Ok(self.compile_graph(&graph))
    }

    fn compile_stage(&self, stage: Result<StageGraph, StageIssue>) -> Result<CompiledStage, StageFault> {
        let StageGraph { graph, sums, nan_step } = stage.map_err(StageFault)?;
        let sums = sums.into_iter().map(|(metric, state)| Sum { metric, state }).collect();
        Ok(CompiledStage { compiled: self.compile_graph(&graph), sums, nan_step })
    }

    /// The outputs (name, node) of kept gradients `d.NODE` with respect to nodes and inputs.
    fn kept_gradients(&self) -> Vec<(Symbol, Symbol)> {
        let by = |(path, name): (&Symbol, &Symbol)| {
            Some((format!("{KEPT}{path}").into(), Symbol::from(name.strip_prefix("d.")?)))
        };
        self.kept.iter().filter(|(_, name)| self.pipeline.graph.find(name).is_none()).filter_map(by).collect()
    }

    fn compile_graph(&self, graph: &Graph) -> Compiled {
        let deterministic = self.pipeline.deterministic || self.options.deterministic;
        let Pipeline { matmul, numerics, .. } = *self.pipeline;
        let options = Options { matmul, numerics, deterministic, ..self.options.clone() };
        let kept = self
            .kept
            .iter()
            .filter_map(|(path, name)| Some((format!("{KEPT}{path}").into(), graph.find(name)?)));
        let is_new = |(name, _): &(Symbol, Value)| graph.outputs.iter().all(|(known, _)| known != name);
        let kept: Vec<_> = kept.filter(is_new).collect();
        let mut graph = graph.clone();
        graph.outputs.extend(kept);
        compile(&graph, &self.registry, &options)
    }
}

impl Planner for CompilingPlanner {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn training(&self, stage: &TrainStage, data: &SplitShape, rows: Rows) -> Result<StagePlan, PlanError> {
        Ok(self.compile_training(stage, data, rows)?.into())
    }

    fn applying(&self, stage: &TrainStage, data: &SplitShape) -> Result<StagePlan, PlanError> {
        Ok(self.compile_applying(stage, data)?.into())
    }

    fn evaluation(
        &self,
        scope: &str,
        evaluation: &Evaluation,
        data: &SplitShape,
        rows: Rows,
    ) -> Result<StagePlan, PlanError> {
        Ok(self.compile_evaluation(scope, evaluation, data, rows)?.into())
    }

    fn inference(
        &self,
        outputs: &[(Symbol, Symbol)],
        extents: &[(Symbol, usize)],
        mode: Mode,
    ) -> Result<Arc<Plan>, PlanError> {
        Ok(Arc::new(self.compile_inference(outputs, extents, mode)?.plan))
    }

    fn running(&self, stage: &RunStage) -> Result<StagePlan, PlanError> {
        let compiled = self.compile_running(stage)?;
        Ok(CompiledStage { compiled, sums: vec![], nan_step: None }.into())
    }
}

impl From<CompiledStage> for StagePlan {
    fn from(stage: CompiledStage) -> Self {
        let Compiled { plan, simplified, .. } = stage.compiled;
        let (sums, nan_step) = (stage.sums, stage.nan_step);
        StagePlan { plan: Arc::new(plan), graph: Arc::new(simplified), sums, nan_step }
    }
}
