//! The errors of a session, and their faults.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use engine_core::diag::{Code, Diagnostic, Span};
use engine_core::ir::{DType, Symbol, written_path};
use engine_core::pipeline::Pipeline;
use engine_core::stage::StageIssue;
use thiserror::Error;

use super::origin::{Origin, OriginNode};
use crate::checkpoint::{CheckpointError, Mismatch};
use crate::data::npz::NpzError;
use crate::data::source::DataError;
use crate::data::table::TableError;
use crate::device::{DeviceError, RunError};
use crate::diagnostic::Coded;
use crate::files::Refusal;
use crate::tensor::TensorError;

/// The prefix of metrics that training itself measured.
pub(super) const TRAINING: &str = "train ";

/// A stage that has no graph, by a fault of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFault(pub StageIssue);

impl fmt::Display for StageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        self.0.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl Error for StageFault {}

/// Why a session stopped.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The pipeline's declarations contradict each other.
    #[error("{}", .0.0.message)]
    Declared(Box<StageFault>),
    /// A data set is missing, or lacks a field or split of the pipeline.
    #[error("data `{data}`: {source}")]
    Data {
        /// The name in the pipeline.
        data: Symbol,
        /// The fault, boxed because it is large.
        source: Box<DataError>,
    },
    /// A stage cannot be turned into a plan.
    #[error("stage `{stage}`: {source}")]
    Plan {
        /// The stage.
        stage: Symbol,
        /// The fault, with diagnostics if the pipeline is the cause.
        source: PlanError,
    },
    /// A stage is of a kind that was registered without a runner.
    #[error("stage `{stage}`: this program cannot run stages of kind `{kind}`")]
    NoRunner {
        /// The stage.
        stage: Symbol,
        /// Its keyword.
        kind: String,
    },
    /// The pipeline has no stage of that name, or it is of another kind.
    #[error("there is no {}stage `{stage}`", .kind.map(|kind| format!("`{kind}` ")).unwrap_or_default())]
    NoStage {
        /// The name.
        stage: Symbol,
        /// The kind that was asked for.
        kind: Option<&'static str>,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device failed in the middle of a stage, or an index was out of bounds.
    #[error("stage `{stage}`: {source}")]
    Run {
        /// The stage.
        stage: Symbol,
        /// The cause.
        source: RunError,
    },
    /// All that the stages keep on the device at once is more than it has.
    #[error(
        "stage `{stage}` needs {needed} bytes of device memory, {name} has {available}; its largest tensors are {largest}"
    )]
    OutOfMemory {
        /// The stage.
        stage: Symbol,
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        available: u64,
        /// The device.
        name: String,
        /// The largest tensors of the stage's plan, with their sizes.
        largest: String,
    },
    /// A checkpoint cannot be read or written.
    #[error("checkpoint {0}")]
    Checkpoint(#[from] CheckpointError),
    /// A checkpoint is of another graph.
    #[error("checkpoint {}: {mismatch}", .path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// How it differs.
        mismatch: Mismatch,
    },
    /// An archive of weights cannot be read.
    #[error("weights {0}")]
    Archive(Box<NpzError>),
    /// A file of weights lacks requested tensors, or parameters to be saved do not exist.
    #[error("weights {}:\n  {}", .path.display(), .faults.join("\n  "))]
    Names {
        /// The file.
        path: PathBuf,
        /// The missing tensors or parameters.
        faults: Vec<String>,
    },
    /// Numbers of a file are too large for the parameters that they are for.
    #[error("weights {}:\n  {}", .path.display(), .faults.join("\n  "))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// By parameter: the number.
        faults: Vec<String>,
        /// A type that holds the numbers.
        wide: DType,
    },
    /// A checkpoint cannot be resumed from by this pipeline.
    #[error("checkpoint {}: {why}", .path.display())]
    CannotResume {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A run cannot resume from a file that a `Save` stage with `names` has written.
    #[error("checkpoint {}: it holds only some parameters and states", .path.display())]
    Partial {
        /// The file.
        path: PathBuf,
    },
    /// The loss has become NaN or infinite. No checkpoint was written since the last good one.
    #[error("stage `{stage}`: the loss is not finite from step {step} on")]
    NotANumber {
        /// The stage.
        stage: Symbol,
        /// The first step with such a loss, counted from 0.
        step: u64,
    },
    /// A metric at the end of a stage is NaN or infinite.
    #[error("stage `{stage}`: the metric `{metric}` is {value}")]
    Metric {
        /// The stage.
        stage: Symbol,
        /// The metric, as the stage's line calls it.
        metric: String,
        /// NaN or an infinity.
        value: f64,
    },
    /// A node has made a NaN or an infinity, which `--trace-nan` looks for.
    #[error("stage `{stage}`: {origin}")]
    NotFinite {
        /// The stage.
        stage: Symbol,
        /// Its origin.
        origin: Box<Origin>,
    },
    /// The stage has no rows to work on, or too many.
    #[error("stage `{stage}`: {why}")]
    Rows {
        /// The stage.
        stage: Symbol,
        /// The fault.
        why: String,
    },
    /// An input given by the caller does not fit the graph.
    #[error("input `{input}`: {why}")]
    Input {
        /// The input.
        input: String,
        /// The fault.
        why: String,
    },
    /// An input has no value.
    #[error("input `{input}`{}: nothing is given for it, it is {ty}", of_stages(.stages))]
    NoInput {
        /// The input.
        input: String,
        /// The stages that take it; none if the caller asked for nodes.
        stages: Vec<Symbol>,
        /// Its type.
        ty: String,
    },
    /// The file with the value of an input cannot be used.
    #[error("input `{input}`: {source}")]
    InputFile {
        /// The input.
        input: String,
        /// The fault.
        source: Box<TableError>,
    },
    /// Results cannot be written.
    #[error("{}: cannot be written: {source}", .path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of results would take the place of another file, or has no place.
    #[error("{}: {refusal}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why not.
        refusal: Refusal,
    },
    /// A tensor cannot be held.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The session was cancelled, and stopped after a whole step.
    #[error("interrupted{}", resume_hint(.checkpoint))]
    Interrupted {
        /// The state at that point, if it was training.
        checkpoint: Option<PathBuf>,
    },
    /// The background thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Background(io::Error),
}

