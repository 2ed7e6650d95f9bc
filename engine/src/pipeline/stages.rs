//! What stages of all other kinds say.

use super::{MixedPrecision, Mode, SplitRef};
use crate::diag::Span;
use crate::ir::{Literal, Symbol};

/// Averages of metrics over a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Rows to evaluate.
    pub data: SplitRef,
    /// Rows per step; the last batch may be short.
    pub batch: usize,
    /// How ops behave.
    pub mode: Mode,
    /// The precision of its nodes.
    pub precision: MixedPrecision,
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
    /// The precision of its nodes.
    pub precision: MixedPrecision,
    /// (name, node).
    pub outputs: Vec<(Symbol, Symbol)>,
    /// (output, (data source, field)): outputs that are told by the names of the field's classes.
    pub classes: Vec<(Symbol, (Symbol, Symbol))>,
}

/// One run of a part of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStage {
    /// Number of steps, at most.
    pub steps: usize,
    /// A truth value; the step in which it holds is the last.
    pub until: Option<Symbol>,
    /// How ops behave.
    pub mode: Mode,
    /// The precision of its nodes.
    pub precision: MixedPrecision,
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

/// A text that a language model continues.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateStage {
    /// The input of tokens: `i32[B, T]`.
    pub tokens: Symbol,
    /// The node of logits: a row of classes for each token.
    pub logits: Symbol,
    /// The beginnings of the texts, one or more.
    pub prompts: Vec<String>,
    /// The most tokens that are added to each.
    pub length: usize,
    /// How a token is picked.
    pub sampling: Sampling,
    /// The text that ends a text once it is generated.
    pub stop: Option<String>,
    /// The most tokens that the model sees at once, if the input takes any number.
    pub context: usize,
    /// Whether a step computes the rows of new tokens alone, with earlier ones in a cache.
    pub cache: bool,
    /// Whether a text may become longer than the model sees; the model then sees its end.
    pub slide: bool,
    /// The `tokenizer.json` that makes tokens of texts. Without it, the data's tokenizer does, or tokens are bytes.
    pub tokenizer: Option<String>,
    /// The file that the texts go to.
    pub write: Option<String>,
    /// How ops behave.
    pub mode: Mode,
    /// The precision of its nodes.
    pub precision: MixedPrecision,
}

/// How a class is picked by its logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The divisor of the logits. 0 picks the largest.
    pub temperature: f64,
    /// The number of classes of the largest logits that stay.
    pub top_k: Option<usize>,
    /// The sum of probabilities that the fewest classes reach which stay.
    pub top_p: f64,
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
    /// The precision of its nodes.
    pub precision: MixedPrecision,
    /// The node of indices into the base: `i32[Q, k]`, nearest first.
    pub ids: Symbol,
    /// The node of their distances.
    pub distances: Option<Symbol>,
    /// The node that tells which queries the first pass was certain of: `bool[Q]`.
    pub certified: Option<Symbol>,
    /// The node that counts the rows that were compared with each query: `i32[Q]`.
    pub scanned: Option<Symbol>,
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
        [&self.ids].into_iter().chain(&self.distances).chain(&self.certified).chain(&self.scanned)
    }
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

/// Stages that run in turn, again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct RepeatStage {
    /// The stages of a trip, in order.
    pub parts: Vec<PartDecl>,
    /// The most trips.
    pub times: usize,
    /// The last trip is that after which this truth value holds.
    pub until: Option<Symbol>,
}

/// A stage of a [`RepeatStage`].
#[derive(Clone, Debug, PartialEq)]
pub struct PartDecl {
    /// Its name. It runs nowhere else.
    pub stage: Symbol,
    /// Where it is named.
    pub span: Option<Span>,
    /// The steps of a training in one trip; by default, those to the end of an epoch.
    pub steps: Option<usize>,
    /// A trip passes over the stage unless this truth value holds.
    pub when: Option<Symbol>,
}

/// Writes parameters and state to a checkpoint file.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveStage {
    /// The file.
    pub path: String,
    /// The parameters and states in the file. If empty, the file has all of them, and a run can resume from it.
    pub names: Vec<Symbol>,
}
