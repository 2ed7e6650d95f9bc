//! Printing and failing. Results go to the standard output, all else to the standard error.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use engine_runtime::data::source::DataError;
use engine_runtime::session::{Fault, SessionError};

/// Prints a result. A reader that has gone away is no reason to fail.
pub(super) fn print(text: impl fmt::Display) {
    drop(writeln!(io::stdout(), "{text}"));
}

/// Prints an error.
pub(super) fn complain(text: &str) {
    drop(writeln!(io::stderr(), "{}", text.trim_end()));
}

/// Prints what is neither result nor error.
pub(super) fn remark(text: impl fmt::Display) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// Why the program ends without success.
#[derive(Debug)]
pub(super) struct Failure {
    fault: Fault,
    /// What to print.
    pub(super) text: String,
}

impl Failure {
    /// The graph or its data is at fault.
    pub(super) fn graph(text: impl fmt::Display) -> Self {
        Failure { fault: Fault::Graph, text: format!("error: {text}") }
    }

    /// The machine is at fault.
    pub(super) fn machine(text: impl fmt::Display) -> Self {
        Failure { fault: Fault::Machine, text: format!("error: {text}") }
    }

    /// Diagnostics, which say for themselves that they are errors.
    pub(super) fn diagnostics(text: String) -> Self {
        Failure { fault: Fault::Graph, text }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.fault {
            Fault::Graph => 1,
            Fault::Machine => 3,
            Fault::Interrupt => 130,
        })
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let fault = error.fault();
        let prefix = if fault == Fault::Interrupt { "" } else { "error: " };
        Failure { fault, text: format!("{prefix}{error}") }
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Failure::graph(error)
    }
}
