//! One error or warning.

use super::code::Code;
use super::sources::Span;

/// Whether a diagnostic keeps the pipeline from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The pipeline cannot run.
    Error,
    /// The pipeline runs, but probably not as meant.
    Warning,
}

/// One error or warning with its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of fault.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The fact: lower case, no full stop.
    pub message: String,
    /// Places with a remark each. The first is the main place.
    pub labels: Vec<(Span, String)>,
    /// One concrete fix.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place yet.
    pub fn error(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, severity: Severity::Error, message: message.into(), labels: vec![], help: None }
    }

    /// A warning without a place yet.
    pub fn warning(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message) }
    }

    /// Adds a place with a remark. The first place is the main place.
    pub fn at(mut self, span: Span, remark: impl Into<String>) -> Diagnostic {
        self.also(span, remark);
        self
    }

    /// Sets the remark at the main place.
    pub fn here(&mut self, remark: impl Into<String>) -> &mut Diagnostic {
        if let Some((_, text)) = self.labels.first_mut() {
            *text = remark.into();
        }
        self
    }

    /// Adds one more place with a remark.
    pub fn also(&mut self, span: Span, remark: impl Into<String>) -> &mut Diagnostic {
        self.labels.push((span, remark.into()));
        self
    }

    /// Sets the help: one concrete fix.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// The main place, by which diagnostics are sorted. Diagnostics without a place come first.
    pub(super) fn place(&self) -> Option<Span> {
        self.labels.first().map(|(span, _)| *span)
    }
}
