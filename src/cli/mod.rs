//! The command line.

mod args;
mod form;
mod values;

mod log;
mod meter;
mod record;
mod run;

mod check;
mod compare;
mod comparison;
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
mod help;
mod ops;

mod beside;
mod export;
mod file;
mod html;
mod import;
mod machine;
mod open;
mod output;
mod progress;
mod signals;

use std::fmt;
use std::process::ExitCode;

use crate::Engine;
use args::{Arguments, Command};
use clap::Parser;
use output::{Failure, complain, expect_printed, printed};

/// Runs the command line: reads the arguments, runs the command, and returns the exit code.
///
/// `setup` adds a program's own parts: `main_with(|engine| engine.plugin(MyOps))`. Its error ends the program.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     let mine = r#"(functions: {"twice": (inputs: ["x"], output: "x + x")})"#;
///     engine::cli::main_with(|engine| engine.functions("mine.ron", mine))
/// }
/// ```
pub fn main_with<E: fmt::Display>(setup: impl FnOnce(Engine) -> Result<Engine, E>) -> ExitCode {
    let arguments = match Arguments::try_parse().and_then(Arguments::checked) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            // If the error cannot be printed either, there is no place to report it.
            drop(error.print());
            return ExitCode::from(2);
        }
        Err(help) => return ended(printed(help.print())),
    };
    match setup(Engine::new()) {
        Ok(engine) => ended(dispatch(engine, arguments.command).and_then(|()| expect_printed())),
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Prints the failure, if any, and returns the exit code.
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
        Command::Run(args) => run::run(engine, args),
        Command::Predict(args) => predict::predict(engine, &args),
        Command::Check(args) => check::check(engine, &args),
        Command::Explain(args) => explain::explain(engine, &args),
        Command::Why(args) => explain::why(engine, &args),
        Command::Ops(args) => ops::ops(&engine.registry, &args),
        Command::Devices(args) => devices::devices(&args),
        Command::Data(args) => data::data(&engine.sources, &args),
        Command::Selftest(args) => selftest::selftest(engine, &args),
        Command::Import(args) => import::import(&engine, &args),
        Command::Export(args) => export::export(engine, &args),
        Command::New(args) => new::new(&args),
        Command::Completions(args) => help::completions(&args),
        Command::Help(args) => help::help(&engine.registry, &args),
        Command::Verify(args) => verify::verify(engine, &args),
        Command::Bench(args) => bench::bench(engine, &args),
        Command::Profile(args) => profile::profile(engine, &args),
    }
}
