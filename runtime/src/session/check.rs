//! What would end a run before its first step, found without a device: stages are bound to the data at hand as a session
//! binds them, by the same functions.

use engine_core::ir::{InputKind, NodeOp, Symbol};
use engine_core::op::Registry;
use engine_core::pipeline::{
    Evaluation, Given, LastBatch, LoadStage, ParamDecl, Pipeline, RunStage, SearchStage, SplitRef, Stage,
    StageKind, TrainStage,
};
use engine_core::stage::{self, SplitShape, StageIssue, search_extents};
use indexmap::IndexMap;
use std::path::Path;

use super::batches::Layout;
use super::compiling::StageFault;
use super::error::SessionError;
use super::inference::Values;
use super::resident::split_shape;
use super::saving::files_of;
use super::search::expect_rows;
use super::state::{expect_tensors, tensor_type};
use super::train::n_steps;
use super::weights;
use crate::checkpoint::TensorType;
use crate::data::source::DataSet;

/// Looks for what would end a run of the stages before its first step. Stages whose data is not in `sets` are passed
/// over, and so are files that an earlier stage writes. Returns an error for each input of a `Run` stage that has no
/// value, which the caller of the run may give.
///
/// # Errors
/// What a session would end with.
pub fn check_stages(
    pipeline: &Pipeline,
    sets: &IndexMap<Symbol, DataSet>,
    given: &IndexMap<Symbol, Given>,
    registry: &Registry,
) -> Result<Vec<SessionError>, SessionError> {
    let mut open = vec![];
    for (i, stage) in pipeline.stages.iter().enumerate() {
        let checking = Checking { pipeline, sets, registry, stage };
        match &stage.kind {
            StageKind::Train(train) => checking.training(train)?,
            StageKind::Evaluate(evaluation) => checking.evaluation(&stage.name, evaluation)?,
            StageKind::Search(search) => checking.search(search)?,
            StageKind::Run(run) => open.extend(checking.running(run, given)?),
            StageKind::Predict(predict) => {
                checking.planned(stage::prediction(pipeline, predict))?;
            }
            StageKind::Load(load) => checking.loading(load, &pipeline.stages[..i])?,
            StageKind::Save { .. } => {}
        }
    }
    Ok(open)
}

struct Checking<'c> {
    pipeline: &'c Pipeline,
    sets: &'c IndexMap<Symbol, DataSet>,
    registry: &'c Registry,
    stage: &'c Stage,
}

