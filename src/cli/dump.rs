//! `--dump`: values of nodes as files.

use std::path::{Path, PathBuf};

use engine_core::compile::Compiled;
use engine_core::diag::{Code, Diagnostic, Sources as Texts};
use engine_core::ir::{Graph, NodeOp, Symbol};
use engine_core::pipeline::Pipeline;
use engine_runtime::data::npy;
use engine_runtime::files::Overwrite;
use engine_runtime::session::{Event, Fault};
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;

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

/// Fails unless the values of these nodes can be written, each to its own file, for every stage that computes them.
pub(super) fn expect_room(
    args: &RunArgs,
    pipeline: &Pipeline,
    stages: &[(Symbol, Compiled)],
) -> Result<(), Failure> {
    let mut files: IndexMap<PathBuf, (&str, &str)> = IndexMap::new();
    for (stage, compiled) in stages {
        let is_computed = |path: &&String| compiled.typed.find(&pipeline.name_at(path)).is_some();
        for node in args.dump.iter().filter(is_computed) {
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
    let graphs: Vec<&Graph> = stages.iter().map(|(_, compiled)| &compiled.typed).collect();
    for wanted in paths {
        let name = pipeline.name_at(wanted);
        let found: Vec<&NodeOp> =
            graphs.iter().filter_map(|graph| Some(&graph.nodes[graph.find(&name)?.node].op)).collect();
        if found.is_empty() {
            return Err(unknown_node(wanted, &graphs));
        }
        if found.iter().all(|op| matches!(op, NodeOp::Input(_))) {
            let message = format!("`{wanted}` is not computed, it is a parameter, state or an input");
            let mut diagnostic = Diagnostic::error(Code::E0101, message);
            diagnostic.help("checkpoints hold parameters and state");
            return Err(Failure::diagnostic(Fault::Graph, diagnostic, &Texts::new()));
        }
    }
    Ok(())
}
