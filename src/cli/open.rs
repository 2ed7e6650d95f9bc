//! Reading a pipeline with its plugins and overrides.

mod help;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use engine_core::diag::legible::message;
use engine_core::diag::{Diagnostic, Diagnostics, FileId, Sources, Span, nearest};
use engine_core::front;
use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_core::pipeline::{Given, LoadStage, Pipeline, Stage};
use engine_core::stage::StageIssue;
use engine_runtime::data::table::TableError;
use engine_runtime::diagnostic::Coded;
use engine_runtime::session::{Fault, Session, SessionError, StageFault};
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;

use super::args::GraphArgs;
use super::beside::find_beside;
use super::import::{is_model, read_model_for, shape_of};
use super::output::{Failure, complain, render};
use crate::Model;

/// A limit above the size of any graph, since a device never ends.
const MOST_BYTES: u64 = 64 << 20;

/// The most bytes of a setting that logs and pages show.
const MOST_SHOWN: usize = 400;

/// A checked pipeline with the texts that its spans point into.
pub(super) struct Opened {
    /// The pipeline.
    pub(super) pipeline: Arc<Pipeline>,
    /// The parameters of an ONNX model, by name.
    pub(super) weights: IndexMap<String, HostTensor>,
    sources: Sources,
    /// The text of the graph, and what the command line changes in it.
    graph: (FileId, Vec<(String, String)>),
    /// The inputs whose values the command line gives.
    given: Vec<String>,
    /// Its settings as (path, value), overrides included.
    pub(super) settings: Vec<(String, String)>,
}

/// Reads and checks a pipeline; its functions are added to the registry. Warnings are printed.
pub(super) fn open(args: &GraphArgs, registry: &mut Registry) -> Result<Opened, Failure> {
    open_for(args, &[], registry)
}

/// As [`open`], to export these nodes. No warning says that they are not used.
pub(super) fn open_to_export(
    args: &GraphArgs,
    outputs: &[String],
    registry: &mut Registry,
) -> Result<Opened, Failure> {
    opened(args, (&[], outputs), registry)
}

/// As [`open`], for inputs with these values, which settle open extents of an ONNX model and of `Run` stages. A value
/// without a name is that of a model's first input.
pub(super) fn open_for(
    args: &GraphArgs,
    inputs: &[(Option<String>, Given)],
    registry: &mut Registry,
) -> Result<Opened, Failure> {
    opened(args, (inputs, &[]), registry)
}

fn opened(
    args: &GraphArgs,
    (inputs, outputs): (&[(Option<String>, Given)], &[String]),
    registry: &mut Registry,
) -> Result<Opened, Failure> {
    let mut sources = Sources::new();
    let mut diagnostics = Diagnostics::new();
    let (graph, weights) = match is_model(&args.graph) {
        false => (add(&mut sources, &args.graph, &mut diagnostics)?, IndexMap::new()),
        true => {
            let model = read_model_for(&args.graph, inputs, registry)?;
            let text = model.text(None, &extents_by(inputs, &model));
            // Faults have their places in this text, which the file of the model does not hold.
            (sources.add(format!("graph of {}", args.graph.display()), text), model.weights)
        }
    };
    let plugins = args.changes.plugin.iter().map(|path| add(&mut sources, path, &mut diagnostics));
    let plugins = plugins.collect::<Result<Vec<FileId>, Failure>>()?;
    let overrides = overrides(args, (&sources, graph), inputs)?;
    let pipeline = match diagnostics.has_errors() {
        true => None,
        false => front::load(&mut sources, graph, registry, &overrides, &plugins, &mut diagnostics),
    };
    match pipeline {
        Some(mut pipeline) => {
            let unused: Vec<String> =
                outputs.iter().map(|path| format!("no stage uses `{}`", pipeline.name_at(path))).collect();
            diagnostics.dismiss_warnings(|warning| unused.contains(&warning.message));
            if diagnostics.n_warnings() > 0 {
                complain(&render(&diagnostics, &sources));
            }
            find_beside(&mut pipeline, &args.graph);
            let settings = front::settings(&sources, graph, &overrides).into_iter();
            let settings = settings.map(|(path, value)| (path, message(&value, MOST_SHOWN))).collect();
            let given = inputs.iter().filter_map(|(name, _)| name.clone()).collect();
            let graph = (graph, overrides);
            Ok(Opened { pipeline: Arc::new(pipeline), weights, sources, graph, given, settings })
        }
        None => Err(Failure::diagnostics(render(&diagnostics, &sources))),
    }
}

impl Opened {
    /// Gives a session the parameters of the model.
    pub(super) fn fill(&self, session: &mut Session) -> Result<(), SessionError> {
        session.set_parameters(self.weights.clone()).map(drop)
    }

