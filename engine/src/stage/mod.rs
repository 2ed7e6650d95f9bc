//! Stages as graphs: what one step of training, evaluation or inference computes.
//!
//! Data lies on the device for the whole stage. A step gathers its rows by itself: which ones follows from the step
//! number and, in training, from the order of the epoch. Nothing that a step is given changes from one to the next but
//! the step number.

mod optimize;
mod rows;
#[cfg(test)]
mod tests;

pub use rows::{Rows, SplitShape};

use crate::bind::{bind, unroll};
use crate::diag::{Code, Span};
use crate::ir::{
    Binary, Builder, DType, Dim, Graph, InputKind, Level, Scalar, StateLink, Symbol, Type, Unary, Value,
};
use crate::op::Registry;
use crate::pass::{checked, sound};
use crate::pipeline::{Evaluation, Pipeline, RunStage, TrainStage};

/// The graph of one step, with the states in which it adds up what it measures.
#[derive(Clone, Debug)]
pub struct StageGraph {
    /// Bound; outputs and state links set.
    pub graph: Graph,
    /// (metric, `f32[]` state to which each step adds the metric times its number of rows); for training the loss comes
    /// first.
    pub sums: Vec<(Symbol, Symbol)>,
    /// `i32[]` state: 1 + the first step whose loss was not a number, 0 while there is none.
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
        StageIssue { code: Code::E0206, message: message.into(), span, help: None }
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
    let measured = measured(stage);
    let wanted = Wanted { outputs: &measured, state: &stage.state };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &data.data, rows.per_step())?)?;
    let fed = rows::feed(pipeline, &bound, data, rows, (true, stage.accumulate), registry)?;
    let fed = sound("feed", Level::Bound, fed);
    let graph = match &stage.optimizer {
        Some(optimizer) if stage.accumulate <= 1 => {
            optimize::optimize(&fed, stage, optimizer, total_steps(stage, data), registry)?
        }
        Some(_) => optimize::accumulate(&fed, stage.accumulate, registry)?,
        None => fed,
    };
    let mut builder = Builder::new(graph, registry);
    let sums = add_sums(&mut builder, "", &measured, rows.per_step())?;
    let nan_step = add_nan_step(&mut builder)?;
    let graph = sound("measure", Level::Bound, builder.graph.pruned());
    Ok(StageGraph { graph, sums, nan_step: Some(nan_step) })
}

/// Looks for what keeps a training stage from being a graph, as far as that shows without data.
///
/// # Errors
/// As for [`training`].
pub fn rehearse(pipeline: &Pipeline, stage: &TrainStage, registry: &Registry) -> Result<(), StageIssue> {
    let loss: (Symbol, Symbol) = ("loss".into(), stage.loss.clone());
    let measured: Vec<(Symbol, Symbol)> = [loss].into_iter().chain(stage.metrics.iter().cloned()).collect();
    let wanted = Wanted { outputs: &measured, state: &stage.state };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &stage.data.data, stage.batch)?)?;
    rows::expect_free_names(pipeline, &bound, &stage.data.data)?;
    match &stage.optimizer {
        Some(optimizer) => optimize::optimize(&bound, stage, optimizer, 1, registry).map(|_| ()),
        None => Ok(()),
    }
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
    let wanted = Wanted { outputs: &measured(stage), state: &[] };
    let rows = Rows::Batches { batch: stage.batch, per_epoch: 1 };
    let graph = select(pipeline, &wanted, &rows::extents(pipeline, &data.data, rows.per_step())?)?;
    let graph = optimize::apply(&graph, stage, optimizer, total_steps(stage, data), registry)?;
    Ok(StageGraph { graph: graph.pruned(), sums: vec![], nan_step: None })
}

/// What a training stage measures: the loss, then its metrics.
fn measured(stage: &TrainStage) -> Vec<(Symbol, Symbol)> {
    let loss: (Symbol, Symbol) = ("loss".into(), stage.loss.clone());
    [loss].into_iter().chain(stage.metrics.iter().cloned()).collect()
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
    let wanted = Wanted { outputs: &evaluation.metrics, state: &[] };
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
) -> Result<Graph, StageIssue> {
    select(pipeline, &Wanted { outputs, state: &[] }, extents)
}

/// One step of a `Run` stage from the pipeline's plain inputs.
///
/// # Errors
/// As for [`inference`].
pub fn running(pipeline: &Pipeline, stage: &RunStage) -> Result<Graph, StageIssue> {
    select(pipeline, &Wanted { outputs: &stage.outputs, state: &stage.state }, &stage.dims)
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
}

/// The part of the pipeline's graph that is wanted, bound and without loops.
fn select(pipeline: &Pipeline, wanted: &Wanted, extents: &[(Symbol, usize)]) -> Result<Graph, StageIssue> {
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
    let graph = graph.pruned();
    let bound = bind(&graph, extents).map_err(|issue| {
        let span = graph.find(&issue.node).and_then(|value| graph.nodes[value.node].span);
        let found = StageIssue::new(format!("`{}`: {}", issue.node, issue.issue.message), span);
        StageIssue { help: issue.issue.help, ..found }
    })?;
    let bound = sound("bind", Level::Bound, bound);
    let flat = checked("unroll", Level::Bound, &bound, unroll);
    Ok(flat.unwrap_or_else(|broken| crate::bug!("{broken}")))
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

/// Remembers the first step whose loss, the first output, is not a number.
fn add_nan_step(builder: &mut Builder) -> Result<Symbol, StageIssue> {
    let name: Symbol = "nan_step".into();
    let state = own_input(builder, &name, InputKind::State, Type::scalar(DType::I32))?;
    builder.set_scope(&name, None);
    let loss: Value = builder.graph.outputs[0].1;
    let loss = builder.cast(loss, DType::F32);
    let is_nan = builder.unary(Unary::IsNan, loss);
    let zero = builder.constant(0.0, DType::I32);
    let none_yet = builder.binary(Binary::Eq, state, zero);
    let is_first = builder.binary(Binary::And, is_nan, none_yet);
    let step = builder.step();
    let one = builder.constant(1.0, DType::I32);
    let number = builder.add(step, one);
    let next = builder.scalar(Scalar::Select, &[is_first, number, state]);
    builder.graph.state.push(StateLink { input: state.node, next });
    Ok(name)
}
