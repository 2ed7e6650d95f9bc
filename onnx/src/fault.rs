//! Why a model cannot be imported.

use engine_core::diag::{Code, Diagnostic};

/// A file that is no sound ONNX model.
pub(crate) fn broken(message: impl Into<String>, help: &str) -> Diagnostic {
    of(Code::E0507, message, help)
}

/// A part of ONNX that has no translation.
pub(crate) fn unsupported(message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    of(Code::E0508, message, help)
}

fn of(code: Code, message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(code, message);
    diagnostic.help(help);
    diagnostic
}

/// A message that cannot be decoded.
pub(crate) fn malformed(what: &str, error: &prost::DecodeError) -> Diagnostic {
    broken(format!("{what} is malformed: {error}"), "the file is damaged, or no ONNX model")
}
