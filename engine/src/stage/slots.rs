//! Names of the states of optimizers.
//!
//! The stages of a session share states by name, so the optimizer of each training stage has names of its own.

use super::updates::trained;
use crate::ir::Symbol;
use crate::op::{Registry, Role};
use crate::pipeline::{Pipeline, StageIssue, TrainStage};
use std::collections::{HashMap, HashSet};

/// The states of a stage's optimizer: the name of each by its usual one, `PARAM.SLOT`.
#[derive(Clone, Debug, Default)]
pub struct Slots(HashMap<Symbol, Symbol>);

impl Slots {
    /// The names in a stage. A state has its usual name, unless an earlier stage has a state of that name or the pipeline
    /// declares a parameter of it. Then the name of the stage comes before it.
    pub(super) fn of(pipeline: &Pipeline, stage: &TrainStage, registry: &Registry) -> Slots {
        let nodes = pipeline.graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| &output.name);
        let taken = pipeline.params.iter().map(|param| param.name.clone());
        let mut names = Names { pipeline, registry, nodes: nodes.collect(), taken: taken.collect() };
        let trainings = pipeline.stages.iter().filter_map(|known| known.get::<TrainStage>());
        for earlier in trainings.take_while(|known| known.name != stage.name) {
            names.take(earlier);
        }
        Slots(names.take(stage))
    }

    /// The name of a state with that usual name.
    pub(super) fn name(&self, usual: &str) -> Symbol {
        self.0.get(usual).cloned().unwrap_or_else(|| usual.into())
    }
}

/// The names that are taken before a stage.
struct Names<'p> {
    pipeline: &'p Pipeline,
    registry: &'p Registry,
    /// Those of nodes. A stage that uses a node with the usual name of a state is refused, so these bar no usual names.
    nodes: HashSet<&'p Symbol>,
    /// Those of parameters, and of the states of earlier stages.
    taken: HashSet<Symbol>,
}

impl Names<'_> {
    /// Takes names for the states of a stage: the name of each by its usual one.
    fn take(&mut self, stage: &TrainStage) -> HashMap<Symbol, Symbol> {
        let mut names = HashMap::new();
        for usual in usual_names(self.pipeline, stage, self.registry) {
            let mut name = usual.clone();
            while self.taken.contains(&name) || (name != usual && self.nodes.contains(&name)) {
                name = format!("{}.{name}", stage.name).into();
            }
            self.taken.insert(name.clone());
            names.insert(usual, name);
        }
        names
    }
}

/// The usual names of all states of a stage's optimizer. An unknown optimizer is reported where it steps.
fn usual_names(pipeline: &Pipeline, stage: &TrainStage, registry: &Registry) -> Vec<Symbol> {
    let Some(optimizer) = &stage.optimizer else { return vec![] };
    let mut names = vec![];
    for param in trained(pipeline, stage) {
        let Some(form) = registry.op(optimizer.settings_of(&param).op) else { continue };
        if let Role::Optimizer { slots } = &form.role {
            names.extend(slots.iter().map(|slot| Symbol::from(format!("{param}.{slot}"))));
        }
    }
    names
}

/// Fails unless a training stage has the name that the pipeline knows it by.
pub(super) fn expect_own_name(name: &str, train: &TrainStage) -> Result<(), StageIssue> {
    if *train.name == *name {
        return Ok(());
    }
    let message = format!("the `TrainStage` of stage `{name}` is called `{}`", train.name);
    Err(StageIssue::new(message, None).help("give both the same name"))
}
