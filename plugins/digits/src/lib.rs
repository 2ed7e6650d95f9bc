//! Data sources of 28×28 images in ten classes: `mnist`, `fashion-mnist`, and `synthetic-digits`, which needs no file and
//! stands in for the others.

mod drawing;
mod idx_sets;
mod synthetic;
#[cfg(test)]
mod tests;

pub use drawing::{DEFAULT_SEED, Drawn, N_CLASSES, N_TEST, N_TRAIN, Part, SIDE, draw};
pub use idx_sets::{FASHION_MNIST, IdxSet, MNIST};
pub use synthetic::SyntheticDigits;

use engine_runtime::data::source::{DataError, Sources};

/// Adds the sources.
///
/// # Errors
/// If one of their names is taken.
pub fn register(sources: &mut Sources) -> Result<(), DataError> {
    sources.register(MNIST)?;
    sources.register(FASHION_MNIST)?;
    sources.register(SyntheticDigits)
}
