//! Which epoch of a training is the best.

use super::{Evaluation, Goal, Monitor, Pipeline, StageIssue, TrainStage};
use crate::diag::Code;
use crate::ir::{Body, Graph, Inst, NodeOp, Symbol, Value};
use crate::op::Lower;

/// The metric that tells the best epoch: `monitor` if the stage names one, else the first metric of its evaluation if
/// that is the loss or a copy of it, of which lower values are better. None if there is nothing to tell it by and nothing
/// that depends on it.
///
/// # Errors
/// If `early_stop`, `best` or a learning rate depend on a metric that is missing, or of which the better direction is not known.
pub fn monitored(pipeline: &Pipeline, stage: &TrainStage) -> Result<Option<Monitor>, StageIssue> {
    let has_metric_rate = stage.optimizer.iter().any(|optimizer| optimizer.metric_rates().next().is_some());
    let keeps_best = stage.checkpoint.iter().any(|checkpoint| checkpoint.best.is_some());
    let is_needed = has_metric_rate || stage.early_stop.is_some() || keeps_best;
    let Some(evaluation) = &stage.evaluate else {
        return match is_needed || stage.monitor.is_some() {
            true => Err(evaluation_is_missing()),
            false => Ok(None),
        };
    };
    if let Some(monitor) = &stage.monitor {
        let is_measured = evaluation.metrics.iter().any(|(name, _)| *name == monitor.metric);
        return if is_measured {
            Ok(Some(monitor.clone()))
        } else {
            Err(unknown(&monitor.metric, evaluation))
        };
    }
    match evaluation.metrics.first() {
        Some((metric, node)) if is_copy(&pipeline.graph, node, &stage.loss) => {
            Ok(Some(Monitor { metric: metric.clone(), goal: Goal::Min }))
        }
        Some((metric, _)) if is_needed => Err(direction_is_unknown(metric)),
        None if is_needed => Err(evaluation_is_missing()),
        _ => Ok(None),
    }
}

/// What to say where the best epoch counts and nothing is evaluated.
pub fn evaluation_is_missing() -> StageIssue {
    let help = "add `evaluate: Evaluate(data: …, batch: …, metrics: [\"loss\"])`: a metric of it tells the best epoch";
    let issue = StageIssue::new("this needs the field `evaluate`", None).help(help);
    StageIssue { code: Code::E0011, ..issue }
}

fn unknown(metric: &Symbol, evaluation: &Evaluation) -> StageIssue {
    let known: Vec<String> = evaluation.metrics.iter().map(|(name, _)| format!("`{name}`")).collect();
    let issue = StageIssue::new(format!("the evaluation does not measure `{metric}`"), None);
    StageIssue { code: Code::E0101, ..issue.help(format!("it measures {}", known.join(", "))) }
}

fn direction_is_unknown(metric: &Symbol) -> StageIssue {
    let message = format!("nothing says whether higher or lower values of `{metric}` are better");
    let help =
        format!("add `monitor: Max(\"{metric}\")` or `monitor: Min(\"{metric}\")` to the `Train` stage");
    StageIssue { code: Code::E0209, ..StageIssue::new(message, None).help(help) }
}

/// Whether two nodes always have the same value because one hands on the other.
fn is_copy(graph: &Graph, a: &Symbol, b: &Symbol) -> bool {
    let origin = |name: &Symbol| graph.find(name).map(|value| origin(graph, value));
    a == b || origin(a).is_some_and(|found| Some(found) == origin(b))
}

/// The value that maps hand on as `value`.
fn origin(graph: &Graph, mut value: Value) -> Value {
    loop {
        let node = graph.node(value.node);
        let operand = match &node.op {
            NodeOp::Map(body) => handed_on(body, value.port),
            NodeOp::Call(call) => match &call.form().lower {
                Lower::Map(body) => handed_on(&body(&call.attrs), value.port),
                _ => None,
            },
            _ => None,
        };
        // A map may broadcast, or convert a constant; then its result has another type.
        match operand.map(|operand| node.inputs[operand]) {
            Some(input) if graph.ty(input) == graph.ty(value) => value = input,
            _ => return value,
        }
    }
}

/// The operand that a result of a body is, if it is one.
fn handed_on(body: &Body, output: usize) -> Option<usize> {
    match body.insts[body.outputs[output]] {
        Inst::Param(operand) => Some(operand),
        _ => None,
    }
}