/// The error of a [`Planner`](super::Planner), which can be downcast to diagnostics.
pub type PlanError = Box<dyn Error + Send + Sync>;

/// Whose fault an error is; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The graph's or its data's.
    Graph,
    /// The machine's.
    Machine,
    /// None: the user interrupted.
    Interrupt,
}

impl SessionError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            SessionError::Device(_) | SessionError::OutOfMemory { .. } | SessionError::Background(_) => {
                Fault::Machine
            }
            SessionError::Run { source: RunError::Device(_), .. } => Fault::Machine,
            SessionError::Checkpoint(error) if error.fact.is_of_machine() => Fault::Machine,
            SessionError::Refused { refusal, .. } if refusal.is_of_machine() => Fault::Machine,
            SessionError::Data { .. } | SessionError::Tensor(_) if self.code() == Some(Code::E0604) => {
                Fault::Machine
            }
            SessionError::Output { source, .. } => match source.kind() {
                io::ErrorKind::InvalidInput => Fault::Graph,
                _ => Fault::Machine,
            },
            SessionError::Interrupted { .. } => Fault::Interrupt,
            SessionError::Data { .. }
            | SessionError::Declared(_)
            | SessionError::Plan { .. }
            | SessionError::NoRunner { .. }
            | SessionError::NoStage { .. }
            | SessionError::Run { .. }
            | SessionError::Checkpoint(_)
            | SessionError::Mismatch { .. }
            | SessionError::CannotResume { .. }
            | SessionError::Partial { .. }
            | SessionError::NotANumber { .. }
            | SessionError::Metric { .. }
            | SessionError::NotFinite { .. }
            | SessionError::Archive(_)
            | SessionError::Names { .. }
            | SessionError::TooLarge { .. }
            | SessionError::Rows { .. }
            | SessionError::Input { .. }
            | SessionError::NoInput { .. }
            | SessionError::InputFile { .. }
            | SessionError::Refused { .. }
            | SessionError::Tensor(_) => Fault::Graph,
        }
    }
}

