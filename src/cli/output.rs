//! Output and failures. Results go to the standard output, everything else to the standard error.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use engine_core::diag::legible::{MOST_BYTES, legible, message};
use engine_core::diag::{Code, Diagnostic, Diagnostics, Look, Sources};
use engine_runtime::data::source::DataError;
use engine_runtime::data::table::TableError;
use engine_runtime::device::DeviceError;
use engine_runtime::diagnostic::Coded;
use engine_runtime::session::{Fault, SessionError};

use crate::devices::OpenError;

/// The first failure to print a result.
static UNPRINTED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a result.
pub(super) fn print(text: impl fmt::Display) {
    show(|out| writeln!(out, "{}", legible(&text.to_string())));
}

/// Prints a part of a text on the standard output, which shows it at once.
pub(super) fn print_part(text: &str) {
    show(|out| write!(out, "{}", legible(text)));
}

/// Writes results to the standard output. A failure is reported at the end of the command.
pub(super) fn show(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut out = io::stdout().lock();
    if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
        UNPRINTED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Fails if a result could not be printed.
pub(super) fn expect_printed() -> Result<(), Failure> {
    printed(UNPRINTED.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err))
}

/// Fails if printing failed, unless the reader closed the pipe.
pub(super) fn printed(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::unwritable(Path::new("the standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Prints rendered diagnostics.
pub(super) fn complain(text: &str) {
    drop(writeln!(io::stderr(), "{}", text.trim_end()));
}

/// Prints a remark, which is neither result nor error.
pub(super) fn remark(text: impl fmt::Display) {
    drop(writeln!(io::stderr(), "{}", message(&text.to_string(), MOST_BYTES)));
}

/// The failure of a command.
#[derive(Debug)]
pub(super) struct Failure {
    fault: Fault,
    /// The text to print.
    pub(super) text: String,
    /// The fault of a device, if another device might do the work.
    pub(super) of_device: Option<String>,
}

impl Failure {
    /// A failure that has no diagnostic.
    fn new(fault: Fault, text: &str) -> Self {
        Failure { fault, text: message(text, MOST_BYTES), of_device: None }
    }

    /// A failure with a rendered text.
    fn rendered(fault: Fault, text: String) -> Self {
        Failure { fault, text, of_device: None }
    }

    /// A fault of the graph or its data.
    pub(super) fn graph(text: impl fmt::Display) -> Self {
        Failure::new(Fault::Graph, &format!("error: {text}"))
    }

    /// A fault of the machine.
    pub(super) fn machine(text: impl fmt::Display) -> Self {
        Failure::new(Fault::Machine, &format!("error: {text}"))
    }

    /// Rendered diagnostics.
    pub(super) fn diagnostics(text: String) -> Self {
        Failure::rendered(Fault::Graph, text)
    }

    /// One diagnostic about these texts.
    pub(super) fn diagnostic(fault: Fault, diagnostic: Diagnostic, sources: &Sources) -> Self {
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(diagnostic);
        Failure::rendered(fault, render(&diagnostics, sources))
    }

    /// An error without a place in a text.
    pub(super) fn coded(fault: Fault, error: &dyn Coded) -> Self {
        match error.diagnostic() {
            Some(diagnostic) => Failure::diagnostic(fault, diagnostic, &Sources::new()),
            None => Failure::new(fault, &format!("error: {error}")),
        }
    }

    /// A file cannot be written.
    pub(super) fn unwritable(path: &Path, error: &io::Error) -> Self {
        let message = format!("{} cannot be written: {error}", path.display());
        let mut diagnostic = Diagnostic::error(Code::E0505, message);
        diagnostic.help("make room or choose another path");
        Failure::diagnostic(Fault::Machine, diagnostic, &Sources::new())
    }

    /// Adds the device fault of this error, which caused the failure.
    pub(super) fn by(self, error: &SessionError) -> Self {
        Failure { of_device: error.is_of_device().then(|| error.to_string()), ..self }
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
        let failure = match error.fault() {
            Fault::Interrupt => Failure::new(Fault::Interrupt, &error.to_string()),
            fault => Failure::coded(fault, &error),
        };
        failure.by(&error)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        SessionError::from(error).into()
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Failure::coded(Fault::Graph, &error)
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        Failure::coded(Fault::Graph, &error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Failure::coded(Fault::Machine, &error)
    }
}

/// Diagnostics as text, coloured on a terminal.
pub(super) fn render(diagnostics: &Diagnostics, sources: &Sources) -> String {
    let look = if io::stderr().is_terminal() { Look::Coloured } else { Look::Plain };
    diagnostics.render(sources, look)
}
