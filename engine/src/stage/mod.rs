//! Stages as graphs: what one step of training, evaluation or inference computes.
//!
//! Data lies on the device for the whole stage. A step gathers its rows by itself: which ones follows from the step
//! number and, in training, from the order of the epoch. Nothing that a step is given changes from one to the next but
//! the step number.

mod declared;
mod mode;
mod monitor;
mod optimize;
mod predict;
mod rows;
#[cfg(test)]
mod tests;

pub use declared::expect_declared;
pub(crate) use monitor::evaluation_is_missing;
pub use monitor::monitored;
pub use predict::{Prediction, picks_among, prediction};
pub use rows::{Rows, SplitShape};

use crate::bind::{bind, unroll};
use crate::diag::{Code, Span};
use crate::ir::{
    Binary, Builder, DType, Dim, Graph, InputKind, Level, Scalar, StateLink, Symbol, Type, Unary, Value,
};
use crate::op::Registry;
use crate::pass::{checked, sound};
use crate::pipeline::{Evaluation, Given, Mode, Pipeline, RunStage, Stage, StageKind, TrainStage};
use mode::set_mode;
use std::collections::HashSet;

/// The graph of one step, with the states in which it adds up what it measures.
#[derive(Clone, Debug)]
pub struct StageGraph {
    /// Bound; outputs and state links set.
    pub graph: Graph,
    /// (metric, `f32[]` state to which each step adds the metric times its number of rows); for training the loss comes
    /// first.
    pub sums: Vec<(Symbol, Symbol)>,
    /// `i32[]` state: 1 + the first step whose loss was NaN or infinite, 0 while there is none.
    pub nan_step: Option<Symbol>,
}

/// Why a stage cannot be turned into a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct StageIssue {
    /// The page that explains it.
    pub code: Code,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// Where in the pipeline.
    pub span: Option<Span>,
    /// One concrete thing to do.
    pub help: Option<String>,
}

impl StageIssue {
    fn new(message: impl Into<String>, span: Option<Span>) -> StageIssue {
        StageIssue { code: Code::E0211, message: message.into(), span, help: None }
    }

    fn help(self, help: impl Into<String>) -> StageIssue {
        StageIssue { help: Some(help.into()), ..self }
    }
}

/// One step of training on some rows of a split; one batch of several if the stage accumulates gradients. The step
/// number then counts batches, and what the pipeline calls `step` is that number divided by the batches of a step.
///
/// # Errors
/// If a node that the stage names is missing or not a scalar, data and inputs do not fit, or the loss has no gradient.
pub fn training(
    pipeline: &Pipeline,
    stage: &TrainStage,
    data: &SplitShape,
    rows: Rows,
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    training_with(pipeline, stage, data, rows, &[], registry)
}

/// As [`training`], with further outputs (name, node): gradients of the loss with respect to nodes that the loss depends
/// on, the parameters apart. Other nodes are passed over.
///
/// # Errors
/// As for [`training`].
pub fn training_with(
    pipeline: &Pipeline,
    stage: &TrainStage,
    data: &SplitShape,
    rows: Rows,
    gradients: &[(Symbol, Symbol)],
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    let measured = measured(stage);
    let wanted = Wanted { outputs: &measured, state: &stage.state, mode: stage.mode };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &data.data, rows.per_step())?)?;
    let fed = rows::feed(pipeline, &bound, data, rows, (true, stage.accumulate), registry)?;
    let fed = sound("feed", Level::Bound, fed);
    let graph = match &stage.optimizer {
        Some(optimizer) if stage.accumulate <= 1 => {
            optimize::optimize(&fed, stage, optimizer, total_steps(stage, data), gradients, registry)?
        }
        Some(_) => optimize::accumulate(&fed, stage.accumulate, gradients, registry)?,
        None => fed,
    };
    let mut builder = Builder::new(graph, registry);
    let sums = add_sums(&mut builder, "", &measured, rows.per_step())?;
    let nan_step = add_nan_step(&mut builder)?;
    let graph = sound("measure", Level::Bound, builder.graph.pruned());
    Ok(StageGraph { graph, sums, nan_step: Some(nan_step) })
}