impl SessionError {
    /// The error of a stage that has no graph.
    pub(super) fn plan(stage: &Symbol, fault: StageFault) -> SessionError {
        SessionError::Plan { stage: stage.clone(), source: Box::new(fault) }
    }

    /// Whether the cause is the device, so that another one might run the pipeline.
    pub fn is_of_device(&self) -> bool {
        matches!(
            self,
            SessionError::Device(_)
                | SessionError::Run { source: RunError::Device(_), .. }
                | SessionError::OutOfMemory { .. }
        )
    }

    /// The diagnostic of the error, with its place in the pipeline if there is one. `None` for errors without a page and for
    /// stages without a graph.
    pub fn diagnostic(&self, pipeline: &Pipeline) -> Option<Diagnostic> {
        let mut diagnostic = Diagnostic::error(self.code()?, self.to_string());
        diagnostic.help = self.help();
        if let Some((span, remark)) = self.place(pipeline) {
            diagnostic.also(span, remark);
        }
        Some(diagnostic)
    }

    fn place(&self, pipeline: &Pipeline) -> Option<(Span, String)> {
        let stage_span = |name: &Symbol| {
            let stage = pipeline.stages.iter().find(|stage| stage.name == *name)?;
            Some((stage.span?, String::new()))
        };
        match self {
            SessionError::Declared(fault) => Some((fault.0.span?, String::new())),
            SessionError::Data { data, .. } => {
                let decl = pipeline.data.iter().find(|decl| decl.name == *data)?;
                Some((decl.span?, format!("`{data}` comes from here")))
            }
            SessionError::Run { source: RunError::Assertion { node, span: Some(span), .. }, .. } => {
                Some((*span, format!("this is part of `{}`", written_path(node))))
            }
            SessionError::Device(error) => error.place().or_else(|| declared(error, pipeline)),
            SessionError::Run { stage, source: RunError::Device(error) } => {
                error.place().or_else(|| stage_span(stage))
            }
            SessionError::Run { stage, .. }
            | SessionError::OutOfMemory { stage, .. }
            | SessionError::Rows { stage, .. } => stage_span(stage),
            SessionError::NotFinite { stage, origin } => match &origin.node {
                Some(OriginNode { span: Some(span), name, .. }) => {
                    let name = name.split(':').next().unwrap_or_default();
                    Some((*span, format!("`{name}` is part of this")))
                }
                _ => stage_span(stage),
            },
            SessionError::NotANumber { stage, .. } => {
                let stage = pipeline.stages.iter().find(|known| known.name == *stage)?;
                let loss = stage.kind.measured(&format!("{TRAINING}loss"))?;
                let loss = pipeline.graph.find(loss)?;
                Some((pipeline.graph.nodes[loss.node].span?, "this is the loss".to_string()))
            }
            SessionError::Metric { stage, metric, .. } => {
                let stage = pipeline.stages.iter().find(|known| known.name == *stage)?;
                let value = pipeline.graph.find(stage.kind.measured(metric)?)?;
                Some((pipeline.graph.nodes[value.node].span?, "this is measured".to_string()))
            }
            SessionError::Input { input, .. }
            | SessionError::NoInput { input, .. }
            | SessionError::InputFile { input, .. } => {
                let decl = pipeline.inputs.iter().find(|decl| *decl.name == **input)?;
                Some((decl.span?, String::new()))
            }
            _ => None,
        }
    }
}

