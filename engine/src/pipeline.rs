//! A pipeline: data, parameters, one graph of named nodes, and the stages that use parts of it.

use crate::diag::Span;
use crate::ir::{Attr, Attrs, Graph, InputKind, Literal, Symbol, Type};
use crate::plan::Precision;
use crate::rules::Numerics;

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

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its name, also for `--set NAME.field=value`.
    pub name: Symbol,
    /// What it does.
    pub kind: StageKind,
    /// Where it is declared.
    pub span: Option<Span>,
}

/// What a stage does.
#[derive(Clone, Debug, PartialEq)]
pub enum StageKind {
    /// Takes steps over shuffled batches.
    Train(Box<TrainStage>),
    /// Averages metrics over a split.
    Evaluate(Evaluation),
    /// Writes outputs for every row of the user's data (`engine predict`).
    Predict(PredictStage),
    /// Runs the graph once on its inputs and reports outputs.
    Run(RunStage),
    /// Looks for what is nearest to each query, and tells how much of the truth was found.
    Search(SearchStage),
    /// Writes parameters and state to a checkpoint file.
    Save {
        /// The file.
        path: String,
    },
    /// Reads parameters and state from a file.
    Load(LoadStage),
}

/// Parameters and state from a file: a checkpoint, or tensors that another tool has written.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStage {
    /// The file.
    pub path: String,
    /// Which tensor of the file goes where, and what else stays as it is; if empty, all parameters are read by their own
    /// names.
    pub names: Vec<LoadName>,
}

/// Where a parameter is found in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadName {
    /// The parameter or state.
    pub param: Symbol,
    /// The tensor in the file.
    pub tensor: String,
    /// Whether the file has the matrix with its axes exchanged, as PyTorch keeps the weights of a linear layer.
    pub is_transposed: bool,
}

/// Whether ops such as dropout behave as in training. A stage has one mode, which its plans are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As in training: the default of training stages.
    Train,
    /// As in use: the default of all other stages, and of the evaluation within a training stage.
    Eval,
}

/// A split of a data source: `digits.train`.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitRef {
    /// The data source's name in the pipeline.
    pub data: Symbol,
    /// The split.
    pub split: Symbol,
}

/// What happens to the rows that do not fill a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastBatch {
    /// They are left out of this epoch (shuffling picks others the next time).
    Drop,
    /// They form a short batch with a plan of its own.
    Short,
}

/// A training stage.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainStage {
    /// Training rows.
    pub data: SplitRef,
    /// Rows per batch; binds the leading named extent of the data inputs.
    pub batch: usize,
    /// Batches whose gradients are averaged for one step of the optimizer.
    pub accumulate: usize,
    /// Passes over the data.
    pub epochs: usize,
    /// Stops after so many steps (of the optimizer) even if epochs remain.
    pub max_steps: Option<usize>,
    /// Scalar node that is minimised and reported.
    pub loss: Symbol,
    /// How ops behave; gradients are of this behaviour.
    pub mode: Mode,
    /// Other scalar nodes to report, averaged over the epoch: (name, node).
    pub metrics: Vec<(Symbol, Symbol)>,
    /// The optimizer; `None` if `state` spells the update out.
    pub optimizer: Option<OptimizerDecl>,
    /// State assigned by hand: (parameter or state, node that is its next value).
    pub state: Vec<(Symbol, Symbol)>,
    /// Gradients are scaled down so that their global 2-norm is at most this.
    pub clip_norm: Option<f64>,
    /// Rows that do not fill a batch.
    pub last_batch: LastBatch,
    /// Evaluated after every epoch.
    pub evaluate: Option<Evaluation>,
    /// The metric of the evaluation that tells the best epoch; see [`monitored`](crate::stage::monitored) for the default.
    pub monitor: Option<Monitor>,
    /// Ends training before its last epoch.
    pub early_stop: Option<EarlyStop>,
    /// Where checkpoints go; none are written without it.
    pub checkpoint: Option<CheckpointDecl>,
}

/// A metric of an evaluation, and which of its values are better.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitor {
    /// The metric's name in the evaluation.
    pub metric: Symbol,
    /// The direction of improvement.
    pub goal: Goal,
}

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Lower values are better, as of a loss.
    Min,
    /// Higher values are better, as of an accuracy.
    Max,
}

impl Goal {
    /// Whether `value` is better than `known` by more than `min_delta`. A value that is not finite is never better.
    pub fn improves(self, value: f64, known: f64, min_delta: f64) -> bool {
        value.is_finite()
            && match self {
                Goal::Min => value < known - min_delta,
                Goal::Max => value > known + min_delta,
            }
    }
}

/// When training ends before its last epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyStop {
    /// Training ends after so many epochs without an improvement of the monitored metric.
    pub patience: usize,
    /// A smaller change is no improvement.
    pub min_delta: f64,
    /// Whether the state of the best epoch comes back when training ends, for whatever reason.
    pub restore_best: bool,
}

