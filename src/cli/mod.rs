//! The command line.

mod run;

mod check;
mod compare;
mod data;
mod dump;
mod explain;
mod predict;
mod selftest;
mod verify;

mod bench;
mod ceiling;
mod device;
mod profile;
mod roofline;

mod new;

mod devices;
mod ops;

mod file;
mod html;
mod open;
mod output;
mod progress;
mod signals;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use engine_core::front::given_text;
use engine_core::pipeline::Given;
use engine_runtime::device::Device;
use engine_runtime::session::Session;

use crate::Engine;
use crate::devices::Choice;
use engine_runtime::files::Overwrite;
use output::{Failure, complain, expect_printed, printed};

/// The whole program: reads the arguments, does what they ask for, and returns the exit code.
///
/// `setup` adds what a program brings along: `main_with(|engine| engine.plugin(MyOps))`.
pub fn main_with(setup: impl FnOnce(Engine) -> Engine) -> ExitCode {
    let arguments = match Arguments::try_parse().and_then(Arguments::checked) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            // If even this cannot be printed, there is no one to tell.
            drop(error.print());
            return ExitCode::from(2);
        }
        Err(help) => return ended(printed(help.print())),
    };
    ended(dispatch(setup(Engine::new()), arguments.command).and_then(|()| expect_printed()))
}

/// Tells how the program has ended.
fn ended(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure.text);
            failure.exit_code()
        }
    }
}

fn dispatch(engine: Engine, command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(engine, &args),
        Command::Predict(args) => predict::predict(engine, &args),
        Command::Check(args) => check::check(engine, &args),
        Command::Explain(args) => explain::explain(engine, &args),
        Command::Why(args) => explain::why(engine, &args),
        Command::Ops(args) => ops::ops(&engine.registry, &args),
        Command::Devices(args) => devices::devices(&args),
        Command::Data(args) => data::data(&engine.sources, &args),
        Command::Selftest(args) => selftest::selftest(engine, &args),
        Command::New(args) => new::new(&args),
        Command::Verify(args) => verify::verify(engine, &args),
        Command::Bench(args) => bench::bench(engine, &args),
        Command::Profile(args) => profile::profile(engine, &args),
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    the graph or its data is at fault
  2    wrong usage
  3    the machine is at fault: no such device, out of memory, disk full
  130  interrupted, by Ctrl-C or a signal to end; training has saved its state

Environment:
  ENGINE_DATA_DIR  a folder with data sets, after --data-dir and before data/
  ENGINE_OFFLINE   1: never use the network";

#[derive(Parser)]
#[command(name = "engine", version, about = "Runs compute graphs written as RON pipelines.", after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    /// The arguments, if they go together.
    fn checked(self) -> Result<Self, clap::Error> {
        let misuse = match &self.command {
            Command::Verify(args) => args.misuse().map(str::to_string),
            Command::Run(RunArgs { inputs, .. }) | Command::Check(CheckArgs { inputs, .. }) => {
                inputs.repeated().map(|name| format!("--input {name} is given twice: leave one of them out"))
            }
            _ => None,
        };
        match misuse {
            Some(why) => Err(Arguments::command().error(ErrorKind::ArgumentConflict, why)),
            None => Ok(self),
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Run the stages of a pipeline: train, evaluate, search, save
    Run(RunArgs),
    /// Compute outputs for every row of a file with a trained graph
    Predict(PredictArgs),
    /// Check a pipeline without running it, with the data that is at hand
    Check(CheckArgs),
    /// Print what a pipeline becomes on its way to kernels
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
    /// Make a graph or a plugin to start from
    New(NewArgs),
}

/// A pipeline with what changes it.
#[derive(Args, Clone)]
struct GraphArgs {
    /// The pipeline file
    #[arg(value_name = "GRAPH")]
    graph: PathBuf,
    #[command(flatten)]
    changes: ChangeArgs,
}

/// What changes a pipeline.
#[derive(Args, Clone)]
struct ChangeArgs {
    /// Override a field by its path, such as seed=1 or train.epochs=2
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// A RON file with functions that the pipeline may call
    #[arg(long, value_name = "FILE.ron")]
    plugin: Vec<PathBuf>,
}

/// A pipeline and where its data is.
#[derive(Args, Clone)]
struct PipelineArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// A folder with data sets, looked into first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl PipelineArgs {
    fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }
}

/// Where to run.
#[derive(Args)]
struct DeviceArgs {
    /// auto, cpu, cuda, cuda:N, wgpu, wgpu:N or wgpu:software
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: Choice,
    /// Threads of the CPU device; one a core if left out
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
}

/// Where and how to run.
#[derive(Args)]
struct MachineArgs {
    #[command(flatten)]
    place: DeviceArgs,
    #[command(flatten)]
    compile: CompileArgs,
}