impl Checking<'_> {
    fn planned<T>(&self, made: Result<T, StageIssue>) -> Result<T, SessionError> {
        let fault = |issue| SessionError::Plan {
            stage: self.stage.name.clone(),
            source: Box::new(StageFault(issue)),
        };
        made.map_err(fault)
    }

    /// The types of a split; none if its data is not at hand.
    fn shape(&self, split: &SplitRef) -> Result<Option<SplitShape>, SessionError> {
        let Some(set) = self.sets.get(&split.data) else { return Ok(None) };
        let rows = set.split(&split.split);
        let rows =
            rows.map_err(|source| SessionError::Data { data: split.data.clone(), source: Box::new(source) })?;
        Ok(Some(split_shape(&split.data, rows)))
    }

    fn training(&self, train: &TrainStage) -> Result<(), SessionError> {
        if let Some(shape) = self.shape(&train.data)? {
            let (name, batch) = (&self.stage.name, (train.batch, train.accumulate));
            let layout = Layout::new(name, shape.n_rows, batch, train.last_batch)?;
            n_steps(name, train, &layout)?;
            let (whole, last) = layout.ways();
            for rows in [whole, last].into_iter().flatten() {
                self.planned(stage::training(self.pipeline, train, &shape, rows, self.registry))?;
            }
            if train.accumulate > 1 {
                self.planned(stage::applying(self.pipeline, train, &shape, self.registry))?;
            }
        }
        let scope = format!("{}.evaluate", self.stage.name);
        train.evaluate.as_ref().map_or(Ok(()), |evaluation| self.evaluation(&scope, evaluation))
    }

    fn evaluation(&self, scope: &str, evaluation: &Evaluation) -> Result<(), SessionError> {
        let Some(shape) = self.shape(&evaluation.data)? else { return Ok(()) };
        let batch = (evaluation.batch, 1);
        let layout = Layout::new(&self.stage.name, shape.n_rows, batch, LastBatch::Short)?;
        let (whole, last) = layout.ways();
        for rows in [whole, last].into_iter().flatten() {
            let made = stage::evaluation(self.pipeline, scope, evaluation, &shape, rows, self.registry);
            self.planned(made)?;
        }
        Ok(())
    }

    fn search(&self, search: &SearchStage) -> Result<(), SessionError> {
        let [base, queries] = search.splits();
        let (Some(base), Some(queries)) = (self.shape(&base)?, self.shape(&queries)?) else { return Ok(()) };
        let outputs: Vec<_> = search.outputs().map(|node| (node.clone(), node.clone())).collect();
        let batch = search.batch.min(queries.n_rows.max(1));
        let extents = search_extents(self.pipeline, &queries, base.n_rows, batch);
        let graph = self.planned(stage::inference(self.pipeline, &outputs, &extents, search.mode))?;
        for (id, _) in graph.inputs().filter(|(_, kind)| *kind == InputKind::Data) {
            let output = &graph.nodes[id].outputs[0];
            let decl = self.pipeline.inputs.iter().find(|decl| decl.name == output.name);
            let field = decl.and_then(|decl| decl.from.as_ref()).map(|(_, field)| field);
            let fields = queries.fields.iter().chain(&base.fields);
            if let Some((_, row)) = fields.into_iter().find(|(name, _)| Some(name) == field) {
                expect_rows(&output.name, &output.ty, row)?;
            }
        }
        Ok(())
    }

    fn running(
        &self,
        run: &RunStage,
        given: &IndexMap<Symbol, Given>,
    ) -> Result<Vec<SessionError>, SessionError> {
        let graph = self.planned(stage::running(self.pipeline, run, self.registry))?;
        let values = Values { given, pipeline: self.pipeline, sets: self.sets };
        let mut open = vec![];
        for node in graph.nodes.iter().filter(|node| node.op == NodeOp::Input(InputKind::Data)) {
            match values.of_input(run, node.name(), &node.outputs[0].ty) {
                Ok(_) => {}
                Err(error @ SessionError::NoInput { .. }) if self.is_fed_by_caller(node.name()) => {
                    open.push(error);
                }
                Err(SessionError::NoInput { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }

    /// Whether the file of a `Load` stage has what the stage asks for.
    fn loading(&self, load: &LoadStage, before: &[Stage]) -> Result<(), SessionError> {
        let path = Path::new(&load.path);
        let mut written = before.iter().flat_map(|stage| files_of(&stage.kind));
        if written.any(|(written, _)| written.file_name() == path.file_name()) {
            return Ok(());
        }
        let tensors = weights::read(path)?;
        let is_named = |param: &Symbol| load.names.iter().any(|name| name.param == *param);
        let is_needed = |param: &&ParamDecl| load.names.is_empty() || is_named(&param.name);
        let tensors = match load.names.is_empty() {
            true => tensors,
            false => weights::renamed(path, &load.names, &tensors)?,
        };
        let (tensors, _) = weights::in_types_of(&self.pipeline.params, path, tensors)?;
        let needed = self.pipeline.params.iter().filter(is_needed);
        let needed: Vec<TensorType> = needed.map(|param| tensor_type(&param.name, &param.ty)).collect();
        expect_tensors(path, &needed, &tensors, false)
    }

    fn is_fed_by_caller(&self, input: &Symbol) -> bool {
        self.pipeline.inputs.iter().all(|decl| decl.name != *input || decl.from.is_none())
    }
}
