//! The planner that sessions normally have: the compiler.

use std::sync::Arc;

use engine_core::compile::{Compiled, Options, compile};
use engine_core::ir::{Graph, Symbol, Value};
use engine_core::op::Registry;
use engine_core::pipeline::{Pipeline, RunStage};
use engine_core::stage::{self, NormShown, ScaleStates, StageGraph, StageIssue, Watched};
use indexmap::IndexMap;

use super::error::{PlanError, StageFault};
use super::plan::{Planner, Request, StagePlan, Sum};

/// Compiles the stages of a pipeline.
pub struct CompilingPlanner {
    pipeline: Arc<Pipeline>,
    registry: Registry,
    options: Options,
    /// By path: the name of the node.
    kept: IndexMap<Symbol, Symbol>,
    norm: NormShown,
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
    /// See [`StagePlan::loss_scale`].
    pub loss_scale: Option<ScaleStates>,
}

impl CompilingPlanner {
    /// A compiler for the stages of this pipeline.
    pub fn new(pipeline: Arc<Pipeline>, registry: Registry, options: Options) -> Self {
        CompilingPlanner { pipeline, registry, options, kept: IndexMap::new(), norm: NormShown::Never }
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

    /// Lets training stages report the norm of their gradients ([`StepReport::grad_norm`]).
    ///
    /// [`StepReport::grad_norm`]: super::StepReport::grad_norm
    pub fn reporting_norm(self, norm: NormShown) -> Self {
        CompilingPlanner { norm, ..self }
    }

    /// Compiles a plan and keeps all its forms.
    ///
    /// # Errors
    /// If the stage has no graph.
    pub fn compile(&self, request: &Request) -> Result<CompiledStage, StageFault> {
        let (pipeline, registry) = (&*self.pipeline, &self.registry);
        let plain = |graph| StageGraph { graph, sums: vec![], nan_step: None, loss_scale: None };
        let made = match *request {
            Request::Training { stage, data, rows } => {
                stage::training_with(pipeline, stage, data, rows, &self.watched(), registry)
            }
            Request::Applying { stage, data } => {
                stage::applying_with(pipeline, stage, data, &self.watched(), registry)
            }
            Request::Evaluation { scope, evaluation, data, rows } => {
                stage::evaluation(pipeline, scope, evaluation, data, rows, registry)
            }
            Request::Inference { outputs, extents, behaviour, .. } => {
                stage::inference(pipeline, outputs, extents, behaviour).map(plain)
            }
            Request::Decoding { stage, extents, n_new } => {
                stage::decoding(pipeline, stage, extents, n_new, registry).map(plain)
            }
            Request::Running(stage) => self.running(stage).map(plain),
        };
        let StageGraph { graph, sums, nan_step, loss_scale } = made.map_err(StageFault)?;
        let sums = sums.into_iter().map(|(metric, state)| Sum { metric, state }).collect();
        let fixed = match *request {
            Request::Inference { fixed, .. } => fixed,
            _ => &[],
        };
        Ok(CompiledStage { compiled: self.compile_graph(graph, fixed), sums, nan_step, loss_scale })
    }

    /// The graph of a `Run` stage, with the kept gradients that it has.
    fn running(&self, stage: &RunStage) -> Result<Graph, StageIssue> {
        let mut stage = stage.clone();
        for gradient in self.kept_gradients() {
            let mut with = stage.clone();
            with.gradients.push(gradient);
            if stage::running(&self.pipeline, &with, &self.registry).is_ok() {
                stage = with;
            }
        }
        stage::running(&self.pipeline, &stage, &self.registry)
    }

    fn watched(&self) -> Watched {
        Watched { gradients: self.kept_gradients(), norm: self.norm }
    }

    /// The outputs (name, node) of kept gradients `d.NODE` with respect to nodes and inputs.
    fn kept_gradients(&self) -> Vec<(Symbol, Symbol)> {
        let by = |(path, name): (&Symbol, &Symbol)| {
            Some((format!("{KEPT}{path}").into(), Symbol::from(name.strip_prefix("d.")?)))
        };
        self.kept.iter().filter(|(_, name)| self.pipeline.graph.find(name).is_none()).filter_map(by).collect()
    }

    /// Compiles a graph; `fixed` are the data inputs that stay unchanged for many steps.
    fn compile_graph(&self, mut graph: Graph, fixed: &[Symbol]) -> Compiled {
        let deterministic = self.pipeline.deterministic || self.options.deterministic;
        let Pipeline { matmul, numerics, .. } = *self.pipeline;
        let once = Some(fixed.to_vec());
        let options = Options { matmul, numerics, deterministic, once, ..self.options.clone() };
        let kept = self
            .kept
            .iter()
            .filter_map(|(path, name)| Some((format!("{KEPT}{path}").into(), graph.find(name)?)));
        let is_new = |(name, _): &(Symbol, Value)| graph.outputs.iter().all(|(known, _)| known != name);
        let kept: Vec<_> = kept.filter(is_new).collect();
        graph.outputs.extend(kept);
        compile(&graph, &self.registry, &options)
    }
}

impl Planner for CompilingPlanner {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn plan(&self, request: &Request) -> Result<StagePlan, PlanError> {
        Ok(self.compile(request)?.into())
    }
}

impl From<CompiledStage> for StagePlan {
    fn from(stage: CompiledStage) -> Self {
        let Compiled { plan, simplified, once, .. } = stage.compiled;
        let simplified = once.map_or(simplified, |once| once.whole);
        let (sums, nan_step, loss_scale) = (stage.sums, stage.nan_step, stage.loss_scale);
        StagePlan { plan: Arc::new(plan), graph: Arc::new(simplified), sums, nan_step, loss_scale }
    }
}
