//! Why operands and attributes do not fit an op.

use crate::diag::Diagnostic;

/// Why operands do not fit an op. The caller adds the place.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeIssue {
    /// The fault: lower case, no full stop, with the types.
    pub message: String,
    /// The operand at fault, and the remark at its place.
    pub operand: Option<(usize, String)>,
    /// The setting at fault.
    pub setting: Option<Box<str>>,
    /// One concrete fix.
    pub help: Option<String>,
    /// The fault within a function that the op calls, with the calls that lead to it from there.
    pub inside: Option<Box<Diagnostic>>,
}

impl TypeIssue {
    /// An issue of the call as a whole.
    pub fn new(message: impl Into<String>) -> TypeIssue {
        TypeIssue { message: message.into(), operand: None, setting: None, help: None, inside: None }
    }

    /// Sets the operand at fault.
    pub fn at(mut self, operand: usize, note: impl Into<String>) -> TypeIssue {
        self.operand = Some((operand, note.into()));
        self
    }

    /// Sets the setting at fault.
    pub fn at_setting(mut self, name: &str) -> TypeIssue {
        self.setting = Some(name.into());
        self
    }

    /// Sets the help.
    pub fn help(mut self, help: impl Into<String>) -> TypeIssue {
        self.help = Some(help.into());
        self
    }
}
