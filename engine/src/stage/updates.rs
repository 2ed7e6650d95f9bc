//! What a training stage changes: the parameters of its optimizer, and the states beside them.

use crate::ir::{InputKind, NodeOp, Symbol};
use crate::pipeline::{Mode, Pipeline, TrainStage};

/// The updates of states in a training stage: (state, node that is its next value).
pub(super) struct Updates {
    /// Those made with every batch.
    pub(super) of_batch: Vec<(Symbol, Symbol)>,
    /// Those made with the step of the optimizer after several batches.
    pub(super) of_step: Vec<(Symbol, Symbol)>,
    /// The states that are updated once in a step of the optimizer, whether or not several batches make it.
    pub(super) once: Vec<Symbol>,
}

impl Updates {
    /// The updates that the stage gives, and those that the pipeline brings along.
    ///
    /// If several batches make a step, a state whose next value depends on rows is updated with every batch. So is each
    /// state that the next value of such a state reads, or whose next value reads such a state. All others are updated
    /// once, when the parameters change.
    pub(super) fn of(pipeline: &Pipeline, stage: &TrainStage) -> Updates {
        let all = all(pipeline, stage);
        let (of_batch, of_step) = split(pipeline, all.clone());
        let once = of_step.iter().map(|(state, _)| state.clone()).collect();
        match stage.accumulate <= 1 {
            true => Updates { of_batch: all, of_step: vec![], once },
            false => Updates { of_batch, of_step, once },
        }
    }
}

type Links = Vec<(Symbol, Symbol)>;

/// The updates of each batch, and those of each step.
///
/// No update of one kind reads a state of the other kind. Each therefore sees values from before the batch or the step
/// that it belongs to, although batches store their states first.
fn split(pipeline: &Pipeline, all: Links) -> (Links, Links) {
    let graph = &pipeline.graph;
    let reached =
        |updates: &[(Symbol, Symbol)]| graph.reached(updates.iter().filter_map(|(_, node)| graph.find(node)));
    let takes_rows = |update: &(Symbol, Symbol)| {
        let reached = reached(std::slice::from_ref(update));
        graph.inputs().any(|(id, kind)| kind == InputKind::Data && reached[id])
    };
    let (mut of_batch, mut of_step): (Vec<_>, Vec<_>) = all.into_iter().partition(takes_rows);
    loop {
        let read = reached(&of_batch);
        let states: Vec<_> = of_batch.iter().filter_map(|(state, _)| graph.find(state)).collect();
        let is_linked = |update: &(Symbol, Symbol)| {
            let is_read = graph.find(&update.0).is_some_and(|it| read[it.node]);
            let reads = reached(std::slice::from_ref(update));
            is_read || states.iter().any(|it| reads[it.node])
        };
        let (more, rest): (Vec<_>, Vec<_>) = of_step.into_iter().partition(is_linked);
        of_step = rest;
        if more.is_empty() {
            return (of_batch, of_step);
        }
        of_batch.extend(more);
    }
}

/// The updates of the stage, then those of the pipeline whose states the loss depends on.
fn all(pipeline: &Pipeline, stage: &TrainStage) -> Vec<(Symbol, Symbol)> {
    let graph = &pipeline.graph;
    let mut all = stage.state.clone();
    if stage.mode == Mode::Train && !pipeline.updates.is_empty() {
        let reached = graph.reached(graph.find(&stage.loss));
        let is_open = |state: &Symbol| {
            let is_reached = graph.find(state).is_some_and(|value| reached[value.node]);
            is_reached && stage.state.iter().all(|(given, _)| given != state)
        };
        all.extend(pipeline.updates.iter().filter(|(state, _)| is_open(state)).cloned());
    }
    all
}

/// The parameters that the optimizer of a stage changes: those that the loss depends on, the frozen ones left out.
pub(super) fn trained(pipeline: &Pipeline, stage: &TrainStage) -> Vec<Symbol> {
    let graph = &pipeline.graph;
    let reached = graph.reached(graph.find(&stage.loss));
    let is_param = |id: &usize| graph.nodes[*id].op == NodeOp::Input(InputKind::Param);
    let params = (0..graph.nodes.len()).filter(|id| reached[*id]).filter(is_param);
    let is_frozen = |name: &Symbol| stage.optimizer.as_ref().is_some_and(|it| it.freezes(name));
    params.map(|id| graph.nodes[id].name().clone()).filter(|name| !is_frozen(name)).collect()
}
