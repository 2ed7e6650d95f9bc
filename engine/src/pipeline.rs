//! A pipeline: data, parameters, one graph of named nodes, and the stages that use parts of it.

mod metric;
mod monitor;
mod schedule;
mod stage;
mod stages;
mod train;

pub use metric::{RowIds, SearchMetric};
pub(crate) use monitor::evaluation_is_missing;
pub use monitor::monitored;
pub use schedule::{Schedule, ScheduleForm, Setting, SettingKind};
pub use stage::{Stage, StageData, StageIssue, StageKind};
pub use stages::{Evaluation, Given, LoadName, LoadStage, PredictStage, RunStage, SaveStage, SearchStage};
pub use train::{CheckpointDecl, EarlyStop, Goal, LastBatch, Monitor, OptimizerDecl, TrainStage};

use crate::diag::Span;
use crate::ir::{Attr, Graph, InputKind, Literal, Symbol, Type};
use crate::numerics::{Numerics, Precision};

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
    /// What to do, in order.
    pub stages: Vec<Stage>,
}

impl Pipeline {
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

/// A data source.
#[derive(Clone, Debug, PartialEq)]
pub struct DataDecl {
    /// Its name in the pipeline.
    pub name: Symbol,
    /// The source's registered name, such as `mnist`.
    pub source: String,
    /// Settings of the source: numbers, truth values and texts.
    pub options: Vec<(Symbol, Attr)>,
    /// Where it is declared.
    pub span: Option<Span>,
}

/// A graph input that is not a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct InputDecl {
    /// Its name; a `Data` input of the graph.
    pub name: Symbol,
    /// Data source and field that feed it; `None` if the caller does.
    pub from: Option<(Symbol, Symbol)>,
    /// Where it is declared.
    pub span: Option<Span>,
}

/// How a parameter starts.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// All zeros.
    Zeros,
    /// One number everywhere, as [`Literal::cast`] makes it an element.
    Constant(Literal),
    /// Uniform in `low..high`.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Uniform within ±√(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
    Xavier,
    /// Uniform within ±√(6 / fan_in), for layers followed by ReLU (He et al. 2015).
    Kaiming,
}

/// A parameter or another piece of state.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamDecl {
    /// Its name; an input of the graph.
    pub name: Symbol,
    /// `Param` (trained, differentiated) or `State`.
    pub kind: InputKind,
    /// Its type, all extents known.
    pub ty: Type,
    /// How it starts.
    pub init: Init,
    /// Where it is declared.
    pub span: Option<Span>,
}

/// A split of a data source: `digits.train`.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitRef {
    /// The data source's name in the pipeline.
    pub data: Symbol,
    /// The split.
    pub split: Symbol,
}

/// Whether ops such as dropout behave as in training. A stage has one mode, which its plans are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As in training: the default of training stages.
    Train,
    /// As in use: the default of all other stages, and of the evaluation within a training stage.
    Eval,
}
