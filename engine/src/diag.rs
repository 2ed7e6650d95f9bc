//! Diagnostics: errors and warnings with places in source files.
//!
//! A [`Diagnostic`] is plain data. [`Diagnostics::render`] turns it into text: it escapes terminal commands and cuts
//! long texts. Messages are lower case without a full stop, use the file's own names, and give one concrete fix as
//! help.

pub mod legible;

mod code;
mod diagnostic;
mod list;
mod nearest;
mod render;
mod sources;

pub use code::Code;
pub use diagnostic::{Diagnostic, Severity};
pub use list::{Diagnostics, MAX_SHOWN};
pub use nearest::nearest;
pub use render::Look;
pub(crate) use sources::SourceFile;
pub use sources::{FileId, Sources, Span, Spanned};

#[cfg(test)]
mod tests;
