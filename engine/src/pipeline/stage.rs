//! A pipeline and its stages, an open set of kinds. A stage is checked against the pipeline that it is part of.

use super::declarations::{DataDecl, InputDecl, ParamDecl};
use super::precision::MixedPrecision;
use super::stages::PartDecl;
use crate::diag::{Code, Span};
use crate::ir::{Graph, Symbol};
use crate::numerics::{Numerics, Precision};
use crate::op::Registry;
use std::any::Any;
use std::collections::HashSet;
use std::fmt;

/// A checked pipeline, as read from a RON file or built in code.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// Decides initial parameters, shuffling and random nodes.
    pub seed: u64,
    /// How matrices are multiplied.
    pub matmul: Precision,
    /// How far what is computed may be rewritten, and functions be rough.
    pub numerics: Numerics,
    /// The precision of stages that give none of their own.
    pub precision: MixedPrecision,
    /// Nodes that are computed in `f32` in each precision.
    pub full_precision: HashSet<Symbol>,
    /// Calls of layers whose activations the backward pass recomputes: the path of each, and its nodes. A call within
    /// another comes first.
    pub recomputed: Vec<(Symbol, HashSet<Symbol>)>,
    /// Whether the same seed gives the same bits each time, even where the device has a faster way.
    pub deterministic: bool,
    /// Data sources by name.
    pub data: Vec<DataDecl>,
    /// Graph inputs that are fed from data or by a caller.
    pub inputs: Vec<InputDecl>,
    /// Trained parameters and other state.
    pub params: Vec<ParamDecl>,
    /// All nodes, typed; extents such as `B` may be named. Inputs of the graph are `inputs` and `params`.
    pub graph: Graph,
    /// Paths of the first of several results, each with the name of its node: `t.values` is `t`.
    pub first_results: Vec<(Symbol, Symbol)>,
    /// State that training updates by itself: (state, node that is its next value). Every `Train` stage of mode `Train`
    /// whose loss depends on the state does so, unless it gives the state another value.
    pub updates: Vec<(Symbol, Symbol)>,
    /// The calls of functions and layers that the graph has written out, by path. It is for pictures of the graph alone.
    pub calls: Vec<WrittenCall>,
    /// What to do, in order.
    pub stages: Vec<Stage>,
}

/// A call of a function or a layer that the graph has written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCall {
    /// The path below which its nodes stand; those of copy i of a repeated call below `PATH.i`.
    pub path: Symbol,
    /// The function.
    pub function: String,
    /// The number of copies of a repeated call.
    pub repeat: Option<usize>,
    /// The names of its results.
    pub results: Vec<Symbol>,
}

impl Pipeline {
    /// The stages that run by themselves, in order: those that no other stage has as its part.
    pub fn stages_in_order(&self) -> impl Iterator<Item = &Stage> {
        let parts: HashSet<&Symbol> =
            self.stages.iter().flat_map(|stage| stage.kind.parts()).map(|part| &part.stage).collect();
        self.stages.iter().filter(move |stage| !parts.contains(&stage.name))
    }

    /// A stage and all of its parts, their parts included.
    pub fn with_parts<'p>(&'p self, stage: &'p Stage) -> Vec<&'p Stage> {
        let mut found = vec![stage];
        let mut next = 0;
        while let Some(stage) = found.get(next) {
            let parts = stage.kind.parts().iter().filter_map(|part| self.stage(&part.stage));
            let new: Vec<&Stage> =
                parts.filter(|part| found.iter().all(|known| known.name != part.name)).collect();
            found.extend(new);
            next += 1;
        }
        found
    }

    /// The stage of that name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| *stage.name == *name)
    }

    /// The name that the graphs of stages have for the value at a path: a node, or the gradient `d.NODE` of one.
    pub fn name_at(&self, path: &str) -> Symbol {
        let node = |path: &str| self.first_results.iter().find(|(known, _)| **known == *path);
        match (node(path), path.strip_prefix("d.").and_then(node)) {
            (Some((_, name)), _) => name.clone(),
            (None, Some((_, name))) => format!("d.{name}").into(),
            (None, None) => path.into(),
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Its name, also for `--set NAME.field=value`.
    pub name: Symbol,
    /// What it does.
    pub kind: Box<dyn StageKind>,
    /// Where it is declared.
    pub span: Option<Span>,
}

impl Stage {
    /// What it says, if it is of that kind.
    pub fn get<T: StageKind>(&self) -> Option<&T> {
        let kind: &dyn Any = &*self.kind;
        kind.downcast_ref()
    }

    /// As [`Stage::get`], to change it.
    pub fn get_mut<T: StageKind>(&mut self) -> Option<&mut T> {
        let kind: &mut dyn Any = &mut *self.kind;
        kind.downcast_mut()
    }
}

impl PartialEq for Stage {
    fn eq(&self, other: &Stage) -> bool {
        self.name == other.name && self.kind.is_equal(&*other.kind) && self.span == other.span
    }
}

/// What stages of one kind say, such as [`TrainStage`](super::TrainStage), and the checks that need no data.
pub trait StageKind: StageData {
    /// The first word of such a stage in a pipeline: `Train`.
    fn keyword(&self) -> &'static str;

    /// Checks names and types that the stage declares. `name` is the stage's.
    ///
    /// # Errors
    /// If they do not fit the pipeline.
    fn expect_declared(&self, _name: &str, _pipeline: &Pipeline) -> Result<(), StageIssue> {
        Ok(())
    }

    /// Makes the stage's graphs as far as that needs no data.
    ///
    /// # Errors
    /// As for the function that makes the graph.
    fn rehearse(&self, _name: &str, _pipeline: &Pipeline, _registry: &Registry) -> Result<(), StageIssue> {
        Ok(())
    }

    /// The stages that it runs as its parts.
    fn parts(&self) -> &[PartDecl] {
        &[]
    }

    /// Whether a trip may take some of its steps, and the next one more.
    fn goes_on(&self) -> bool {
        false
    }

    /// Whether it ends with the state of an earlier step.
    fn restores(&self) -> bool {
        false
    }

    /// The node behind a metric of the stage's report. `train NAME` is a metric of training, other names are of evaluation.
    fn measured(&self, _metric: &str) -> Option<&Symbol> {
        None
    }
}

/// The part of [`StageKind`] that every comparable type has.
pub trait StageData: Any + fmt::Debug + Send + Sync {
    /// A copy.
    fn boxed(&self) -> Box<dyn StageKind>;

    /// Whether both are of one kind and say the same.
    fn is_equal(&self, other: &dyn StageKind) -> bool;
}

impl<T: StageKind + Clone + PartialEq> StageData for T {
    fn boxed(&self) -> Box<dyn StageKind> {
        Box::new(self.clone())
    }

    fn is_equal(&self, other: &dyn StageKind) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

impl Clone for Box<dyn StageKind> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl<T: StageKind> From<T> for Box<dyn StageKind> {
    fn from(kind: T) -> Self {
        Box::new(kind)
    }
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
    /// An issue of the general code E0211.
    pub fn new(message: impl Into<String>, span: Option<Span>) -> StageIssue {
        StageIssue { code: Code::E0211, message: message.into(), span, help: None }
    }

    /// The same with something to do.
    pub fn help(self, help: impl Into<String>) -> StageIssue {
        StageIssue { help: Some(help.into()), ..self }
    }
}
