//! Diagnostics: places in source files and what to say about them.

/// A file of the sources.
pub type FileId = u32;

/// A range of bytes in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}
