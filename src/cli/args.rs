//! The arguments of the command line.

mod after_help;
mod export;
mod import;
mod shared;

pub(super) use export::ExportArgs;
pub(super) use import::ImportArgs;
pub(super) use shared::{ChangeArgs, ForceArgs, GraphArgs};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use engine_core::pipeline::Given;
use engine_runtime::session::Session;

use super::form::Form;
use super::values::{
    folder, parse_count, parse_every, parse_input, parse_mib, parse_steps, parse_switch, parse_threads,
};
use crate::devices::Choice;
use after_help::AFTER_HELP;

#[derive(Parser)]
#[command(name = "engine", version, disable_help_subcommand = true, about = "Runs compute graphs written as RON pipelines.", after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

impl Arguments {
    /// The arguments, if they are consistent.
    pub(super) fn checked(self) -> Result<Self, clap::Error> {
        let misuse = match &self.command {
            Command::Verify(args) => args.misuse().map(|why| ("verify", why.to_string())),
            Command::Run(RunArgs { inputs, .. }) => inputs.misuse().map(|why| ("run", why)),
            Command::Check(CheckArgs { inputs, .. }) => inputs.misuse().map(|why| ("check", why)),
            _ => None,
        };
        let Some((name, why)) = misuse else { return Ok(self) };
        let mut command = Arguments::command();
        // Built, the command gives its subcommands their whole names.
        command.build();
        let of = command.find_subcommand_mut(name);
        Err(of.unwrap_or(&mut Arguments::command()).error(ErrorKind::ArgumentConflict, why))
    }
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Run the stages of a pipeline: train, evaluate, search, save
    Run(RunArgs),
    /// Compute outputs for every row of a file with a trained graph
    Predict(PredictArgs),
    /// Check a pipeline without running it, with the data that is present
    Check(CheckArgs),
    /// Print a form of a pipeline on its way to kernels
    Explain(ExplainArgs),
    /// Say why two nodes are not one kernel
    Why(WhyArgs),
    /// List the ops, or print the page of one
    Ops(OpsArgs),
    /// List the devices of this machine
    Devices(DevicesArgs),
    /// List the data sources, or find, fetch and check one
    Data(DataArgs),
    /// Test every op of this program on a device: its examples, gradients and fusion
    Selftest(SelftestArgs),
    /// Compare every kernel of a pipeline with the interpreter in double precision, or the results of several devices
    Verify(VerifyArgs),
    /// Time the steps of a pipeline, compilation apart
    Bench(BenchArgs),
    /// Time every kernel of a pipeline and say what limits it
    Profile(ProfileArgs),
    /// Make a graph and a file of weights of an ONNX model
    Import(ImportArgs),
    /// Write nodes of a graph as an ONNX model
    Export(ExportArgs),
    /// Make a graph or a plugin to start from
    New(NewArgs),
    /// Print the completions of a shell: source <(engine completions bash)
    Completions(CompletionsArgs),
    /// Print the page of an error code, such as E0606, or help on a command
    Help(HelpArgs),
}

/// A pipeline and the place of its data.
#[derive(Args, Clone)]
pub(super) struct PipelineArgs {
    #[command(flatten)]
    pub(super) graph: GraphArgs,
    /// A folder with data sets, searched first
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub(super) data_dir: Option<PathBuf>,
}

impl PipelineArgs {
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }
}

/// The device of a command.
#[derive(Args)]
pub(super) struct DeviceArgs {
    /// auto, cpu, cuda, cuda:N, wgpu, wgpu:N or wgpu:software
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(super) device: Choice,
    /// Threads of the CPU device; one a core if left out
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(super) threads: Option<usize>,
}

/// Device and settings of a run.
#[derive(Args)]
pub(super) struct MachineArgs {
    #[command(flatten)]
    pub(super) place: DeviceArgs,
    #[command(flatten)]
    pub(super) compile: CompileArgs,
}

/// The residency of rows.
#[derive(Args, Clone, Copy)]
pub(super) struct ResidencyArgs {
    /// Keep splits of at most so many MiB on the device; rows of larger ones are copied as steps need them, with the
    /// same results. Default: half of a GPU's memory, the largest binding through wgpu, and no limit on the CPU
    #[arg(long, value_name = "N", value_parser = parse_mib)]
    pub(super) resident_mib: Option<u32>,
}

impl ResidencyArgs {
    pub(super) fn apply(self, session: &mut Session) {
        if let Some(mib) = self.resident_mib {
            session.keep_resident(u64::from(mib) << 20);
        }
    }
}

/// Restrictions of the compiler, for finding a faulty pass.
#[derive(Args, Default)]
pub(super) struct CompileArgs {
    /// Make every node a kernel of its own
    #[arg(long)]
    pub(super) no_fuse: bool,
    /// Switch off a rewrite rule or a pass of the fuser
    #[arg(long, value_name = "NAME", value_parser = parse_switch)]
    pub(super) without: Vec<String>,
    /// Make at most so many rewrites and joins of kernels
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(super) fuel: Option<usize>,
}