/// Where the rows of stages are.
#[derive(Args, Clone, Copy)]
struct ResidencyArgs {
    /// Keep splits of at most so many MiB on the device; rows of larger ones come to it as steps need them, with the same
    /// results. Left out: half of a GPU's memory, the largest binding through wgpu, and no limit on the CPU
    #[arg(long, value_name = "N")]
    resident_mib: Option<u32>,
}

impl ResidencyArgs {
    fn apply(self, session: &mut Session) {
        if let Some(mib) = self.resident_mib {
            session.keep_resident(u64::from(mib) << 20);
        }
    }
}

/// What happens to files that are in the way.
#[derive(Args, Clone, Copy)]
struct ForceArgs {
    /// Replace files that this program has not written, and write into devices
    #[arg(long)]
    force: bool,
}

impl ForceArgs {
    fn overwrite(self) -> Overwrite {
        if self.force { Overwrite::Any } else { Overwrite::Own }
    }
}

/// What the compiler is kept from, for finding out which of its steps is wrong.
#[derive(Args, Default)]
struct CompileArgs {
    /// Make every node a kernel of its own
    #[arg(long)]
    no_fuse: bool,
    /// Switch off a rewrite rule or a pass of the fuser
    #[arg(long, value_name = "NAME", value_parser = parse_switch)]
    without: Vec<String>,
    /// Make only so many rewrites and joins of kernels
    #[arg(long, value_name = "N")]
    fuel: Option<usize>,
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    residency: ResidencyArgs,
    #[command(flatten)]
    inputs: InputArgs,
    /// Write what was measured to a file: JSON, or one HTML page with curves, kernels and memory
    #[arg(long, value_name = "FILE.json|FILE.html")]
    report: Option<PathBuf>,
    /// Fail where a data set cannot be had, instead of running on data of the program's own making
    #[arg(long)]
    no_stand_in: bool,
    /// Go on from a checkpoint as if the run had never stopped
    #[arg(long, value_name = "CKPT")]
    resume: Option<PathBuf>,
    /// Stop at the first NaN or infinity and say which node made it, of which operands; steps take longer
    #[arg(long)]
    trace_nan: bool,
    /// Write the value of a node, or of a gradient of the loss (d.w1 for parameter w1, d.h for node h), to
    /// STAGE.NODE.npy: that of each stage's last step, which is the step at fault if the loss is not a number;
    /// `explain --stage grad` names all nodes
    #[arg(long, value_name = "NODE")]
    dump: Vec<String>,
    /// Write values every so many steps instead, as STAGE.NODE.STEP.npy
    #[arg(long, value_name = "N", requires = "dump", value_parser = parse_every)]
    dump_every: Option<u64>,
    /// The folder that values go to
    #[arg(long, value_name = "DIR", requires = "dump", default_value = "dump")]
    dump_dir: PathBuf,
    #[command(flatten)]
    force: ForceArgs,
    /// Print final results only
    #[arg(long)]
    quiet: bool,
}

/// Values of inputs of `Run` stages.
#[derive(Args, Clone)]
struct InputArgs {
    /// Give an input of `Run` stages its value: a file, as in x=values.npy, or numbers, as in x=[1,2,3]
    #[arg(long, value_name = "NAME=FILE|VALUE", value_parser = parse_input)]
    input: Vec<(String, Given)>,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    inputs: InputArgs,
    /// Check for `run --force`, which replaces files that this program has not written
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
struct PredictArgs {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Trained parameters: a checkpoint, a safetensors file or an .npz archive; needed if there are parameters
    #[arg(long, value_name = "CKPT")]
    load: Option<PathBuf>,
    /// The rows: IDX (gzipped or not), .npy, ARCHIVE.npz/ARRAY, .fvecs, .ivecs, .bvecs or .csv, whose columns are found by
    /// the names that they had in training
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Where results go: an .npz, .npy (of one output) or .csv file, or - for CSV on the standard output
    #[arg(long, default_value = "-", value_name = "FILE")]
    output: PathBuf,
}

#[derive(Args)]
struct ExplainArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// The form to print
    #[arg(long, default_value = "kernels")]
    stage: explain::Form,
    /// The device to compile for, as `run --device` takes it; `cuda` and `wgpu` need not be there
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    device: Choice,
    /// Compile for the device that this file describes, as `devices --models` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    model: Option<PathBuf>,
    /// Show the programs that these autotuned choices make: a report, or the `tuning` of one
    #[arg(long, value_name = "FILE")]
    choices: Option<PathBuf>,
    #[command(flatten)]
    compile: CompileArgs,
    /// Print kernels and memory as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct WhyArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// The node that makes a value
    #[arg(value_name = "NODE")]
    from: String,
    /// The node that uses it
    #[arg(value_name = "NODE")]
    to: String,
    /// The device to compile for, as `run --device` takes it; `cuda` need not be there
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    device: Choice,
}

