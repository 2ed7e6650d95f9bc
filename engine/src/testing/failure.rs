//! The failure of a test of a form.

use std::fmt;

/// A difference between an op's form and the oracle.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The op.
    pub op: String,
    /// Title of the example.
    pub example: String,
    /// The fault: lower case, no full stop.
    pub message: String,
}

/// Prints as ``softmax, "of one row": y[2] is 0.5 instead of 0.25``.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}: {}", self.op, self.example, self.message)
    }
}
/// Prints like `Display`, so that a failed assertion is readable.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
