//! The source `csv`: tables with a column to predict.

mod kind;
mod table;

use std::path::Path;

use engine_core::ir::DType;
use engine_core::pipeline::DataDecl;
use indexmap::IndexMap;

use kind::Kind;
use table::{FEATURES, FILE, Format, LABEL, LABEL_AS, MISSING, NON_FINITE, SEPARATOR, Table};

use super::files::{empty_set, expect, split_names};
use super::{DataError, DataSet, FieldNames, LoadContext, Source, Split};
use crate::data::cells::{Missing, Policy};
use crate::data::csv::Reading;
use crate::data::fault::TableError;

/// The field `features`, `[rows, columns]`, the field `label`, if a column is named as such, and a field for every other
/// column that an input of the pipeline names, `[rows]`.
pub(super) struct Csv;

const NAME: &str = "csv";

impl Source for Csv {
    fn name(&self) -> &str {
        NAME
    }

    fn summary(&self) -> &str {
        "the table of a CSV `file`: the column `label`, columns that inputs name, and all others as `features`"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[FILE, LABEL, LABEL_AS, SEPARATOR, MISSING, NON_FINITE, "splits"])?;
        let Some(file) = context.text(FILE)? else {
            return Err(DataError::BadOption {
                name: FILE.to_string(),
                expected: "the name of a CSV file".to_string(),
                found: "left out".to_string(),
            });
        };
        let format = Format::new(context)?;
        let mut tables: IndexMap<String, Table> = IndexMap::new();
        for split in split_names(context, &[(FILE, file)])? {
            let path = expect(context, file, &split)?;
            let table = Table::read(path, &format, tables.values().next())?;
            tables.insert(split, table);
        }
        set(tables, &format)
    }
}

/// The settings by which `engine predict` reads rows for an input of this data source. They have its separator and its
/// policy, except that no row is left out.
///
/// # Errors
/// If an option of the source is not understood.
pub fn reading_for(decl: &DataDecl, dtype: DType) -> Result<Reading, DataError> {
    if decl.source != NAME {
        return Ok(Reading { dtype, ..Reading::default() });
    }
    let context = LoadContext { options: decl.options.clone(), ..LoadContext::offline_in(Path::new("")) };
    let Format { separator, policy, .. } = Format::new(&context)?;
    let missing = if policy.missing == Missing::Drop { Missing::Refuse } else { policy.missing };
    Ok(Reading { dtype, separator, policy: Policy { missing, ..policy }, columns: None })
}

fn set(tables: IndexMap<String, Table>, format: &Format) -> Result<DataSet, DataError> {
    let Some(first) = tables.values().next() else { return Err(DataError::NoRows) };
    let mut set = empty_set(NAME, &first.path);
    let (n_columns, columns) = (first.taken.len(), first.feature_names());
    let fields: Vec<String> = first.own.iter().map(|own| own.field.clone()).collect();
    for table in tables.values() {
        expect_columns(table, &fields, n_columns, &set.name)?;
    }
    let kind = |field: &String| Kind::of(&tables, field, format);
    let kinds = fields.iter().map(kind).collect::<Result<Vec<Kind>, DataError>>()?;
    let mut notes = vec![];
    for (split, table) in tables {
        notes.extend(table.notes());
        let mut read = IndexMap::new();
        for (field, kind) in fields.iter().zip(&kinds) {
            let (tensor, note) = kind.tensor(&table, field, format)?;
            notes.extend(note);
            read.insert(field.clone(), tensor);
        }
        if format.wants_features() {
            let features = table.features.tensor(&[table.n_rows, n_columns])?;
            read.shift_insert(0, FEATURES.to_string(), features);
        }
        set.splits.insert(split, Split::new(read)?);
    }
    set.note = (!notes.is_empty()).then(|| notes.join("; "));
    if let Some(columns) = columns.filter(|_| format.wants_features()) {
        set.names.insert(FEATURES.to_string(), FieldNames { columns, ..FieldNames::default() });
    }
    for (field, kind) in fields.into_iter().zip(kinds) {
        let columns = if field == LABEL { vec![] } else { vec![field.clone()] };
        let classes = if let Kind::Classes(classes, _) = kind { classes } else { vec![] };
        if !(columns.is_empty() && classes.is_empty()) {
            set.names.insert(field, FieldNames { columns, classes });
        }
    }
    Ok(set)
}

/// Fails unless a file has the columns of the first file of its set.
fn expect_columns(table: &Table, fields: &[String], n_columns: usize, set: &str) -> Result<(), DataError> {
    let names = table.columns.names.as_deref().unwrap_or_default();
    let lacks = |field: &&String| table.own.iter().all(|own| own.field != **field);
    if let Some(field) = fields.iter().find(lacks) {
        let (path, known) = (table.path.clone(), names.to_vec());
        return Err(TableError::MissingColumns { path, missing: vec![(field.clone(), None)], known }.into());
    }
    match table.taken.len() == n_columns {
        true => Ok(()),
        false => Err(DataError::WrongContent {
            path: table.path.clone(),
            set: set.to_string(),
            expected: format!("{n_columns} columns of features"),
            found: table.taken.len().to_string(),
        }),
    }
}

#[cfg(test)]
mod tests;
