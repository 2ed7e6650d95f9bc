//! Data sets in memory.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use super::DataError;
use crate::data::field::Field;
use crate::data::forms::FieldNames;
use crate::data::tokenizer::Tokenizer;
use crate::tensor::HostTensor;

/// Rows for training and evaluation, with their provenance.
#[derive(Clone, Debug)]
pub struct DataSet {
    /// The name of the loaded set, which may stand in for the requested one.
    pub name: String,
    /// The provenance of its rows.
    pub provenance: Provenance,
    /// A note for the user, such as the reason for a stand-in.
    pub note: Option<String>,
    /// The parts of the set by name, such as `train` and `test`.
    pub splits: IndexMap<String, Split>,
    /// The names of columns and classes by field, if the source knows them.
    pub names: IndexMap<String, FieldNames>,
    /// Splits to which options of the pipeline give no rows, such as `test: 0.0`.
    pub empty_splits: Vec<String>,
    /// What made tokens of its texts; absent if the set has no texts.
    pub tokenizer: Option<Arc<Tokenizer>>,
}

impl DataSet {
    /// A set without rows.
    pub fn new(name: impl Into<String>, provenance: Provenance) -> DataSet {
        let (splits, names, empty_splits) = (IndexMap::new(), IndexMap::new(), vec![]);
        DataSet { name: name.into(), provenance, note: None, splits, names, empty_splits, tokenizer: None }
    }

    /// Whether the program made the rows itself, so that results on them say nothing about the real task.
    pub fn is_synthetic(&self) -> bool {
        matches!(self.provenance, Provenance::Synthetic | Provenance::StandIn { .. })
    }

    /// The set that these generated rows stand in for, if there is one.
    pub fn stands_in_for(&self) -> Option<&str> {
        match &self.provenance {
            Provenance::StandIn { wanted } => Some(wanted),
            _ => None,
        }
    }

    /// Adds a remark to the note for the user.
    pub fn add_note(&mut self, note: String) {
        self.note = Some(self.note.take().map_or(note.clone(), |known| format!("{known}; {note}")));
    }

    /// The split of that name.
    pub fn split(&self, name: &str) -> Result<&Split, DataError> {
        self.splits.get(name).ok_or_else(|| DataError::UnknownSplit {
            set: self.name.clone(),
            name: name.to_string(),
            is_empty: self.empty_splits.iter().any(|empty| empty == name),
            known: self.splits.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }
}

/// The provenance of the rows of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Files found on disk.
    Files {
        /// Their folder.
        dir: PathBuf,
    },
    /// Generated, as requested.
    Synthetic,
    /// Generated in place of a missing set.
    StandIn {
        /// The requested set or file.
        wanted: String,
    },
    /// Given by the program that the engine is part of.
    Memory,
    /// Files fetched just now, with their checksums verified.
    Downloaded {
        /// The folder that they were put in.
        dir: PathBuf,
    },
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provenance::Files { dir } => write!(f, "files in {}", dir.display()),
            Provenance::Synthetic => f.write_str("synthetic"),
            Provenance::StandIn { wanted } => write!(f, "synthetic, in place of `{wanted}`"),
            Provenance::Memory => f.write_str("in memory"),
            Provenance::Downloaded { dir } => write!(f, "downloaded to {}", dir.display()),
        }
    }
}

/// Fields with the same number of rows, the outermost extent of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    fields: IndexMap<String, Field>,
    n_rows: usize,
}

impl Split {
    /// A split of the given fields; fails unless there is one at least and all have the same number of rows.
    pub fn new<F: Into<Field>>(fields: IndexMap<String, F>) -> Result<Self, DataError> {
        let fields: IndexMap<String, Field> =
            fields.into_iter().map(|(name, field)| (name, field.into())).collect();
        let n_rows = fields.first().and_then(|(_, field)| field.n_rows()).ok_or(DataError::NoRows)?;
        for (name, field) in &fields {
            let found = field.n_rows();
            if found != Some(n_rows) {
                return Err(DataError::UnevenFields { field: name.clone(), expected: n_rows, found });
            }
        }
        Ok(Split { fields, n_rows })
    }

    /// A split out of rows, each with one tensor for every field; equal fields of all rows have the same type.
    ///
    /// # Errors
    /// If there is no row, or a tensor is of another type than that of the first row.
    pub fn from_rows<const N: usize>(
        fields: [&str; N],
        rows: impl IntoIterator<Item = [HostTensor; N]>,
    ) -> Result<Self, DataError> {
        let mut rows = rows.into_iter();
        let first = rows.next().ok_or(DataError::NoRows)?;
        let mut bytes = [(); N].map(|()| vec![]);
        let mut n_rows = 0;
        for row in std::iter::once(first.clone()).chain(rows) {
            for (i, tensor) in row.iter().enumerate() {
                if (tensor.dtype(), tensor.shape()) != (first[i].dtype(), first[i].shape()) {
                    let (field, row) = (fields[i].to_string(), n_rows);
                    let (expected, found) = (format!("{:?}", first[i]), format!("{tensor:?}"));
                    return Err(DataError::UnevenRow { field, row, expected, found });
                }
                bytes[i].extend_from_slice(tensor.bytes());
            }
            n_rows += 1;
        }
        let field = |i: usize| {
            let shape: Vec<usize> = [&[n_rows], first[i].shape()].concat();
            Ok((fields[i].to_string(), HostTensor::from_bytes(first[i].dtype(), &shape, &bytes[i])?))
        };
        Split::new((0..N).map(field).collect::<Result<IndexMap<String, HostTensor>, DataError>>()?)
    }

    /// Some of the rows, in ascending order, and those that are `taken` from them: field by field, so that few rows are in
    /// memory twice.
    ///
    /// # Errors
    /// If there is no memory for those that are taken.
    pub(super) fn divided(self, kept: &[usize], taken: &[usize]) -> Result<[Self; 2], DataError> {
        let mut fields = [IndexMap::<String, Field>::new(), IndexMap::new()];
        for (name, field) in self.fields {
            let [kept, taken] = field.divided(kept, taken)?;
            fields[1].insert(name.clone(), taken);
            fields[0].insert(name, kept);
        }
        let [kept, taken] = fields.map(Split::new);
        Ok([kept?, taken?])
    }

    /// How many rows every field has.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The rows of the field of that name in one tensor, which is shared if it lies in memory.
    ///
    /// # Errors
    /// If there is no such field, or no memory for lazy rows.
    pub fn tensor(&self, name: &str) -> Result<HostTensor, DataError> {
        Ok(self.field(name)?.tensor()?)
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Result<&Field, DataError> {
        self.fields.get(name).ok_or_else(|| DataError::UnknownField {
            name: name.to_string(),
            known: self.fields.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    /// Every field by name, in order of declaration.
    pub fn fields(&self) -> &IndexMap<String, Field> {
        &self.fields
    }
}