impl Coded for SessionError {
    fn code(&self) -> Option<Code> {
        match self {
            SessionError::Declared(fault) => Some(fault.0.code),
            SessionError::Data { source, .. } => source.code(),
            SessionError::Device(error) => error.code(),
            SessionError::Run { source, .. } => source.code(),
            SessionError::OutOfMemory { .. } => Some(Code::E0604),
            SessionError::Checkpoint(error) => error.code(),
            SessionError::Mismatch { .. }
            | SessionError::CannotResume { .. }
            | SessionError::Partial { .. } => Some(Code::E0504),
            SessionError::NotANumber { .. } => Some(Code::E0606),
            SessionError::NotFinite { .. } => Some(Code::E0607),
            SessionError::Metric { .. } => Some(Code::E0611),
            SessionError::Archive(_) => Some(Code::E0503),
            SessionError::Names { .. } | SessionError::TooLarge { .. } => Some(Code::E0504),
            SessionError::Rows { .. } | SessionError::Input { .. } | SessionError::NoInput { .. } => {
                Some(Code::E0506)
            }
            SessionError::InputFile { source, .. } => source.code(),
            SessionError::Output { .. } | SessionError::Refused { .. } => Some(Code::E0505),
            SessionError::Tensor(error) => error.code(),
            SessionError::Plan { .. }
            | SessionError::NoRunner { .. }
            | SessionError::NoStage { .. }
            | SessionError::Interrupted { .. }
            | SessionError::Background(_) => None,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            SessionError::Declared(fault) => fault.0.help.clone(),
            SessionError::Data { source, .. } => source.help(),
            SessionError::Device(error) => error.help(),
            SessionError::Run { source, .. } => source.help(),
            SessionError::OutOfMemory { .. } => Some(
                "use smaller batches; `engine explain --stage plan` shows what takes how much".to_string(),
            ),
            SessionError::Checkpoint(error) => error.help(),
            SessionError::Mismatch { mismatch, .. } => Some(match mismatch.transposed() {
                Some(name) => format!("`names: {{\"{name}\": Transposed(\"…\")}}` exchanges the axes"),
                None if mismatch.is_of_types() => {
                    "give the parameters the types of the file, or take a file of this graph".to_string()
                }
                None => "rename parameters so that they agree".to_string(),
            }),
            SessionError::Archive(_) => Some("take another file".to_string()),
            SessionError::Names { .. } => Some("correct `names`".to_string()),
            SessionError::TooLarge { wide, .. } => {
                Some(format!("declare them with a type of more range, such as {wide}"))
            }
            SessionError::NotFinite { origin, .. } => Some(match &origin.node {
                Some(node) => format!("of its operands, {}", node.operands.join(", ")),
                None => "a kernel computes something else; `engine verify` finds out which".to_string(),
            }),
            SessionError::CannotResume { .. } => {
                Some("resume with the graph and the settings that it was written with".to_string())
            }
            SessionError::Partial { .. } => {
                Some("resume from a checkpoint of training; a `Load` stage reads this file".to_string())
            }
            SessionError::NotANumber { .. } => {
                let help = "`--trace-nan` finds where it comes from; a smaller learning rate or `clip_norm: 1.0` may help";
                Some(help.to_string())
            }
            SessionError::Metric { .. } => {
                Some("`--trace-nan` finds the node that makes the first such number".to_string())
            }
            SessionError::Rows { .. } => Some("choose another `batch`".to_string()),
            SessionError::NoInput { input, .. } => Some(format!(
                "give it in the stage, `inputs: {{\"{input}\": \"FILE.npy\"}}`, or by `--input {input}=FILE.npy`"
            )),
            SessionError::InputFile { source, .. } => source.help(),
            SessionError::Refused { refusal, .. } => Some(refusal.help().to_string()),
            SessionError::Tensor(error) => error.help(),
            _ => None,
        }
    }
}

/// The place of a parameter that no buffer holds: those are allocated before there is a plan.
fn declared(error: &DeviceError, pipeline: &Pipeline) -> Option<(Span, String)> {
    let DeviceError::TooLarge { buffer, .. } = error else { return None };
    let value = pipeline.graph.find(buffer)?;
    Some((pipeline.graph.nodes[value.node].span?, format!("`{buffer}` is declared here")))
}

fn of_stages(stages: &[Symbol]) -> String {
    let named: Vec<String> = stages.iter().map(|stage| format!("`{stage}`")).collect();
    match &named[..] {
        [] => String::new(),
        [stage] => format!(" of stage {stage}"),
        stages => format!(" of stages {}", stages.join(", ")),
    }
}

fn resume_hint(checkpoint: &Option<PathBuf>) -> String {
    checkpoint
        .as_ref()
        .map_or(String::new(), |path| format!("; `--resume {}` goes on from here", path.display()))
}
