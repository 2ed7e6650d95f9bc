//! Lists of diagnostics.

use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use super::render::{Look, render};
use super::sources::{FileId, Sources, Span};

/// The maximum number of errors, and of warnings, that are kept. Further ones are only counted.
pub const MAX_SHOWN: usize = 50;

/// A list of diagnostics. Front-end passes add to it and continue.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    n_errors: usize,
    n_warnings: usize,
    /// The latest diagnostic beyond the limit, so that its caller can still add remarks to it.
    spilled: Option<Box<Diagnostic>>,
}

impl Diagnostics {
    /// An empty list.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds an error. The caller can add remarks and help to the result.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::error(code, message).at(span, ""))
    }

    /// Adds a warning. The caller can add remarks and help to the result.
    pub fn warning(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::warning(code, message).at(span, ""))
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.n_errors,
            Severity::Warning => &mut self.n_warnings,
        };
        *count += 1;
        if *count > MAX_SHOWN {
            return self.spilled.insert(Box::new(diagnostic));
        }
        let last = self.kept.len();
        self.kept.push(diagnostic);
        &mut self.kept[last]
    }

    /// Takes the kept warnings that match out of the list.
    pub fn dismiss_warnings(&mut self, matches: impl Fn(&Diagnostic) -> bool) {
        let n_kept = self.kept.len();
        self.kept.retain(|diagnostic| diagnostic.severity != Severity::Warning || !matches(diagnostic));
        self.n_warnings -= n_kept - self.kept.len();
    }

    /// Whether the list has an error, so that the pipeline cannot run.
    pub fn has_errors(&self) -> bool {
        self.n_errors > 0
    }

    /// Number of errors, shown or not.
    pub fn n_errors(&self) -> usize {
        self.n_errors
    }

    /// Number of warnings, shown or not.
    pub fn n_warnings(&self) -> usize {
        self.n_warnings
    }

    /// Whether further errors are only counted. Callers then skip the search for a good hint.
    pub fn is_full(&self) -> bool {
        self.n_errors >= MAX_SHOWN
    }

    /// The kept diagnostics, sorted by place.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<_> = self.kept.iter().collect();
        sorted.sort_by_key(|diagnostic| diagnostic.place());
        sorted
    }

    /// The text for the user: each diagnostic with its source lines, sorted by place, then the number of further ones.
    pub fn render(&self, sources: &Sources, look: Look) -> String {
        let shown: Vec<_> =
            self.sorted().into_iter().map(|diagnostic| render(sources, diagnostic, look)).collect();
        let mut text = shown.join("\n");
        for (n, noun) in [(self.n_errors, "error"), (self.n_warnings, "warning")] {
            if let Some(more @ 1..) = n.checked_sub(MAX_SHOWN) {
                let plural = if more == 1 { "" } else { "s" };
                text += &format!("\n… and {more} more {noun}{plural}\n");
            }
        }
        text
    }
}

impl Sources {
    /// Adds the bytes of a file. Bytes that are not UTF-8 are reported ([`Code::E0001`]) and replaced.
    pub fn add_bytes(&mut self, name: impl Into<String>, bytes: Vec<u8>, diags: &mut Diagnostics) -> FileId {
        let fault = match String::from_utf8(bytes) {
            Ok(text) => return self.add(name, text),
            Err(fault) => fault,
        };
        let at = fault.utf8_error().valid_up_to();
        let file = self.add(name, String::from_utf8_lossy(fault.as_bytes()));
        diags
            .error(Code::E0001, Span::new(file, at, at), "the file is not UTF-8 text")
            .here(format!("byte {at} starts no character"))
            .help("save the file in UTF-8");
        file
    }
}