/// Looks for what keeps a stage from being a graph, as far as that shows without data.
///
/// # Errors
/// As for the function that makes the stage's graph.
pub fn rehearse(pipeline: &Pipeline, stage: &Stage, registry: &Registry) -> Result<(), StageIssue> {
    match &stage.kind {
        StageKind::Train(train) => {
            rehearse_training(pipeline, train, registry)?;
            let scope = format!("{}.evaluate", stage.name);
            let evaluation = train.evaluate.as_ref();
            evaluation.map_or(Ok(()), |it| rehearse_evaluation(pipeline, &scope, it, registry))
        }
        StageKind::Evaluate(evaluation) => rehearse_evaluation(pipeline, &stage.name, evaluation, registry),
        StageKind::Predict(predict) => prediction(pipeline, predict).map(drop),
        StageKind::Run(run) => rehearse_running(pipeline, run, registry),
        // The extents of a search are those of its data.
        StageKind::Search(_) | StageKind::Save { .. } | StageKind::Load(_) => Ok(()),
    }
}

fn rehearse_training(pipeline: &Pipeline, stage: &TrainStage, registry: &Registry) -> Result<(), StageIssue> {
    let measured = measured(stage);
    let wanted = Wanted { outputs: &measured, state: &stage.state, mode: stage.mode };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &stage.data.data, stage.batch)?)?;
    rows::expect_free_names(pipeline, &bound, &stage.data.data)?;
    let graph = match &stage.optimizer {
        Some(optimizer) if stage.accumulate <= 1 => {
            optimize::optimize(&bound, stage, optimizer, 1, &[], registry)?
        }
        Some(optimizer) => {
            optimize::apply(&bound, stage, optimizer, 1, registry)?;
            optimize::accumulate(&bound, stage.accumulate, &[], registry)?
        }
        None => bound,
    };
    let mut builder = Builder::new(graph, registry);
    add_sums(&mut builder, "", &measured, stage.batch)?;
    add_nan_step(&mut builder).map(drop)
}

fn rehearse_evaluation(
    pipeline: &Pipeline,
    scope: &str,
    evaluation: &Evaluation,
    registry: &Registry,
) -> Result<(), StageIssue> {
    let wanted = Wanted { outputs: &evaluation.metrics, state: &[], mode: evaluation.mode };
    let data = &evaluation.data.data;
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, data, evaluation.batch)?)?;
    rows::expect_free_names(pipeline, &bound, data)?;
    add_sums(&mut Builder::new(bound, registry), scope, &evaluation.metrics, evaluation.batch).map(drop)
}

fn rehearse_running(pipeline: &Pipeline, stage: &RunStage, registry: &Registry) -> Result<(), StageIssue> {
    let graph = running(pipeline, stage, registry)?;
    for (input, given) in &stage.inputs {
        // A value for an input that the outputs do not need is not looked at.
        let Some(value) = graph.find(input) else { continue };
        let ty = graph.ty(value);
        if let Given::Elements { shape, .. } = given
            && *shape != ty.extents()
        {
            let message = format!("`{input}` is {ty}, the stage gives it a value of shape {shape:?}");
            let issue = StageIssue::new(message, None).help("give as many elements, or correct `dims`");
            return Err(StageIssue { code: Code::E0506, ..issue });
        }
    }
    Ok(())
}

