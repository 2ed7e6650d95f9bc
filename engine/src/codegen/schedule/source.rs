//! Matrices whose elements are computed where they are read, as a part of a schedule.

use crate::fusion::{FusedBody, Reg, Source};

/// The source of a matrix: a body, and the register of an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceForm {
    /// Runs at each element.
    pub body: FusedBody,
    /// The register that holds it.
    pub value: Reg,
}

impl From<&Source> for SourceForm {
    fn from(source: &Source) -> SourceForm {
        SourceForm { body: source.body.clone(), value: source.value }
    }
}
