//! The front end: from the bytes of a file to a checked pipeline.
//!
//! **Invariant:** only [`load`] and what is below it know of graphs and ops; the RON reader and the grammar of
//! expressions ([`text`](crate::text)) make trees with a place at every value, and nothing else.
//!
//! Reading never fails: every function returns what it could make out and reports the rest to
//! [`Diagnostics`](crate::diag::Diagnostics), so that one run shows all errors of a file. Nothing here panics on any
//! input, recurses deeper than a fixed limit, or takes more than linear time.

mod fields;
mod pipeline;
mod ron;

pub use fields::{Fields, entries};
pub use pipeline::{Feeds, StageFields, StageForm, StageReader, define, given_text, load};
pub use ron::{MAX_DEPTH, Ron, RonKind, parse_ron};
