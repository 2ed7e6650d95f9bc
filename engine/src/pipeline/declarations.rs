//! What a pipeline declares beside its graph.

use crate::diag::Span;
use crate::ir::{Attr, InputKind, Literal, Symbol, Type};

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
