//! Output files of commands. They replace no other files unless `--force` is given.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use engine_core::diag::{Code, Diagnostic, Sources};
use engine_runtime::checkpoint::ARCHIVE;
use engine_runtime::data::results::ARRAY as NPY;
use engine_runtime::files::{self, Format, Overwrite, Refusal, Target, starts_with};
use engine_runtime::session::Fault;

use super::output::Failure;

/// The first bytes of a report page.
pub(super) const PAGE_START: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"engine\">";
const REPORT_START: &str = "{\n  \"graph\": \"";
const IMPORTED_START: &str = "// Imported by `engine import` ";
const TRACE_START: &str = "{\"traceEvents\":[{\"name\":\"process_name\"";

pub(super) const PAGE: Format =
    Format { name: "a report", is_own: |file| starts_with(file, PAGE_START.as_bytes()), into_special: true };
pub(super) const REPORT: Format = Format {
    name: "a report",
    is_own: |file| starts_with(file, REPORT_START.as_bytes()),
    into_special: true,
};
pub(super) const TRACE: Format =
    Format { name: "a trace", is_own: |file| starts_with(file, TRACE_START.as_bytes()), into_special: true };
/// The format of imported graphs.
pub(super) const GRAPH: Format = Format {
    name: "an imported graph",
    is_own: |file| starts_with(file, IMPORTED_START.as_bytes()),
    into_special: true,
};
/// The format of exported models.
pub(super) const MODEL: Format = Format {
    name: "an exported model",
    is_own: |file| starts_with(file, engine_onnx::EXPORTED_START),
    into_special: true,
};
/// The format of dumped arrays.
pub(super) const ARRAY: Format = Format { into_special: false, ..NPY };
/// Archives of results.
const NPZ: Format = Format { into_special: true, ..ARCHIVE };
/// Tables of results. CSV has no mark of its writer, so any file called `.csv` is replaced.
const CSV: Format = Format { name: "a .csv file", is_own: |_| Ok(true), into_special: true };
/// Tables of results under another name, which may be that of notes or of a graph.
const TABLE: Format = Format { name: "a .csv file", is_own: |_| Ok(false), into_special: true };

/// The format of results, by the extension of their file.
pub(super) fn results_format(path: &Path) -> &'static Format {
    match path.extension().and_then(OsStr::to_str) {
        Some("npz") => &NPZ,
        Some("npy") => &NPY,
        Some(extension) if extension.eq_ignore_ascii_case("csv") => &CSV,
        _ => &TABLE,
    }
}

/// Fails unless a file for the end of the command could be written now. Its folder must exist. A device or a pipe is
/// opened, and stays open until the result is dropped.
pub(super) fn expect_writable(
    path: &Path,
    format: &Format,
    overwrite: Overwrite,
) -> Result<Option<File>, Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        let message = format!("there is no folder {}", folder.display());
        return Err(Failure::unwritable(path, &io::Error::new(io::ErrorKind::NotFound, message)));
    }
    let probed = Target::new(path, format, overwrite).and_then(|target| {
        target.probe()?;
        target.hold()
    });
    probed.map_err(|refusal| refused(path, &refusal))
}

/// Fails unless a file could be written now. Its folder may be missing.
pub(super) fn expect_room(path: &Path, format: &Format, overwrite: Overwrite) -> Result<(), Failure> {
    let probed = Target::new(path, format, overwrite).and_then(|target| target.probe());
    probed.map_err(|refusal| refused(path, &refusal))
}

fn refused(path: &Path, refusal: &Refusal) -> Failure {
    let mut diagnostic = Diagnostic::error(Code::E0505, format!("{} {refusal}", path.display()));
    diagnostic.help(refusal.help());
    let fault = if refusal.is_of_machine() { Fault::Machine } else { Fault::Graph };
    Failure::diagnostic(fault, diagnostic, &Sources::new())
}

/// Writes a file as a whole.
pub(super) fn write(
    path: &Path,
    (format, overwrite): (&Format, Overwrite),
    content: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let target = Target::new(path, format, overwrite).map_err(|refusal| refused(path, &refusal))?;
    files::write(&target, content).map_err(|fault| Failure::unwritable(path, &fault.into_error()))
}

/// Fails if a file of results would replace one of its sources.
pub(super) fn expect_other(path: &Path, sources: &[&Path]) -> Result<(), Failure> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let Some(found) = real(path) else { return Ok(()) };
    match sources.iter().find(|source| real(source).as_ref() == Some(&found)) {
        None => Ok(()),
        Some(source) => {
            Err(taken(format!("{} would replace {}, which it is made of", path.display(), source.display())))
        }
    }
}

/// The failure of results that would replace a data file.
pub(super) fn of_data(path: &Path, data: &str) -> Failure {
    taken(format!("{} would replace a file of data `{data}`", path.display()))
}

/// The failure of a folder for a log that has a file in the way.
pub(super) fn log_in_the_way(path: &Path, fact: &str, help: &str) -> Failure {
    let mut diagnostic = Diagnostic::error(Code::E0505, format!("{} {fact}", path.display()));
    diagnostic.help(help);
    Failure::diagnostic(Fault::Graph, diagnostic, &Sources::new())
}

fn taken(message: String) -> Failure {
    let mut diagnostic = Diagnostic::error(Code::E0505, message);
    diagnostic.help("choose another path");
    Failure::diagnostic(Fault::Graph, diagnostic, &Sources::new())
}
