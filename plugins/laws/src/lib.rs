//! Data sources whose rows are drawn from a known law. The best possible result is known, too, for `houses`, a CSV table
//! with gaps and categories, and for `choices`, items that users chose. `mixture` has vectors to search. They need no file.
//!
//! The rows depend on the seed, the split and the number of the row alone, and all machines draw equal rows.

mod choices;
mod draws;
mod houses;
mod mixture;

pub use choices::Choices;
pub use houses::Houses;
pub use mixture::Mixture;

use engine_runtime::data::source::{DataError, Sources};

/// Adds the sources.
///
/// # Errors
/// If one of their names is taken.
pub fn register(sources: &mut Sources) -> Result<(), DataError> {
    sources.register(Houses)?;
    sources.register(Choices)?;
    sources.register(Mixture)
}
