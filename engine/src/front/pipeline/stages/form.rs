//! The form of a stage kind.

use super::reader::StageReader;
use crate::front::Ron;
use crate::pipeline::StageKind;

/// How stages of one kind are read.
pub struct StageForm {
    /// The first word of such a stage: `Train`.
    pub keyword: &'static str,
    /// One sentence for listings.
    pub summary: &'static str,
    /// Reads a stage, the keyword included.
    pub read: fn(&mut StageReader<'_>, &Ron) -> Option<Box<dyn StageKind>>,
}
