//! Stages as graphs: what one step of training, evaluation or inference computes.
//!
//! Data lies on the device for the whole stage. A step gathers its rows by itself: which ones follows from the step
//! number and, in training, from the order of the epoch. Nothing that a step is given changes from one to the next but
//! the step number.

mod declared;
mod evaluation;
mod files;
mod generate;
mod loss_scale;
mod mode;
mod optimize;
mod own;
mod parts;
mod predict;
mod rates;
mod recompute;
mod repeat;
mod rows;
mod running;
mod search;
mod slots;
#[cfg(test)]
mod tests;
mod training;
mod updates;

pub use crate::pipeline::{StageIssue, monitored};
pub use declared::expect_declared;
pub use evaluation::evaluation;
pub use generate::{Generation, decoding, generation};
pub use loss_scale::ScaleStates;
pub use optimize::{GRAD_NORM, NormShown};
pub use parts::expect_parts;
pub use predict::{Prediction, picks_among, prediction};
pub use rates::rate_of_step;
pub use repeat::condition;
pub use rows::{Rows, SplitShape};
pub use running::{ENDED, running};
pub use search::search_extents;
pub use training::{Watched, applying, applying_with, training, training_with};

use crate::bind::{bind, unroll};
use crate::diag::{Code, nearest};
use crate::ir::{Builder, DType, Graph, InputKind, Level, StateLink, Symbol, Type};
use crate::pass::{checked, sound};
use crate::pipeline::{Behaviour, MixedPrecision, Mode, Pipeline};
use crate::precision::mixed;
use mode::set_mode;
use own::own_input;
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
    /// The states of a stage that scales its loss.
    pub loss_scale: Option<ScaleStates>,
}

/// The named nodes from the pipeline's plain inputs, with named extents bound: (name, node), (extent, value).
///
/// # Errors
/// If a node is missing or an extent stays open.
pub fn inference(
    pipeline: &Pipeline,
    outputs: &[(Symbol, Symbol)],
    extents: &[(Symbol, usize)],
    behaviour: impl Into<Behaviour>,
) -> Result<Graph, StageIssue> {
    let Behaviour { mode, precision } = behaviour.into();
    select(pipeline, &Wanted { outputs, state: &[], mode, precision }, extents)
}

/// What a stage takes from the pipeline's graph: (name, node) results and (state, node) next values.
struct Wanted<'w> {
    outputs: &'w [(Symbol, Symbol)],
    state: &'w [(Symbol, Symbol)],
    mode: Mode,
    precision: MixedPrecision,
}

/// The part of the pipeline's graph that is wanted.
fn part(pipeline: &Pipeline, wanted: &Wanted) -> Result<Graph, StageIssue> {
    expect_declared(pipeline)?;
    expect_distinct(wanted)?;
    let mut graph = pipeline.graph.clone();
    let find = |name: &Symbol| graph.find(name).ok_or_else(|| unknown_node(name, &graph));
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

fn unknown_node(name: &Symbol, graph: &Graph) -> StageIssue {
    let known = graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| &*output.name);
    let help = nearest(name, known).map(|near| format!("did you mean `{near}`?"));
    StageIssue { help, ..StageIssue::new(format!("there is no node `{name}`"), None) }
}

/// That part, bound, without loops and in the precision of the stage.
fn select(pipeline: &Pipeline, wanted: &Wanted, extents: &[(Symbol, usize)]) -> Result<Graph, StageIssue> {
    let graph = part(pipeline, wanted)?;
    let bound = bind(&graph, extents).map_err(|issue| {
        let span = graph.find(&issue.node).and_then(|value| graph.nodes[value.node].span);
        let found = StageIssue::new(format!("`{}`: {}", issue.node, issue.issue.message), span);
        StageIssue { help: issue.issue.help, ..found }
    })?;
    let bound = sound("bind", Level::Bound, bound);
    let flat = checked("unroll", Level::Bound, &bound, unroll);
    let flat = flat.unwrap_or_else(|broken| crate::bug!("{broken}"));
    let Some(half) = wanted.precision.half() else { return Ok(flat) };
    let mixed =
        checked("precision", Level::Bound, &flat, |graph| mixed(graph, half, &pipeline.full_precision));
    Ok(mixed.unwrap_or_else(|broken| crate::bug!("{broken}")))
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