/// An optimizer op and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerDecl {
    /// A registered op of role `Optimizer`.
    pub op: String,
    /// Its attributes, defaults filled in.
    pub attrs: Attrs,
    /// The learning rate by step.
    pub lr: Schedule,
    /// Parameters of at most one axis are exempt from the `weight_decay` attribute if this is false.
    pub decay_bias: bool,
}

/// A number that depends on the step s, counted from 0. Below, N is the stage's number of steps, W that of its warm-up,
/// and `p = (s - W) / (N - 1 - W)`, which goes from 0 at the first step after the warm-up to 1 at the last step.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The same at every step.
    Constant(f64),
    /// `max(end, start · exp(-rate · s))`
    Exp {
        /// At step 0.
        start: f64,
        /// Never below.
        end: f64,
        /// Decay per step.
        rate: f64,
    },
    /// `start · s / W` before step W, then `end + (start - end) · (1 + cos(π·p)) / 2`.
    Cosine {
        /// Value at step W, the highest.
        start: f64,
        /// Value at the last step.
        end: f64,
        /// Steps of linear rise from 0.
        warmup: usize,
    },
    /// `start · s / W` before step W, then `start + (end - start) · p`.
    Linear {
        /// Value at step W, the highest.
        start: f64,
        /// Value at the last step.
        end: f64,
        /// Steps of linear rise from 0.
        warmup: usize,
    },
    /// `start · factor^⌊s / every⌋`
    Steps {
        /// At step 0.
        start: f64,
        /// Factor at each drop.
        factor: f64,
        /// Steps between drops.
        every: usize,
    },
}

/// Averages of metrics over a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Rows to evaluate.
    pub data: SplitRef,
    /// Rows per step; the last batch may be short.
    pub batch: usize,
    /// How ops behave.
    pub mode: Mode,
    /// (name, scalar node that is a mean over its batch): averaged over rows.
    pub metrics: Vec<(Symbol, Symbol)>,
}

/// Outputs for every row of the user's data.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictStage {
    /// Rows per step.
    pub batch: usize,
    /// How ops behave.
    pub mode: Mode,
    /// (name, node).
    pub outputs: Vec<(Symbol, Symbol)>,
    /// (output, (data source, field)): outputs that are told by the names of the field's classes.
    pub classes: Vec<(Symbol, (Symbol, Symbol))>,
}

/// The value of an input, as it is written in a pipeline or on the command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// The file that holds it.
    File(String),
    /// Its elements, in row-major order.
    Elements {
        /// The extents, outermost first.
        shape: Vec<usize>,
        /// As many numbers or truth values.
        elements: Vec<Literal>,
    },
}

/// One run of a part of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStage {
    /// Number of steps.
    pub steps: usize,
    /// How ops behave.
    pub mode: Mode,
    /// (name, node) to report.
    pub outputs: Vec<(Symbol, Symbol)>,
    /// (name, node): gradients of `loss` with respect to nodes, inputs and parameters, reported after `outputs`.
    pub gradients: Vec<(Symbol, Symbol)>,
    /// Scalar node that is differentiated.
    pub loss: Option<Symbol>,
    /// State assigned by hand: (parameter or state, node).
    pub state: Vec<(Symbol, Symbol)>,
    /// Bindings of named extents.
    pub dims: Vec<(Symbol, usize)>,
    /// Values of inputs: (input, value). Others come from data.
    pub inputs: Vec<(Symbol, Given)>,
}

/// Queries against a base. The data source has a split `base`, whose fields go to their inputs whole, and a split
/// `queries`, whose fields go in batches; its field `neighbours`, if there is one, holds the true neighbours.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchStage {
    /// The data source's name in the pipeline.
    pub data: Symbol,
    /// Queries per step; the last batch may be short.
    pub batch: usize,
    /// How ops behave.
    pub mode: Mode,
    /// The node of indices into the base: `i32[Q, k]`, nearest first.
    pub ids: Symbol,
    /// The node of their distances.
    pub distances: Option<Symbol>,
    /// (one of these nodes, the file that it goes to).
    pub write: Vec<(Symbol, String)>,
}

impl SearchStage {
    /// The splits `base` and `queries` of its data.
    pub fn splits(&self) -> [SplitRef; 2] {
        ["base", "queries"].map(|split| SplitRef { data: self.data.clone(), split: split.into() })
    }

    /// The nodes that the stage computes.
    pub fn outputs(&self) -> impl Iterator<Item = &Symbol> {
        [&self.ids].into_iter().chain(&self.distances)
    }
}

/// Where and how often checkpoints are written.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointDecl {
    /// The file of the latest state.
    pub path: String,
    /// Every so many epochs.
    pub every: usize,
    /// Also keeps the state of the best epoch, here.
    pub best: Option<String>,
}
