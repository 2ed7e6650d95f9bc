//! `Train` stages as graphs.

use super::declared::{expect_data, expect_one_way, expect_state};
use super::optimize::{NormShown, Steps};
use super::own::own_input;
use super::slots::{Slots, expect_own_name};
use super::updates::{Updates, trained};
use super::{Rows, ScaleStates, SplitShape};
use super::{StageGraph, StageIssue, Wanted, add_sums, optimize, rows, select};
use crate::ir::{
    Binary, Builder, DType, Graph, InputKind, Level, Scalar, StateLink, Symbol, Type, Unary, Value,
};
use crate::last_rows::last_rows;
use crate::op::Registry;
use crate::pass::sound;
use crate::pipeline::{Pipeline, StageKind, TrainStage};

impl StageKind for TrainStage {
    fn keyword(&self) -> &'static str {
        "Train"
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn restores(&self) -> bool {
        self.early_stop.as_ref().is_some_and(|early_stop| early_stop.restore_best)
    }

    fn expect_declared(&self, name: &str, pipeline: &Pipeline) -> Result<(), StageIssue> {
        expect_own_name(name, self)?;
        expect_data(pipeline, &self.data.data)?;
        if let Some(evaluation) = &self.evaluate {
            expect_data(pipeline, &evaluation.data.data)?;
        }
        expect_one_way(name, self, pipeline)?;
        expect_state(pipeline, &self.state)
    }

    fn rehearse(&self, name: &str, pipeline: &Pipeline, registry: &Registry) -> Result<(), StageIssue> {
        rehearse_training(pipeline, self, registry)?;
        let scope = format!("{name}.evaluate");
        let evaluation = self.evaluate.as_ref();
        evaluation.map_or(Ok(()), |evaluation| evaluation.rehearse(&scope, pipeline, registry))
    }

    fn measured(&self, metric: &str) -> Option<&Symbol> {
        let evaluated = self.evaluate.as_ref().and_then(|evaluation| evaluation.measured(metric));
        evaluated.or_else(|| {
            let metric = metric.strip_prefix("train ")?;
            let found = self.metrics.iter().find(|(name, _)| **name == *metric).map(|(_, node)| node);
            found.or((metric == "loss").then_some(&self.loss))
        })
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
    training_with(pipeline, stage, data, rows, &Watched::default(), registry)
}

/// Further outputs of a training step.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// (name, node): gradients of the loss with respect to nodes that the loss depends on, the parameters apart. Other
    /// nodes are passed over.
    pub gradients: Vec<(Symbol, Symbol)>,
    /// Whether the norm of the gradients is the output [`GRAD_NORM`](super::GRAD_NORM).
    pub norm: NormShown,
}

/// As [`training`], with further outputs.
///
/// # Errors
/// As for [`training`].
pub fn training_with(
    pipeline: &Pipeline,
    stage: &TrainStage,
    data: &SplitShape,
    rows: Rows,
    Watched { gradients, norm }: &Watched,
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    let (measured, updates) = (measured(stage), Updates::of(pipeline, stage));
    let wanted =
        Wanted { outputs: &measured, state: &updates.of_batch, mode: stage.mode, precision: stage.precision };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &data.data, rows.per_step())?)?;
    let fed = rows::feed(pipeline, &bound, data, rows, (true, stage.accumulate), registry)?;
    let fed = sound("feed", Level::Bound, fed);
    // A gradient of a stack would take memory, too.
    let fed = sound("last-rows", Level::Bound, last_rows(&fed, registry));
    let trained = trained(pipeline, stage);
    let n_steps = total_steps(stage, data);
    let steps = steps(pipeline, stage, (&trained, &updates.once), (n_steps, *norm), registry);
    let graph = match steps {
        Some(steps) if stage.accumulate <= 1 => optimize::optimize(&fed, &steps, gradients, registry)?,
        Some(steps) => optimize::accumulate(&fed, &steps, gradients, registry)?,
        None => fed,
    };
    let mut builder = Builder::new(graph, registry);
    let sums = add_sums(&mut builder, "", &measured, rows.per_step())?;
    let nan_step = add_nan_step(&mut builder)?;
    let graph = sound("measure", Level::Bound, builder.graph.pruned());
    Ok(StageGraph { graph, sums, nan_step: Some(nan_step), loss_scale: scale_states(stage) })
}

