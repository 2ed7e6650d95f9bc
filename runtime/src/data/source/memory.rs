//! The source of data sets in a program's own memory.

use indexmap::IndexMap;

use super::{DataError, DataSet, FieldNames, LoadContext, Provenance, Source, Split};

/// A source of sets in memory, for programs that use the engine as a library:
///
/// ```
/// # use engine_runtime::data::source::{InMemory, Split};
/// # use engine_runtime::tensor::HostTensor;
/// let rows = (0..100).map(|i| [HostTensor::scalar(i as f32), HostTensor::scalar(2.0 * i as f32)]);
/// let source = InMemory::new("line").split("train", Split::from_rows(["x", "y"], rows)?);
/// # Ok::<(), engine_runtime::data::source::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct InMemory {
    name: String,
    splits: IndexMap<String, Split>,
    names: IndexMap<String, FieldNames>,
}

impl InMemory {
    /// A source without rows, of the name that pipelines call it by.
    pub fn new(name: impl Into<String>) -> Self {
        InMemory { name: name.into(), splits: IndexMap::new(), names: IndexMap::new() }
    }

    /// Adds a split, or replaces the one of that name.
    pub fn split(mut self, name: impl Into<String>, rows: Split) -> Self {
        self.splits.insert(name.into(), rows);
        self
    }

    /// Names the columns and classes of a field. Checkpoints store the names.
    pub fn names(mut self, field: impl Into<String>, names: FieldNames) -> Self {
        self.names.insert(field.into(), names);
        self
    }
}

impl Source for InMemory {
    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> &str {
        "rows that this program brings along"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[])?;
        let (name, splits) = (self.name.clone(), self.splits.clone());
        Ok(DataSet { splits, names: self.names.clone(), ..DataSet::new(name, Provenance::Memory) })
    }
}
