//! Data sources whose rows are drawn from a known law, so that the best possible result is known, too: `houses`, a CSV
//! table with gaps and categories, and `choices`, items that users chose. They need no file.
//!
//! The rows depend on the seed, the split and the number of the row alone, and all machines draw equal rows.

mod choices;
mod draws;
mod houses;

pub use choices::Choices;
pub use houses::Houses;

use engine_runtime::data::source::{DataError, Sources};

/// Adds the sources.
///
/// # Errors
/// If one of their names is taken.
pub fn register(sources: &mut Sources) -> Result<(), DataError> {
    sources.register(Houses)?;
    sources.register(Choices)
}
