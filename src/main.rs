//! The `engine` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    engine::cli::main_with(Ok::<_, engine::Faults>)
}