    /// Fails unless the pipeline has all these stages, which an option names.
    pub(super) fn expect_stages<'n>(
        &self,
        option: &str,
        names: impl IntoIterator<Item = &'n String>,
    ) -> Result<(), Failure> {
        let known: Vec<&str> = self.pipeline.stages.iter().map(|stage| &*stage.name).collect();
        let Some(unknown) = names.into_iter().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let hint = match nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        Err(Failure::graph(format!("{option}: there is no stage `{unknown}`; {hint}")))
    }

    /// The pipeline with these of its stages alone, or with all if there are none.
    pub(super) fn only(self, stages: &[String]) -> Result<Self, Failure> {
        self.expect_stages("--only", stages)?;
        let mut pipeline = Pipeline::clone(&self.pipeline);
        let named =
            self.pipeline.stages.iter().filter(|stage| stages.iter().any(|name| **name == *stage.name));
        let wanted: Vec<&Stage> = named.flat_map(|stage| self.pipeline.with_parts(stage)).collect();
        let is_wanted = |stage: &Stage| wanted.iter().any(|wanted| wanted.name == stage.name);
        pipeline.stages.retain(|stage| stages.is_empty() || is_wanted(stage));
        Ok(Opened { pipeline: Arc::new(pipeline), ..self })
    }

    /// The pipeline with a stage before all others that loads the parameters.
    pub(super) fn loading(self, path: &Path) -> Self {
        let mut pipeline = Pipeline::clone(&self.pipeline);
        let load = LoadStage { path: path.display().to_string(), names: vec![] };
        pipeline.stages.insert(0, Stage { name: "--load".into(), kind: load.into(), span: None });
        Opened { pipeline: Arc::new(pipeline), ..self }
    }

    /// The failure of a session, with its place in the pipeline file if it has one.
    pub(super) fn failure(&self, error: SessionError) -> Failure {
        if let SessionError::Plan { stage, source } = &error
            && let Some(fault) = source.downcast_ref::<StageFault>()
        {
            return self.stage_failure(stage, fault);
        }
        match error.diagnostic(&self.pipeline) {
            Some(mut diagnostic) => {
                let help = self.help_for_save(&error).or_else(|| self.help_for_stage(&error));
                diagnostic.help = help.or(diagnostic.help);
                if let Some(message) = self.fault_of_argument(&error) {
                    (diagnostic.message, diagnostic.labels) = (message, vec![]);
                }
                Failure::diagnostic(error.fault(), diagnostic, &self.sources).by(&error)
            }
            None => error.into(),
        }
    }

    /// The message for a file that `--input` names. Its path has no place in the pipeline.
    fn fault_of_argument(&self, error: &SessionError) -> Option<String> {
        let SessionError::InputFile { input, source } = error else { return None };
        self.given.contains(input).then(|| format!("--input {input}: {source}"))
    }

    /// The failure of a part of the graph that no stage asks for, with its place in the file.
    pub(super) fn issue_failure(&self, issue: StageIssue) -> Failure {
        let mut diagnostic = Diagnostic::error(issue.code, issue.message);
        diagnostic.labels.extend(issue.span.map(|span| (span, String::new())));
        diagnostic.help = issue.help;
        Failure::diagnostic(Fault::Graph, diagnostic, &self.sources)
    }

    /// The failure of a stage that cannot become a graph, with its place in the file.
    pub(super) fn stage_failure(&self, stage: &str, fault: &StageFault) -> Failure {
        let StageFault(issue) = fault;
        let Some(span) = issue.span.or_else(|| self.stage_span(stage)) else {
            return Failure::graph(format!("stage `{stage}`: {fault}"));
        };
        let mut diagnostics = Diagnostics::new();
        let diagnostic = diagnostics.error(issue.code, span, format!("stage `{stage}`: {}", issue.message));
        if let Some(help) = &issue.help {
            diagnostic.help(help.clone());
        }
        Failure::diagnostics(render(&diagnostics, &self.sources))
    }

    fn stage_span(&self, stage: &str) -> Option<Span> {
        self.pipeline.stages.iter().find(|known| *known.name == *stage)?.span
    }
}

/// The extents of a model that values of inputs settle.
fn extents_by(inputs: &[(Option<String>, Given)], model: &Model) -> Vec<(Symbol, usize)> {
    let first = model.inputs().next().unwrap_or_default();
    let shape = |(name, given): &(Option<String>, Given)| Some((name.clone(), shape_of(given).ok()?));
    let shapes: Vec<_> = inputs.iter().filter_map(shape).collect();
    model.extents(shapes.iter().map(|(name, shape)| (name.as_deref().unwrap_or(first), &shape[..])))
}

/// The overrides of the command line: its settings, and the extents of `Run` stages that values of inputs settle.
fn overrides(
    args: &GraphArgs,
    (sources, graph): (&Sources, FileId),
    inputs: &[(Option<String>, Given)],
) -> Result<Vec<(String, String)>, Failure> {
    let settings = args.changes.set.clone();
    if is_model(&args.graph) || inputs.is_empty() {
        return Ok(settings);
    }
    let mut refused = None;
    let dims = front::dims_of_values(sources, graph, &settings, &mut |input| {
        let (_, given) = inputs.iter().find(|(name, _)| name.as_deref() == Some(input))?;
        shape_of(given).map_err(|error| refused = Some(unreadable(input, &error))).ok()
    });
    refused.map_or(Ok([settings, dims].concat()), Err)
}

/// The failure of a file that `--input` names.
fn unreadable(input: &str, error: &TableError) -> Failure {
    let Some(mut diagnostic) = error.diagnostic() else { return Failure::graph(error) };
    diagnostic.message = format!("--input {input}: {}", diagnostic.message);
    Failure::diagnostic(Fault::Graph, diagnostic, &Sources::new())
}

fn add(sources: &mut Sources, path: &Path, diagnostics: &mut Diagnostics) -> Result<FileId, Failure> {
    let name = path.display().to_string();
    let mut bytes = vec![];
    match File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 > MOST_BYTES => {
            Err(Failure::graph(format!("{name} is no graph: it has more than {} MiB", MOST_BYTES >> 20)))
        }
        Ok(_) => Ok(sources.add_bytes(name, bytes, diagnostics)),
        Err(error) => Err(Failure::graph(format!("{name} cannot be read: {error}"))),
    }
}
