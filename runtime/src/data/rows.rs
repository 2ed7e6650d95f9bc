//! Rows of numbers from a text, in a declared element type.

use std::path::Path;

use engine_core::ir::DType;

use super::cells::{Cells, Missing, Place, Policy};
use super::csv::CsvRecords;
use super::dropped::Dropped;
use super::fault::{CellFault, TableError};
use super::forms::FieldNames;
use super::jsonl::JsonRecords;
use super::records::{Columns, ReadRecords, Record, Syntax, Text};
use crate::tensor::HostTensor;

/// Rows of a file.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The numbers.
    pub tensor: HostTensor,
    /// The columns, where the file is a text; none otherwise.
    pub columns: Columns,
    /// Remarks on how they were read.
    pub notes: Vec<String>,
}

/// How a text becomes rows of numbers.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The element type of the rows.
    pub dtype: DType,
    /// The syntax of the text.
    pub syntax: Syntax,
    /// The treatment of cells without a number.
    pub policy: Policy,
    /// The columns to take by their names, in this order, and their transformations; all columns if left out, or if it
    /// names none.
    pub names: Option<FieldNames>,
}

impl Default for Reading {
    fn default() -> Self {
        Reading { dtype: DType::F64, syntax: Syntax::default(), policy: Policy::default(), names: None }
    }
}

impl Reading {
    /// The columns to take by their names; empty for all.
    fn wanted(&self) -> &[String] {
        self.names.as_ref().map_or(&[], |names| &names.columns)
    }

    /// The transformations of the columns, if there are any.
    fn fitted(&self) -> Option<&FieldNames> {
        self.names.as_ref().filter(|names| !names.forms.is_empty())
    }
}

/// Opens a text in a syntax.
///
/// # Errors
/// If the text cannot be read, or its first row has a fault.
pub(super) fn open<'t>(text: Text<'t>, syntax: Syntax) -> Result<Box<dyn ReadRecords + 't>, TableError> {
    Ok(match syntax {
        Syntax::Csv { separator } => Box::new(CsvRecords::open(text, separator)?),
        Syntax::JsonLines => Box::new(JsonRecords::open(text)?),
    })
}

/// Reads numbers as `[rows, columns]`, or as `[rows]` the classes that a column names.
///
/// # Errors
/// If the text cannot be read, a cell has another type, a column is missing, or lines have unequal numbers of fields.
pub fn read_text(text: Text<'_>, reading: &Reading) -> Result<Rows, TableError> {
    let mut records = open(text, reading.syntax)?;
    let columns = records.columns().clone();
    let taken = match reading.wanted() {
        [] => (0..columns.n_columns).collect(),
        wanted => columns.select(text.path(), wanted)?,
    };
    let fitted = reading.fitted();
    if let Some(names) = fitted.filter(|_| columns.n_columns > 0) {
        expect_sources(text.path(), names, taken.len())?;
    }
    // Transformations take all digits, and mark missing cells.
    let dtype = fitted.filter(|names| !names.takes_names()).map_or(reading.dtype, |_| DType::F64);
    let mut cells = Cells::new(dtype, policy_of(reading));
    let (mut n_rows, mut dropped) = (0, Dropped::default());
    while let Some(record) = records.read_next()? {
        let policy = &reading.policy;
        if policy.missing == Missing::Drop && dropped.takes(missing(&record, &taken, policy)) {
            continue;
        }
        for &column in &taken {
            let place = Place { path: text.path(), line: record.line, column, name: columns.name(column) };
            let cell = &*record.fields[column];
            match fitted {
                Some(names) if names.takes_names() => {
                    cells.push(&place, &class_text(names, cell, &reading.policy, &place)?)?;
                }
                Some(names) if names.marks_gaps() => cells.push(&place, gap_text(cell, &reading.policy))?,
                _ => cells.push(&place, cell)?,
            }
        }
        n_rows += 1;
    }
    if n_rows == 0 && dropped.has_rows() {
        return Err(dropped.no_rows(text.path(), &columns));
    }
    let notes = dropped.note(text.path()).into_iter().chain(cells.rounded_note()).collect();
    let tensor = cells.tensor(&[n_rows, taken.len()])?;
    let tensor = fitted.map_or(Ok(tensor.clone()), |names| names.transformed(tensor, reading.dtype))?;
    Ok(Rows { tensor, columns, notes })
}

/// The policy of cells: gaps are NaN where a transformation fills or marks them.
fn policy_of(reading: &Reading) -> Policy {
    let takes_gaps = reading.fitted().is_some_and(FieldNames::takes_gaps);
    let missing = match reading.policy.missing {
        Missing::Fill | Missing::Indicate if takes_gaps => Missing::Nan,
        missing => missing,
    };
    Policy { missing, ..reading.policy }
}

/// Fails unless a file has as many columns as the transformations take.
fn expect_sources(path: &Path, names: &FieldNames, found: usize) -> Result<(), TableError> {
    match names.n_sources() {
        Some(expected) if expected != found => {
            Err(TableError::WrongColumns { path: path.to_path_buf(), expected, found })
        }
        _ => Ok(()),
    }
}

/// The rows of an array after the transformations. Numbers of classes are taken as they are.
///
/// # Errors
/// If a row has another number of elements than the transformations take.
pub(super) fn transformed(
    path: &Path,
    array: HostTensor,
    reading: &Reading,
) -> Result<HostTensor, TableError> {
    let Some(names) = reading.fitted().filter(|names| !names.takes_names()) else { return Ok(array) };
    let (n_rows, n_columns) = (array.shape().first().copied(), array.shape().iter().skip(1).product());
    expect_sources(path, names, n_columns)?;
    Ok(names.transformed(array.reshaped(&[n_rows.unwrap_or(1), n_columns])?, reading.dtype)?)
}

/// Those of the columns whose cells a row lacks.
pub(super) fn missing(
    record: &Record<'_>,
    columns: &[usize],
    policy: &Policy,
) -> impl Iterator<Item = usize> {
    columns.iter().copied().filter(|&column| policy.is_missing(&record.fields[column]))
}

/// A number where a cell has any content, else none.
pub(super) fn gap_text(cell: &str, policy: &Policy) -> &'static str {
    if policy.is_missing(cell) { "" } else { "0" }
}

/// The number of the class that a cell names.
///
/// # Errors
/// If the training rows have no such name, or the cell is missing and is not filled.
pub(super) fn class_text(
    names: &FieldNames,
    cell: &str,
    policy: &Policy,
    place: &Place<'_>,
) -> Result<String, TableError> {
    let is_missing = policy.is_missing(cell);
    match names.class_of(cell, is_missing) {
        Some(class) => Ok(class.to_string()),
        None if is_missing => Err(place.fault(CellFault::Missing(cell.to_string()))),
        None => Err(place.fault(CellFault::unknown(cell, names.n_classes()))),
    }
}