#[derive(Args)]
struct DevicesArgs {
    /// Measure what each can do at most: a copy in its memory, and products; takes some seconds
    #[arg(long)]
    measure: bool,
    /// Print each device as the compiler sees it, as JSON, for `explain --model`
    #[arg(long, conflicts_with = "measure")]
    models: bool,
}

#[derive(Args)]
struct OpsArgs {
    /// The op whose page to print
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print the whole reference as Markdown
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

#[derive(Args)]
struct DataArgs {
    /// The source to load
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// A folder with data sets, looked into first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Args)]
struct SelftestArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// Only ops whose name contains this
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
}

#[derive(Args)]
struct NewArgs {
    #[command(subcommand)]
    what: NewWhat,
}

#[derive(Subcommand)]
enum NewWhat {
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
struct VerifyArgs {
    /// The pipeline files; with several devices, none stands for all ops
    #[arg(value_name = "GRAPH")]
    graphs: Vec<PathBuf>,
    #[command(flatten)]
    changes: ChangeArgs,
    /// A folder with data sets, looked into first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to run: any that `run --device` takes. Several, such as cuda,wgpu,cpu, are compared with the first of them
    #[arg(long, default_value = "auto", value_name = "DEVICE,...", value_delimiter = ',')]
    device: Vec<Choice>,
    /// Threads of the CPU device; one a core if left out
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    #[command(flatten)]
    compile: CompileArgs,
    /// Compare devices on all ops, besides the graphs that are given
    #[arg(long)]
    all: bool,
    /// Of the ops, only those whose name contains this
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Print the comparison of devices as Markdown, with the machine
    #[arg(long)]
    markdown: bool,
}

impl VerifyArgs {
    fn graph(&self, path: &Path) -> GraphArgs {
        GraphArgs { graph: path.to_owned(), changes: self.changes.clone() }
    }

    fn open_devices(&self) -> Result<Vec<Arc<dyn Device>>, Failure> {
        let place = |&device: &Choice| DeviceArgs { device, threads: self.threads };
        self.device.iter().map(|choice| device::open_device(&place(choice))).collect()
    }

    /// What the parser cannot say by itself.
    fn misuse(&self) -> Option<&'static str> {
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
struct BenchArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Measure this stage alone
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    #[command(flatten)]
    residency: ResidencyArgs,
    /// Steps before the clock starts
    #[arg(long, default_value_t = 20, value_name = "N")]
    warmup: usize,
    /// Times that are taken
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = parse_steps)]
    steps: usize,
    /// Steps that the device is given at once; a time is their mean
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse_steps)]
    at_once: usize,
    /// Print the numbers as JSON
    #[arg(long)]
    json: bool,
    /// Measure as often as the runs in this file, each printed by `bench --json`, and compare the medians; a stage fails
    /// if the interval of its ratio lies above 1.03
    #[arg(long, value_name = "OLD.json", conflicts_with = "json")]
    compare: Option<PathBuf>,
}

#[derive(Args)]
struct ProfileArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Measure this stage alone
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// Steps of which every kernel is timed
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = parse_steps)]
    steps: usize,
    /// Write the steps as a trace for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
}

fn parse_every(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(every @ 1..) => Ok(every),
        _ => Err("expected a whole number from 1 on".to_string()),
    }
}

fn parse_steps(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(steps @ 1..=1_000_000) => Ok(steps),
        _ => Err("expected a whole number from 1 to 1000000".to_string()),
    }
}

fn parse_switch(name: &str) -> Result<String, String> {
    let switches = engine_core::compile::switches();
    match switches.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("known are {}", switches.join(", "))),
    }
}

fn parse_override(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as train.epochs=1")?;
    if key.trim().is_empty() {
        return Err("the key is empty".to_string());
    }
    Ok((key.trim().to_string(), value.to_string()))
}

fn parse_input(text: &str) -> Result<(String, Given), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as x=values.npy or x=[1,2]")?;
    Ok((name.trim().to_string(), given_text(value.trim())?))
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("expected a whole number from 1 to 1024".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn overrides_have_a_key_and_any_value() {
        let read = |text| parse_override(text).ok();
        assert_eq!(read("train.epochs=1"), Some(("train.epochs".to_string(), "1".to_string())));
        assert_eq!(read("name=\"a=b\""), Some(("name".to_string(), "\"a=b\"".to_string())));
        assert_eq!((read("seed"), read("=1")), (None, None));
    }
}
