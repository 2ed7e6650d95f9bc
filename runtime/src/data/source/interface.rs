//! The interface of data sources.

use super::context::LoadContext;
use super::error::DataError;
use super::set::DataSet;
use crate::data::rows::Reading;

/// A source of data sets. Programs register more in [`Sources`](super::Sources).
pub trait Source: Send + Sync {
    /// The name that pipelines use, such as `mnist`.
    fn name(&self) -> &str;
    /// One sentence for listings.
    fn summary(&self) -> &str;
    /// Whether the source makes the split of the option `validation` itself. Otherwise its rows are picked from `train` at
    /// random, which rows that overlap forbid.
    fn divides(&self) -> bool {
        false
    }
    /// How new rows for its fields are read from a text, given the options of the pipeline.
    ///
    /// # Errors
    /// If one of these options is not understood.
    fn reading(&self, _context: &LoadContext) -> Result<Reading, DataError> {
        Ok(Reading::default())
    }
    /// Reads, downloads or generates the data.
    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError>;
}