#[derive(Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) pipeline: PipelineArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    #[command(flatten)]
    pub(super) residency: ResidencyArgs,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    /// Write the measurements to a file: JSON, or one HTML page with curves, kernels and memory
    #[arg(long, value_name = "FILE.json|FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Write the run to a folder while it goes on: lines of JSON, and event files for `tensorboard --logdir DIR`. With
    /// --resume, the log in the folder goes on
    #[arg(long, value_name = "DIR")]
    pub(super) log: Option<PathBuf>,
    /// Log every so many steps of training; without it, about 20 times a second at first, then ever less often
    #[arg(long, value_name = "N", requires = "log", value_parser = parse_every)]
    pub(super) log_every: Option<u64>,
    /// Compute the norm of the gradients in all training stages, for the progress, the log and the page. Small models then
    /// train slower; stages with `clip_norm` compute it anyway
    #[arg(long)]
    pub(super) grad_norm: bool,
    /// Fail if a data set is missing, instead of running on generated data
    #[arg(long)]
    pub(super) no_stand_in: bool,
    /// Start with the parameters in a file: a checkpoint, a safetensors file or an .npz archive; as a `Load` stage before
    /// the first stage
    #[arg(long, value_name = "CKPT", conflicts_with = "resume")]
    pub(super) load: Option<PathBuf>,
    /// Run this stage alone; given several times, these stages in the order of the pipeline
    #[arg(long, value_name = "STAGE")]
    pub(super) only: Vec<String>,
    /// Resume from a checkpoint as if the run had never stopped
    #[arg(long, value_name = "CKPT")]
    pub(super) resume: Option<PathBuf>,
    /// Stop at the first NaN or infinity, and name its node and operands; steps take longer
    #[arg(long)]
    pub(super) trace_nan: bool,
    /// Write the value of a node, or of a gradient of the loss (d.w1 for parameter w1, d.h for node h), to
    /// STAGE.NODE.npy. The name of an output or metric stands for its node. The value is that of each stage's last step, which is the step at fault if the loss is not a
    /// number; `explain --stage grad` names all nodes
    #[arg(long, value_name = "NODE")]
    pub(super) dump: Vec<String>,
    /// Write values every so many steps instead, as STAGE.NODE.STEP.npy
    #[arg(long, value_name = "N", requires = "dump", value_parser = parse_every)]
    pub(super) dump_every: Option<u64>,
    /// The folder for values
    #[arg(long, value_name = "DIR", requires = "dump", default_value = "dump")]
    pub(super) dump_dir: PathBuf,
    #[command(flatten)]
    pub(super) force: ForceArgs,
    /// Print final results only
    #[arg(long)]
    pub(super) quiet: bool,
}

/// Values of inputs of `Run` stages.
#[derive(Args, Clone)]
pub(super) struct InputArgs {
    /// Set an input of `Run` stages: to a file, as in x=values.npy, or to numbers, as in x=[1,2,3]
    #[arg(long, value_name = "NAME=FILE|VALUE", value_parser = parse_input)]
    pub(super) input: Vec<(String, Given)>,
}

#[derive(Args)]
pub(super) struct CheckArgs {
    /// The pipeline files
    #[arg(value_name = "GRAPH", required = true)]
    pub(super) graphs: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) changes: ChangeArgs,
    /// A folder with data sets, searched first
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub(super) data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    /// Check for `run --force`, which replaces files that this program has not written
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Args)]
pub(super) struct PredictArgs {
    #[command(flatten)]
    pub(super) graph: GraphArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Trained parameters: a checkpoint, a safetensors file or an .npz archive; required if there are parameters and no
    /// `Load` stage
    #[arg(long, value_name = "CKPT")]
    pub(super) load: Option<PathBuf>,
    /// The rows: IDX (gzipped or not), .npy, ARCHIVE.npz/ARRAY, .fvecs, .fbin and their like, or .csv; columns of .csv are
    /// found by their names in training. If outputs need several inputs, each has a file of equally many rows:
    /// --input x=a.npy --input y=b.npy
    #[arg(long, value_name = "FILE|NAME=FILE", required = true)]
    pub(super) input: Vec<OsString>,
    /// The file for results: .npz, .npy (of one output) or .csv, or - for CSV on the standard output. An existing
    /// .csv file is replaced
    #[arg(long, default_value = "-", value_name = "FILE")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) force: ForceArgs,
}