/// The step of the optimizer after [`training`] has been taken on `stage.accumulate` batches: from the averaged gradients
/// to the next parameters. The averages start over at zero.
///
/// # Errors
/// If the stage has no optimizer.
pub fn applying(
    pipeline: &Pipeline,
    stage: &TrainStage,
    data: &SplitShape,
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    let Some(optimizer) = &stage.optimizer else {
        return Err(StageIssue::new("`accumulate` needs an optimizer", None));
    };
    let wanted = Wanted { outputs: &measured(stage), state: &[], mode: stage.mode };
    let rows = Rows::Batches { batch: stage.batch, per_epoch: 1 };
    let graph = select(pipeline, &wanted, &rows::extents(pipeline, &data.data, rows.per_step())?)?;
    let graph = optimize::apply(&graph, stage, optimizer, total_steps(stage, data), registry)?;
    Ok(StageGraph { graph: graph.pruned(), sums: vec![], nan_step: None })
}

/// What a training stage measures: the loss, then its metrics, of which the loss may be one.
fn measured(stage: &TrainStage) -> Vec<(Symbol, Symbol)> {
    let loss: (Symbol, Symbol) = ("loss".into(), stage.loss.clone());
    let others = stage.metrics.iter().filter(|metric| **metric != loss).cloned();
    [loss.clone()].into_iter().chain(others).collect()
}

/// Rows of all batches of a step.
fn rows_per_step(stage: &TrainStage) -> usize {
    stage.batch.saturating_mul(stage.accumulate.max(1))
}

/// One step of evaluation on some rows of a split, as they lie. `scope` tells the sums of several evaluations apart.
///
/// # Errors
/// As for [`training`].
pub fn evaluation(
    pipeline: &Pipeline,
    scope: &str,
    evaluation: &Evaluation,
    data: &SplitShape,
    rows: Rows,
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    let wanted = Wanted { outputs: &evaluation.metrics, state: &[], mode: evaluation.mode };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &data.data, rows.per_step())?)?;
    let fed = sound("feed", Level::Bound, rows::feed(pipeline, &bound, data, rows, (false, 1), registry)?);
    let mut builder = Builder::new(fed, registry);
    let sums = add_sums(&mut builder, scope, &evaluation.metrics, rows.per_step())?;
    let graph = sound("measure", Level::Bound, builder.graph.pruned());
    Ok(StageGraph { graph, sums, nan_step: None })
}

/// The named nodes from the pipeline's plain inputs, with named extents bound: (name, node), (extent, value).
///
/// # Errors
/// If a node is missing or an extent stays open.
pub fn inference(
    pipeline: &Pipeline,
    outputs: &[(Symbol, Symbol)],
    extents: &[(Symbol, usize)],
    mode: Mode,
) -> Result<Graph, StageIssue> {
    select(pipeline, &Wanted { outputs, state: &[], mode }, extents)
}

/// One step of a `Run` stage from the pipeline's plain inputs.
///
/// # Errors
/// As for [`inference`], and if there is no gradient that the stage asks for.
pub fn running(pipeline: &Pipeline, stage: &RunStage, registry: &Registry) -> Result<Graph, StageIssue> {
    let shown: Vec<_> = stage.outputs.iter().chain(&stage.gradients).cloned().collect();
    expect_distinct(&Wanted { outputs: &shown, state: &stage.state, mode: stage.mode })?;
    let Some(loss) = stage.loss.as_ref().filter(|_| !stage.gradients.is_empty()) else {
        let wanted = Wanted { outputs: &stage.outputs, state: &stage.state, mode: stage.mode };
        return select(pipeline, &wanted, &stage.dims);
    };
    // Until the graph is bound, outputs hold the loss and the nodes by which it is differentiated. No node has a space
    // in its name.
    let by = stage.gradients.iter().map(|(_, node)| node);
    let held = [loss].into_iter().chain(by).enumerate();
    let held = held.map(|(place, node)| (format!(" {place}").into(), node.clone()));
    let outputs: Vec<(Symbol, Symbol)> = stage.outputs.iter().cloned().chain(held).collect();
    let wanted = Wanted { outputs: &outputs, state: &stage.state, mode: stage.mode };
    let mut graph = select(pipeline, &wanted, &stage.dims)?;
    let held: Vec<Value> =
        graph.outputs.split_off(stage.outputs.len()).into_iter().map(|(_, value)| value).collect();
    let names = stage.gradients.iter().map(|(name, _)| name.clone()).collect();
    let graph = optimize::differentiated(&graph, held[0], (names, &held[1..]), registry)?;
    Ok(sound("gradient", Level::Bound, graph.pruned()))
}

