//! The sources `csv` and `jsonl`: tables with a column to predict.
//!
//! Statistics and classes come from the training rows alone, after those of `validation` were taken out. The
//! transformations go into the names of the set, and so into checkpoints.

mod column;
mod format;
mod table;
mod texts;

use std::path::Path;

use engine_core::ir::DType;
use indexmap::IndexMap;

use column::{Fitted, Training};
use format::{FILE, Format, OPTIONS};
use table::Table;

use super::files::{SPLITS, empty_set, expect, split_names};
use super::validation;
use super::{DataError, DataSet, LoadContext, Provenance, Source, Split};
use crate::data::fault::TableError;
use crate::data::field::Field;
use crate::data::forms::{FieldNames, fitted};
use crate::data::records::Text;
use crate::data::rows::Reading;
use crate::tensor::HostTensor;

/// The field `features`, `[rows, columns]`, the field `label`, if a column is named as such, and a field for every other
/// column that an input of the pipeline names, `[rows]`, or `[rows, elements]` for an array.
pub(super) struct Tables {
    name: &'static str,
    summary: &'static str,
    is_csv: bool,
}

/// Tables of comma-separated values.
pub(super) const CSV: Tables = Tables {
    name: "csv",
    summary: "the table of a CSV `file`: the column `label`, columns that inputs name, and all others as `features`",
    is_csv: true,
};

/// Tables of JSON objects.
pub(super) const JSONL: Tables = Tables {
    name: "jsonl",
    summary: "as `csv`, of a `file` with a JSON object on each line; a column is a path such as `user.age`",
    is_csv: false,
};

impl Source for Tables {
    fn name(&self) -> &str {
        self.name
    }

    fn summary(&self) -> &str {
        self.summary
    }

    fn divides(&self) -> bool {
        true
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[&[FILE, SPLITS], self.options()].concat())?;
        let Some(file) = context.text(FILE)? else {
            return Err(DataError::BadOption {
                name: FILE.to_string(),
                expected: "the name of a file".to_string(),
                found: "left out".to_string(),
            });
        };
        let format = Format::new(context, self.is_csv)?;
        let mut tables: IndexMap<String, Table> = IndexMap::new();
        for split in split_names(context, &[(FILE, file)])? {
            let path = expect(context, file, &split)?;
            let table = Table::read(Text::File(&path), &format, tables.values().next())?;
            tables.insert(split, table);
        }
        let Some(first) = tables.values().next() else { return Err(DataError::NoRows) };
        let set = empty_set(self.name, &first.path);
        filled(set, tables, &format)
    }

    fn reading(&self, context: &LoadContext) -> Result<Reading, DataError> {
        Ok(Format::new(context, self.is_csv)?.reading())
    }
}

impl Tables {
    fn options(&self) -> &'static [&'static str] {
        // The separator is the last one.
        if self.is_csv { &OPTIONS } else { &OPTIONS[..OPTIONS.len() - 1] }
    }
}

/// A table that a program writes itself, as CSV: a text for each split. It has the options of `csv`, except those of files.
/// [`Source::divides`] must be true of its source.
///
/// # Errors
/// As for the source `csv`, and for an option that is neither one of its own nor in `options`.
pub fn table_of_texts(
    name: &str,
    texts: &IndexMap<String, String>,
    options: &[&str],
    context: &LoadContext,
) -> Result<DataSet, DataError> {
    context.check_options(&[options, CSV.options()].concat())?;
    let format = Format::new(context, true)?;
    let mut tables: IndexMap<String, Table> = IndexMap::new();
    for (split, text) in texts {
        let path = Path::new(name).join(format!("{split}.csv"));
        let table = Table::read(Text::Memory(&path, text), &format, tables.values().next())?;
        tables.insert(split.clone(), table);
    }
    filled(DataSet::new(name, Provenance::Synthetic), tables, &format)
}

/// How new rows are read for a [`table_of_texts`].
///
/// # Errors
/// If an option is not understood.
pub fn reading_of_table(context: &LoadContext) -> Result<Reading, DataError> {
    CSV.reading(context)
}

const TRAIN: &str = "train";

