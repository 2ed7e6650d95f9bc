//! The front end: from the bytes of a file to a checked pipeline.
//!
//! **Invariant:** only [`load`] and the modules below it know graphs and ops. The RON reader and the grammar of
//! expressions ([`text`](crate::text)) only make trees with a place at every value.
//!
//! Reading goes on after an error. Every function returns the readable parts and reports the rest to
//! [`Diagnostics`](crate::diag::Diagnostics), so one run shows all errors of a file. No input makes the front end panic,
//! recurse deeper than a fixed limit, or take more than linear time.

mod fields;
mod pipeline;
mod ron;

pub use fields::{Fields, entries};
pub use pipeline::{
    Draft, Feeds, LibraryText, StageFields, StageForm, StageReader, add_library, add_sound_library,
    dims_of_values, fixed_extents, given_text, layers, library_text, load, settings,
};
pub use ron::{MAX_DEPTH, Ron, RonKind, parse_ron};