/// What the leading extents of the inputs of a search are bound to: `n_rows` queries at a time, `n_base` rows to search.
pub fn search_extents(
    pipeline: &Pipeline,
    queries: &SplitShape,
    n_base: usize,
    n_rows: usize,
) -> Vec<(Symbol, usize)> {
    let mut extents: Vec<(Symbol, usize)> = vec![];
    for decl in &pipeline.inputs {
        let Some((_, field)) = decl.from.as_ref().filter(|(data, _)| *data == queries.data) else { continue };
        let leading =
            pipeline.graph.find(&decl.name).and_then(|value| pipeline.graph.ty(value).shape.first());
        if let Some(Dim::Named(name)) = leading {
            let is_query = queries.fields.iter().any(|(known, _)| known == field);
            extents.push((name.clone(), if is_query { n_rows } else { n_base }));
        }
    }
    extents.sort();
    extents.dedup();
    extents
}

/// An input that the stage needs under just this name, since the session knows it by that.
fn own_input(builder: &mut Builder, name: &str, kind: InputKind, ty: Type) -> Result<Value, StageIssue> {
    expect_free(&builder.graph, name)?;
    Ok(builder.input(name, kind, ty))
}

fn expect_free(graph: &Graph, name: &str) -> Result<(), StageIssue> {
    let Some(taken) = graph.find(name) else { return Ok(()) };
    let message = format!("the stage keeps a value of its own under the name `{name}`");
    let issue = StageIssue::new(message, graph.nodes[taken.node].span);
    Err(StageIssue { code: Code::E0302, ..issue.help("give the node another name") })
}

/// What a stage takes from the pipeline's graph: (name, node) results and (state, node) next values.
struct Wanted<'w> {
    outputs: &'w [(Symbol, Symbol)],
    state: &'w [(Symbol, Symbol)],
    mode: Mode,
}

/// The part of the pipeline's graph that is wanted.
fn part(pipeline: &Pipeline, wanted: &Wanted) -> Result<Graph, StageIssue> {
    expect_declared(pipeline)?;
    expect_distinct(wanted)?;
    let mut graph = pipeline.graph.clone();
    let find = |name: &Symbol| {
        graph.find(name).ok_or_else(|| StageIssue::new(format!("there is no node `{name}`"), None))
    };
    let outputs = wanted.outputs.iter().map(|(name, node)| Ok((name.clone(), find(node)?)));
    let outputs = outputs.collect::<Result<Vec<_>, StageIssue>>()?;
    let link =
        |(state, node): &(Symbol, Symbol)| Ok(StateLink { input: find(state)?.node, next: find(node)? });
    let state = wanted.state.iter().map(link).collect::<Result<Vec<_>, StageIssue>>()?;
    graph.outputs = outputs;
    graph.state = state;
    let mut graph = graph.pruned();
    set_mode(&mut graph, wanted.mode);
    Ok(graph)
}

/// That part, bound and without loops.
fn select(pipeline: &Pipeline, wanted: &Wanted, extents: &[(Symbol, usize)]) -> Result<Graph, StageIssue> {
    let graph = part(pipeline, wanted)?;
    let bound = bind(&graph, extents).map_err(|issue| {
        let span = graph.find(&issue.node).and_then(|value| graph.nodes[value.node].span);
        let found = StageIssue::new(format!("`{}`: {}", issue.node, issue.issue.message), span);
        StageIssue { help: issue.issue.help, ..found }
    })?;
    let bound = sound("bind", Level::Bound, bound);
    let flat = checked("unroll", Level::Bound, &bound, unroll);
    Ok(flat.unwrap_or_else(|broken| crate::bug!("{broken}")))
}