/// The step of the optimizer after [`training`] has been taken on `stage.accumulate` batches: from the averaged gradients
/// to the next parameters. The averages start over at zero. States whose next values depend on no rows are updated, too.
///
/// # Errors
/// If the stage has no optimizer.
pub fn applying(
    pipeline: &Pipeline,
    stage: &TrainStage,
    data: &SplitShape,
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    applying_with(pipeline, stage, data, &Watched::default(), registry)
}

/// As [`applying`], with further outputs. The gradients with respect to nodes belong to [`training_with`].
///
/// # Errors
/// As for [`applying`].
pub fn applying_with(
    pipeline: &Pipeline,
    stage: &TrainStage,
    data: &SplitShape,
    watched: &Watched,
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    let graph = apply(pipeline, stage, (total_steps(stage, data), watched.norm), registry)?;
    Ok(StageGraph { graph: graph.pruned(), sums: vec![], nan_step: None, loss_scale: scale_states(stage) })
}

fn apply(
    pipeline: &Pipeline,
    stage: &TrainStage,
    (n_steps, norm): (usize, NormShown),
    registry: &Registry,
) -> Result<Graph, StageIssue> {
    let (measured, updates) = (measured(stage), Updates::of(pipeline, stage));
    let extents = rows::extents(pipeline, &stage.data.data, stage.batch)?;
    let batch =
        Wanted { outputs: &measured, state: &updates.of_batch, mode: stage.mode, precision: stage.precision };
    let trained =
        optimize::reached(&select(pipeline, &batch, &extents)?, trained(pipeline, stage), registry)?;
    let changed = (&*trained, &*updates.once);
    let Some(steps) = steps(pipeline, stage, changed, (n_steps, norm), registry) else {
        return Err(StageIssue::new("`accumulate` needs an optimizer", None));
    };
    let wanted =
        Wanted { outputs: &[], state: &updates.of_step, mode: stage.mode, precision: stage.precision };
    optimize::apply(select(pipeline, &wanted, &extents)?, &steps, &pipeline.params, registry)
}

/// The states of a loss that is scaled.
fn scale_states(stage: &TrainStage) -> Option<ScaleStates> {
    let scales = stage.optimizer.is_some() && stage.precision.loss_scale().is_some();
    scales.then(ScaleStates::named)
}

/// The steps of the stage's optimizer, if it has one. `once` names the states that are updated with them.
fn steps<'s>(
    pipeline: &'s Pipeline,
    stage: &'s TrainStage,
    (trained, once): (&'s [Symbol], &'s [Symbol]),
    (n_steps, norm): (usize, NormShown),
    registry: &Registry,
) -> Option<Steps<'s>> {
    stage.optimizer.as_ref().map(|optimizer| Steps {
        stage,
        optimizer,
        trained,
        slots: Slots::of(pipeline, stage, registry),
        once,
        recomputed: &pipeline.recomputed,
        n_steps,
        norm,
    })
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

/// Steps of the whole stage, which schedules refer to.
fn total_steps(stage: &TrainStage, data: &SplitShape) -> usize {
    let all = stage.epochs * rows::steps_per_epoch(data.n_rows, rows_per_step(stage), stage.last_batch);
    stage.max_steps.map_or(all, |most| all.min(most)).max(1)
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

fn rehearse_training(pipeline: &Pipeline, stage: &TrainStage, registry: &Registry) -> Result<(), StageIssue> {
    let (measured, updates) = (measured(stage), Updates::of(pipeline, stage));
    let wanted =
        Wanted { outputs: &measured, state: &updates.of_batch, mode: stage.mode, precision: stage.precision };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &stage.data.data, stage.batch)?)?;
    rows::expect_free_names(pipeline, &bound, &stage.data.data)?;
    let trained = trained(pipeline, stage);
    let changed = (&*trained, &*updates.once);
    let graph = match steps(pipeline, stage, changed, (1, NormShown::Never), registry) {
        Some(steps) if stage.accumulate <= 1 => optimize::optimize(&bound, &steps, &[], registry)?,
        Some(steps) => {
            apply(pipeline, stage, (1, NormShown::Never), registry)?;
            optimize::accumulate(&bound, &steps, &[], registry)?
        }
        None => bound,
    };
    let mut builder = Builder::new(graph, registry);
    add_sums(&mut builder, "", &measured, stage.batch)?;
    add_nan_step(&mut builder).map(drop)
}