#[derive(Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) pipeline: PipelineArgs,
    /// The form to print; several, with commas between, follow each other
    #[arg(long, default_value = "kernels", value_delimiter = ',')]
    pub(super) stage: Vec<Form>,
    /// The device to compile for, as in `run --device`; `cuda` and `wgpu` need not be present
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub(super) device: Choice,
    /// Compile for the device that this file describes, as `devices --models` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    pub(super) model: Option<PathBuf>,
    /// Show the programs that these autotuned choices make: a report, or the `tuning` of one
    #[arg(long, value_name = "FILE")]
    pub(super) choices: Option<PathBuf>,
    #[command(flatten)]
    pub(super) compile: CompileArgs,
    /// Print kernels and memory as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct WhyArgs {
    #[command(flatten)]
    pub(super) pipeline: PipelineArgs,
    /// The node that produces a value
    #[arg(value_name = "NODE")]
    pub(super) from: String,
    /// The node that uses the value
    #[arg(value_name = "NODE")]
    pub(super) to: String,
    /// The device to compile for, as in `run --device`; `cuda` need not be present
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub(super) device: Choice,
}

#[derive(Args)]
pub(super) struct DevicesArgs {
    /// Measure the ceilings of each device: a copy in its memory, and matmuls; takes some seconds
    #[arg(long)]
    pub(super) measure: bool,
    /// Print each device as the compiler sees it, as JSON, for `explain --model`
    #[arg(long, conflicts_with = "measure")]
    pub(super) models: bool,
}

#[derive(Args)]
pub(super) struct OpsArgs {
    /// The op or the layer whose page to print
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Print the whole reference as Markdown
    #[arg(long, conflicts_with = "name")]
    pub(super) markdown: bool,
}

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(super) struct HelpArgs {
    /// An error code, an op or layer, or a command
    #[arg(value_name = "TOPIC")]
    pub(super) topic: Option<String>,
}

#[derive(Args)]
pub(super) struct DataArgs {
    /// The source to load
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,
    /// A folder with data sets, searched first; a download makes it
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct SelftestArgs {
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Only ops whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(super) filter: Option<String>,
}

#[derive(Args)]
pub(super) struct NewArgs {
    #[command(subcommand)]
    pub(super) what: NewWhat,
}

#[derive(Subcommand)]
pub(super) enum NewWhat {
    /// NAME.ron: a commented pipeline that trains
    Graph {
        /// Its name
        name: String,
    },
    /// NAME/: a crate with ops of its own, and its own engine
    Plugin {
        /// Its name
        name: String,
    },
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// The pipeline files; with several devices, all ops if there are none
    #[arg(value_name = "GRAPH")]
    pub(super) graphs: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) changes: ChangeArgs,
    /// A folder with data sets, searched first
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub(super) data_dir: Option<PathBuf>,
    /// The device, as in `run --device`. Several, such as cuda,wgpu,cpu, are compared with the first of them
    #[arg(long, default_value = "auto", value_name = "DEVICE,...", value_delimiter = ',')]
    pub(super) device: Vec<Choice>,
    /// Threads of the CPU device; one a core if left out
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(super) threads: Option<usize>,
    #[command(flatten)]
    pub(super) compile: CompileArgs,
    /// Compare devices on all ops, in addition to the given graphs
    #[arg(long)]
    pub(super) all: bool,
    /// Compare only ops whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(super) filter: Option<String>,
    /// Print the comparison of devices as Markdown, with the machine
    #[arg(long)]
    pub(super) markdown: bool,
}

impl VerifyArgs {
    pub(super) fn graph(&self, path: &Path) -> GraphArgs {
        GraphArgs { graph: path.to_owned(), changes: self.changes.clone() }
    }

    /// Faults that the parser cannot find by itself.
    pub(super) fn misuse(&self) -> Option<&'static str> {
        let is_single = self.device.len() == 1;
        if is_single && (self.all || self.markdown || self.filter.is_some()) {
            return Some(
                "--all, --filter and --markdown compare devices: give several, as in --device cuda,cpu",
            );
        }
        let lacks_graph = is_single && self.graphs.is_empty();
        lacks_graph.then_some("give a GRAPH to compare with the interpreter, or several devices to compare")
    }
}

#[derive(Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    pub(super) pipeline: PipelineArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Measure this stage alone
    #[arg(long, value_name = "NAME")]
    pub(super) stage: Option<String>,
    #[command(flatten)]
    pub(super) residency: ResidencyArgs,
    /// Steps before the clock starts
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse_count)]
    pub(super) warmup: usize,
    /// Number of timings
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = parse_steps)]
    pub(super) steps: usize,
    /// Steps that are submitted together; a time is their mean
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse_steps)]
    pub(super) at_once: usize,
    /// Print the numbers as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Measure as often as the runs in this file, each printed by `bench --json`, and compare the medians; a stage fails
    /// if the interval of its ratio lies above 1.03
    #[arg(long, value_name = "OLD.json", conflicts_with = "json")]
    pub(super) compare: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct ProfileArgs {
    #[command(flatten)]
    pub(super) pipeline: PipelineArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Measure this stage alone
    #[arg(long, value_name = "NAME")]
    pub(super) stage: Option<String>,
    /// Steps in which every kernel is timed
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = parse_steps)]
    pub(super) steps: usize,
    /// Write the steps as a trace for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE.json")]
    pub(super) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(super) force: ForceArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