/// Nothing if no two results share a name, and no state is updated twice.
fn expect_distinct(wanted: &Wanted) -> Result<(), StageIssue> {
    for (pairs, fault) in
        [(wanted.outputs, "two results are called"), (wanted.state, "there are two updates of")]
    {
        let mut names = HashSet::new();
        if let Some((name, _)) = pairs.iter().find(|(name, _)| !names.insert(name)) {
            let issue = StageIssue::new(format!("{fault} `{name}`"), None);
            return Err(StageIssue { code: Code::E0302, ..issue.help("leave one of them out") });
        }
    }
    Ok(())
}

/// Steps of the whole stage, which schedules refer to.
fn total_steps(stage: &TrainStage, data: &SplitShape) -> usize {
    let all = stage.epochs * rows::steps_per_epoch(data.n_rows, rows_per_step(stage), stage.last_batch);
    stage.max_steps.map_or(all, |most| all.min(most)).max(1)
}

/// Adds each measured scalar, times the number of rows, to a state of its own.
fn add_sums(
    builder: &mut Builder,
    scope: &str,
    measured: &[(Symbol, Symbol)],
    n_rows: usize,
) -> Result<Vec<(Symbol, Symbol)>, StageIssue> {
    let mut sums = vec![];
    for (metric, node) in measured {
        let value = builder.graph.outputs.iter().find(|(name, _)| name == metric).map(|(_, value)| *value);
        let value = value.unwrap_or_else(|| crate::bug!("`{metric}` is not an output of its own stage"));
        let ty = builder.ty(value).clone();
        if ty.rank() != 0 {
            let message = format!("`{node}` is reported as a number, but it is {ty}");
            let span = builder.graph.nodes[value.node].span;
            let issue = StageIssue::new(message, span).help("reduce it, for example by `mean(…)`");
            return Err(StageIssue { code: Code::E0205, ..issue });
        }
        let state: Symbol =
            if scope.is_empty() { format!("sum.{metric}") } else { format!("sum.{scope}.{metric}") }.into();
        let sum = own_input(builder, &state, InputKind::State, Type::scalar(DType::F32))?;
        builder.set_scope(&state, None);
        let value = builder.cast(value, DType::F32);
        let weighted = builder.scale(value, n_rows as f64);
        let next = builder.add(sum, weighted);
        builder.graph.state.push(StateLink { input: sum.node, next });
        sums.push((metric.clone(), state));
    }
    Ok(sums)
}

/// Remembers the first step whose loss, the first output, is NaN or infinite.
fn add_nan_step(builder: &mut Builder) -> Result<Symbol, StageIssue> {
    let name: Symbol = "nan_step".into();
    let state = own_input(builder, &name, InputKind::State, Type::scalar(DType::I32))?;
    builder.set_scope(&name, None);
    let loss: Value = builder.graph.outputs[0].1;
    let loss = builder.cast(loss, DType::F32);
    let is_nan = builder.unary(Unary::IsNan, loss);
    let size = builder.unary(Unary::Abs, loss);
    let infinite = builder.constant(f64::INFINITY, DType::F32);
    let is_infinite = builder.binary(Binary::Eq, size, infinite);
    let is_lost = builder.binary(Binary::Or, is_nan, is_infinite);
    let zero = builder.constant(0.0, DType::I32);
    let none_yet = builder.binary(Binary::Eq, state, zero);
    let is_first = builder.binary(Binary::And, is_lost, none_yet);
    let step = builder.step();
    let one = builder.constant(1.0, DType::I32);
    let number = builder.add(step, one);
    let next = builder.scalar(Scalar::Select, &[is_first, number, state]);
    builder.graph.state.push(StateLink { input: state.node, next });
    Ok(name)
}
