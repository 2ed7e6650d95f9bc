//! `--dump`: values of nodes as files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use engine_core::compile::Compiled;
use engine_core::diag::{Code, Diagnostic, Sources as Texts};
use engine_core::ir::{Graph, NodeOp, Symbol};
use engine_runtime::data::npy;
use engine_runtime::session::{Event, Fault};
use engine_runtime::tensor::HostTensor;

use super::RunArgs;
use super::explain::unknown_node;
use super::output::{Failure, remark};

/// Writes what is told of nodes that are kept.
pub(super) struct Dumps<'a> {
    args: &'a RunArgs,
    failure: Option<Failure>,
}

impl<'a> Dumps<'a> {
    pub(super) fn new(args: &'a RunArgs) -> Self {
        Dumps { args, failure: None }
    }

    /// Writes the value that an event tells, if it tells one.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        let Event::Kept { stage, step, node, value } = event else { return };
        if self.failure.is_some() {
            return;
        }
        let number = self.args.dump_every.map_or(String::new(), |_| format!(".{step:06}"));
        // Nodes of an op's own have its name before a slash.
        let name = node.replace('/', "_");
        let path = self.args.dump_dir.join(format!("{stage}.{name}{number}.npy"));
        match write(&path, value) {
            Ok(()) if self.args.quiet || self.args.dump_every.is_some() => {}
            Ok(()) => {
                remark(format!("{stage}: `{node}` of step {step}, {value:?}, is in {}", path.display()))
            }
            Err(error) => self.failure = Some(Failure::unwritable(&path, &error)),
        }
    }

    /// The first failure to write.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }
}

fn write(path: &PathBuf, value: &HostTensor) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    let mut file = BufWriter::new(File::create(path)?);
    npy::write(value, &mut file)?;
    file.flush()
}

/// Fails unless every node is computed by some stage.
pub(super) fn expect_nodes(nodes: &[String], stages: &[(Symbol, Compiled)]) -> Result<(), Failure> {
    let graphs: Vec<&Graph> = stages.iter().map(|(_, compiled)| &compiled.typed).collect();
    for wanted in nodes {
        let found: Vec<&NodeOp> =
            graphs.iter().filter_map(|graph| Some(&graph.nodes[graph.find(wanted)?.node].op)).collect();
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
