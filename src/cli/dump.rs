//! `--dump`: values of nodes as files.

use std::path::{Path, PathBuf};

use engine_core::compile::Compiled;
use engine_core::diag::{Code, Diagnostic, Sources as Texts};
use engine_core::ir::{Graph, InputKind, NodeOp, Symbol};
use engine_core::pipeline::{Evaluation, Pipeline, RunStage, Stage, TrainStage};
use engine_runtime::data::npy;
use engine_runtime::files::Overwrite;
use engine_runtime::session::{Event, Fault};
use engine_runtime::tensor::HostTensor;
use indexmap::{IndexMap, IndexSet};

use super::args::RunArgs;
use super::explain::unknown_node;
use super::file::{self, ARRAY};
use super::output::{Failure, remark};

/// Writes the reported values of dumped nodes.
pub(super) struct Dumps<'a> {
    args: &'a RunArgs,
    failure: Option<Failure>,
}

impl<'a> Dumps<'a> {
    pub(super) fn new(args: &'a RunArgs) -> Self {
        Dumps { args, failure: None }
    }

    /// Writes the value of an event that reports one.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        let Event::Kept { stage, step, node, value } = event else { return };
        if self.failure.is_some() {
            return;
        }
        let path = path_of(self.args, stage, node, *step);
        match write(&path, value, self.args.force.overwrite()) {
            Ok(()) if self.args.quiet || self.args.dump_every.is_some() => {}
            Ok(()) => {
                remark(format!("{stage}: `{node}` of step {step}, {value:?}, is in {}", path.display()))
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// The first failure to write.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }
}

fn write(path: &Path, value: &HostTensor, overwrite: Overwrite) -> Result<(), Failure> {
    file::write(path, (&ARRAY, overwrite), &|file| npy::write(value, file))
}

/// The file for the value of a node after a step.
fn path_of(args: &RunArgs, stage: &str, node: &str, step: u64) -> PathBuf {
    let number = args.dump_every.map_or(String::new(), |_| format!(".{step:06}"));
    // Names of nodes inside an op have a slash after the op's name, and a stage may be called `../x`.
    let name = format!("{stage}.{node}").replace(['/', '\\'], "_");
    args.dump_dir.join(format!("{name}{number}.npy"))
}

/// The failure of two values (stage, node) with one file.
fn shared(path: &Path, (stage, node): (&str, &str), (other_stage, other_node): (&str, &str)) -> Failure {
    let message = format!(
        "{} would hold two values: `{node}` of stage `{stage}` and `{other_node}` of stage `{other_stage}`",
        path.display()
    );
    let mut diagnostic = Diagnostic::error(Code::E0505, message);
    diagnostic.help("dump one of them at a time, or rename a stage");
    Failure::diagnostic(Fault::Graph, diagnostic, &Texts::new())
}

/// The nodes that paths stand for. A path is that of a node, or the name of an output or metric of a stage.
pub(super) fn nodes_of(paths: &[String], pipeline: &Pipeline) -> Vec<String> {
    let is_node = |path: &str| pipeline.graph.find(&pipeline.name_at(path)).is_some();
    let mut nodes = IndexSet::new();
    for path in paths {
        let is_known = is_node(path) || path.strip_prefix("d.").is_some_and(is_node);
        let named: Vec<String> = match is_known {
            true => vec![],
            false => pipeline.stages.iter().filter_map(|stage| node_of_output(stage, path)).collect(),
        };
        match named.is_empty() {
            true => _ = nodes.insert(path.clone()),
            false => nodes.extend(named),
        }
    }
    nodes.into_iter().collect()
}

/// The node, or the gradient of one, that a stage reports under a name.
fn node_of_output(stage: &Stage, name: &str) -> Option<String> {
    let find = |named: &[(Symbol, Symbol)]| {
        named.iter().find(|(known, _)| **known == *name).map(|(_, node)| node.to_string())
    };
    if let Some(run) = stage.get::<RunStage>() {
        return find(&run.outputs).or_else(|| find(&run.gradients).map(|node| format!("d.{node}")));
    }
    let metrics = stage.get::<TrainStage>().map(|train| &train.metrics);
    find(metrics.or_else(|| Some(&stage.get::<Evaluation>()?.metrics))?)
}

/// The node whose value a stage keeps for a path, if it computes one. Plans of training have gradients as further outputs.
fn kept<'c>(compiled: &'c Compiled, path: &str) -> Option<&'c NodeOp> {
    let output = format!("kept.{path}");
    let (_, value) = compiled.typed.outputs.iter().find(|(name, _)| **name == *output)?;
    Some(&compiled.typed.nodes[value.node].op)
}

/// Fails unless the values of these nodes can be written, each to its own file, for every stage that computes them.
pub(super) fn expect_room(args: &RunArgs, stages: &[(Symbol, Compiled)]) -> Result<(), Failure> {
    let mut files: IndexMap<PathBuf, (&str, &str)> = IndexMap::new();
    for (stage, compiled) in stages {
        for node in args.dump.iter().filter(|path| kept(compiled, path).is_some()) {
            let (path, value) = (path_of(args, stage, node, 0), (&**stage, node.as_str()));
            file::expect_room(&path, &ARRAY, args.force.overwrite())?;
            let first = *files.entry(path.clone()).or_insert(value);
            if first != value {
                return Err(shared(&path, first, value));
            }
        }
    }
    Ok(())
}

/// Fails unless some stage computes the value of every path.
pub(super) fn expect_nodes(
    paths: &[String],
    pipeline: &Pipeline,
    stages: &[(Symbol, Compiled)],
) -> Result<(), Failure> {
    for wanted in paths {
        let found: Vec<&NodeOp> = stages.iter().filter_map(|(_, compiled)| kept(compiled, wanted)).collect();
        let Some(first) = found.first() else {
            let graphs: Vec<&Graph> = stages.iter().map(|(_, compiled)| &compiled.typed).collect();
            return Err(unknown_node(wanted, &graphs));
        };
        if found.iter().all(|op| matches!(op, NodeOp::Input(_))) {
            return Err(not_computed(wanted, first, pipeline));
        }
    }
    Ok(())
}

/// The failure of a value that every stage is given.
fn not_computed(wanted: &str, op: &NodeOp, pipeline: &Pipeline) -> Failure {
    let field =
        wanted.split_once('.').filter(|(data, _)| pipeline.data.iter().any(|decl| *decl.name == **data));
    let is_input = pipeline.inputs.iter().any(|input| *input.name == *wanted);
    let (what, help) = match (op, field) {
        (NodeOp::Input(InputKind::Param), _) => {
            ("a parameter".to_owned(), "checkpoints hold parameters and state".to_owned())
        }
        (NodeOp::Input(InputKind::State), _) => {
            ("state".to_owned(), "checkpoints hold parameters and state".to_owned())
        }
        (_, Some((data, field))) if !is_input => (
            format!("the field `{field}` of the data `{data}`"),
            "the rows are those of the data; `--dump` takes nodes, and gradients of a loss".to_owned(),
        ),
        _ => (
            "an input".to_owned(),
            format!(
                "its value is the given one; name `{wanted}` among the `outputs` of a `Run` stage to see it"
            ),
        ),
    };
    let mut diagnostic = Diagnostic::error(Code::E0101, format!("`{wanted}` is not computed, it is {what}"));
    diagnostic.help(help);
    Failure::diagnostic(Fault::Graph, diagnostic, &Texts::new())
}
