//! The interface of data sources.

use super::context::LoadContext;
use super::error::DataError;
use super::set::DataSet;

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
    /// Reads, downloads or generates the data.
    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError>;
}