/// Fields by split.
type Splits = IndexMap<String, IndexMap<String, Field>>;

/// The set with the rows of these tables, and their names.
fn filled(
    mut set: DataSet,
    mut tables: IndexMap<String, Table>,
    format: &Format,
) -> Result<DataSet, DataError> {
    let Some(place) = tables.get_index_of(TRAIN).or((!tables.is_empty()).then_some(0)) else {
        return Err(DataError::NoRows);
    };
    let training = &tables[place];
    let is_taken = format.validation.map(|share| validation::taken(training.n_rows, share)).transpose()?;
    let is_training = |row: usize| is_taken.as_ref().is_none_or(|is_taken| !is_taken[row]);
    for table in tables.values() {
        expect_columns(table, training, &set.name)?;
        table.notes().iter().for_each(|note| set.add_note(note.clone()));
    }
    let mut splits: Splits = tables.keys().map(|split| (split.clone(), IndexMap::new())).collect();
    let own: Vec<String> = training.own.iter().map(|own| own.field.clone()).collect();
    for field in own {
        let of_training = Training { table: &tables[place], is_training: &is_training };
        let fitted = Fitted::of(&tables, &field, format, &of_training)?;
        for (split, table) in &tables {
            let (tensor, note) = fitted.tensor(table, &field, format)?;
            note.into_iter().for_each(|note| set.add_note(note));
            splits[split].insert(field.clone(), tensor.into());
        }
        set.names.insert(field, fitted.names);
    }
    let fields: Vec<String> = tables[place].matrices.iter().map(|matrix| matrix.field.clone()).collect();
    for (order, field) in fields.into_iter().enumerate() {
        let names = matrix(&field, &mut tables, (place, &is_training), (format, order, &mut splits))?;
        set.names.shift_insert(order, field, names);
    }
    set.names.retain(|_, names| *names != FieldNames::default());
    for (split, fields) in splits {
        set.splits.insert(split, Split::new(fields)?);
    }
    match format.validation {
        Some(share) => validation::divided(set, share),
        None => Ok(set),
    }
}

/// Moves a field of several columns to its splits, and returns its names and transformations.
fn matrix(
    field: &str,
    tables: &mut IndexMap<String, Table>,
    (training, is_training): (usize, &dyn Fn(usize) -> bool),
    (format, order, splits): (&Format, usize, &mut Splits),
) -> Result<FieldNames, DataError> {
    let mut names = FieldNames::default();
    let mut read: IndexMap<String, (DType, HostTensor)> = IndexMap::new();
    for (place, (split, table)) in tables.iter_mut().enumerate() {
        let Some(matrix) = table.take_matrix(field) else { continue };
        let (dtype, taken) = (matrix.dtype, matrix.taken);
        let rows = matrix.cells.tensor(&[table.n_rows, taken.len()])?;
        if place == training {
            let wanted = format.wanted(field, dtype);
            names.columns = table.names_of(&taken).unwrap_or_default();
            names.forms =
                fitted(&rows, is_training, wanted).map_err(|column| table.no_statistics(taken[column]))?;
        }
        read.insert(split.clone(), (dtype, rows));
    }
    for (split, (dtype, rows)) in read {
        splits[&split].shift_insert(order, field.to_string(), names.transformed(rows, dtype)?.into());
    }
    Ok(names)
}

/// Fails unless a table has the columns of the training rows.
fn expect_columns(table: &Table, training: &Table, set: &str) -> Result<(), DataError> {
    let names = table.columns.names.as_deref().unwrap_or_default();
    for own in &training.own {
        if table.own.iter().all(|found| found.field != own.field) {
            let (path, known) = (table.path.clone(), names.to_vec());
            let missing = vec![(own.field.clone(), None)];
            return Err(TableError::MissingColumns { path, missing, known }.into());
        }
    }
    for matrix in &training.matrices {
        let (expected, field) = (matrix.taken.len(), &matrix.field);
        let found = table.matrix(field).map_or(0, |matrix| matrix.taken.len());
        if found != expected {
            return Err(DataError::WrongContent {
                path: table.path.clone(),
                set: set.to_string(),
                expected: format!("{expected} columns of {field}"),
                found: found.to_string(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
