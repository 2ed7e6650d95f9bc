//! The table of a text: which columns make which fields, and their cells.

use std::path::PathBuf;

use engine_core::ir::{DType, Symbol};

use super::format::{FEATURES, Format, LABEL, Label, is_missing};
use super::texts::{CellTexts, TextCell};
use crate::data::cells::{Cells, Missing, Place};
use crate::data::dropped::Dropped;
use crate::data::fault::TableError;
use crate::data::records::{Columns, Record, Text};
use crate::data::rows::{missing, open};
use crate::data::source::DataError;

/// A field of numbers, with several columns.
pub(super) struct Matrix {
    pub(super) field: String,
    /// The places of its columns in the text.
    pub(super) taken: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) cells: Cells,
}

/// A field of one column.
pub(super) struct Column {
    pub(super) field: String,
    /// Its place in the text.
    pub(super) column: usize,
    /// Whether the field marks the gaps of the column.
    pub(super) marks_gaps: bool,
    pub(super) texts: CellTexts,
}

/// The contents of a text.
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) columns: Columns,
    /// Fields of several columns, the features first.
    pub(super) matrices: Vec<Matrix>,
    /// Fields of one column, the labels first.
    pub(super) own: Vec<Column>,
    pub(super) n_rows: usize,
    notes: Vec<String>,
}

impl Table {
    /// Reads a text. Where both have names, its columns are those of the first text of the set.
    pub(super) fn read(text: Text<'_>, format: &Format, first: Option<&Table>) -> Result<Table, DataError> {
        let path = text.path().to_path_buf();
        let mut records = open(text, format.syntax)?;
        if records.columns().n_columns == 0 {
            return Err(TableError::no_rows(&path).into());
        }
        let mut table = Table::begin(path, records.columns().clone(), format, first)?;
        let mut dropped = Dropped::default();
        while let Some(record) = records.read_next()? {
            let drops = format.policy.missing == Missing::Drop;
            if !drops || !dropped.takes(table.missing(&record, format)) {
                table.push(&record)?;
            }
        }
        table.notes = dropped.note(&table.path).into_iter().collect();
        table.notes.extend(table.matrices.iter().filter_map(|matrix| matrix.cells.rounded_note()));
        match table.n_rows {
            0 => Err(dropped.no_rows(&table.path, &table.columns).into()),
            _ => Ok(table),
        }
    }

    fn begin(
        path: PathBuf,
        columns: Columns,
        format: &Format,
        first: Option<&Table>,
    ) -> Result<Table, DataError> {
        let label = match (&format.label, first.and_then(Table::label_name)) {
            (Some(_), Some(name)) if columns.names.is_some() => {
                Some(Label::Name(name.to_string()).column(&columns)?)
            }
            (Some(label), _) => Some(label.column(&columns)?),
            (None, _) => None,
        };
        let own = own_columns(&columns, label, format);
        let mut table = Table { path, columns, matrices: vec![], own, n_rows: 0, notes: vec![] };
        table.matrices = table.all_matrices(format, first)?;
        // Duplicate names are ambiguous.
        let matrices = table.matrices.iter().flat_map(|matrix| &matrix.taken);
        let taken = matrices.chain(table.own.iter().map(|own| &own.column));
        let names: Vec<String> =
            taken.filter_map(|&column| table.columns.name(column)).map(str::to_string).collect();
        table.columns.select(&table.path, &names)?;
        Ok(table)
    }

    /// The fields of several columns: arrays that inputs take by their names, and the features, which are all others.
    fn all_matrices(&self, format: &Format, first: Option<&Table>) -> Result<Vec<Matrix>, DataError> {
        let mut matrices = vec![];
        for (field, dtype) in format.taken.iter().filter(|(field, _)| is_of_column(field)) {
            let taken = self.elements_of(field)?;
            if !taken.is_empty() && self.own.iter().all(|own| own.field != **field) {
                matrices.push(Matrix {
                    field: field.to_string(),
                    taken,
                    dtype: *dtype,
                    cells: format.cells(field, *dtype),
                });
            }
        }
        if format.wants_features() {
            let dtype = format.dtype_of(FEATURES).unwrap_or(DType::F32);
            let is_own = |column: &usize| {
                let own = self.own.iter().filter(|own| !own.marks_gaps).map(|own| own.column);
                own.chain(matrices.iter().flat_map(|matrix: &Matrix| matrix.taken.clone()))
                    .any(|own| own == *column)
            };
            let others = (0..self.columns.n_columns).filter(|column| !is_own(column)).collect();
            let features = Matrix {
                field: FEATURES.to_string(),
                taken: others,
                dtype,
                cells: format.cells(FEATURES, dtype),
            };
            matrices.insert(0, features);
        }
        // The columns of a set are those of its first text.
        for matrix in &mut matrices {
            let of_first = first.and_then(|first| first.names_of(&first.matrix(&matrix.field)?.taken));
            if let (Some(wanted), Some(_)) = (of_first, &self.columns.names) {
                matrix.taken = self.columns.select(&self.path, &wanted)?;
            }
        }
        Ok(matrices)
    }

    /// The columns `NAME.0`, `NAME.1`, …, by the place of the element, wherever they stand in the file. An array of several
    /// axes has `NAME.0.0` first.
    ///
    /// # Errors
    /// If an element has no column.
    fn elements_of(&self, name: &str) -> Result<Vec<usize>, TableError> {
        let names = self.columns.names.as_deref().unwrap_or_default();
        let of = |(column, full): (usize, &String)| Some((place_of(name, full)?, column));
        let mut elements: Vec<(Vec<usize>, usize)> = names.iter().enumerate().filter_map(of).collect();
        elements.sort_unstable();
        let Some((last, _)) = elements.last() else { return Ok(vec![]) };
        let mut next = vec![0; last.len()];
        let extents: Vec<usize> = (0..last.len())
            .map(|axis| elements.iter().filter_map(|(at, _)| at.get(axis)).max())
            .map(|most| most.map_or(1, |most| most + 1))
            .collect();
        // One more: after the last element, the next one is the first.
        for place in elements.iter().map(|(place, _)| place).chain([&vec![0; extents.len()]]) {
            if *place != next {
                let missing = next.iter().fold(name.to_string(), |name, part| format!("{name}.{part}"));
                self.columns.select(&self.path, &[missing])?;
            }
            advance(&mut next, &extents);
        }
        Ok(elements.into_iter().map(|(_, column)| column).collect())
    }

    fn label_name(&self) -> Option<&str> {
        let label = self.own.iter().find(|own| own.field == LABEL)?;
        self.columns.name(label.column)
    }

    pub(super) fn matrix(&self, field: &str) -> Option<&Matrix> {
        self.matrices.iter().find(|matrix| matrix.field == field)
    }

    /// Moves a field out.
    pub(super) fn take_matrix(&mut self, field: &str) -> Option<Matrix> {
        let place = self.matrices.iter().position(|matrix| matrix.field == field)?;
        Some(self.matrices.remove(place))
    }

    /// The names of columns, if they have names.
    pub(super) fn names_of(&self, columns: &[usize]) -> Option<Vec<String>> {
        let names = self.columns.names.as_ref()?;
        Some(columns.iter().map(|&column| names[column].clone()).collect())
    }

    /// The columns of fields whose cells a row lacks.
    fn missing(&self, record: &Record<'_>, format: &Format) -> impl Iterator<Item = usize> {
        let lacks = |own: &&Column| is_missing(&own.field, &record.fields[own.column], format);
        let own = self.own.iter().filter(lacks).map(|own| own.column);
        let numbers = self.matrices.iter().flat_map(|matrix| missing(record, &matrix.taken, &format.policy));
        own.chain(numbers)
    }

    /// Appends a row.
    fn push(&mut self, record: &Record<'_>) -> Result<(), TableError> {
        for matrix in &mut self.matrices {
            for &column in &matrix.taken {
                let name = self.columns.name(column);
                let place = Place { path: &self.path, line: record.line, column, name };
                matrix.cells.push(&place, &record.fields[column])?;
            }
        }
        for own in &mut self.own {
            own.texts.push(record.line, &record.fields[own.column]);
        }
        self.n_rows += 1;
        Ok(())
    }

    /// The column with this field.
    pub(super) fn own(&self, field: &str) -> &Column {
        self.own
            .iter()
            .find(|own| own.field == field)
            .unwrap_or_else(|| engine_core::bug!("no column makes `{field}`"))
    }

    pub(super) fn place(&self, field: &str, cell: TextCell<'_>) -> Place<'_> {
        let column = self.own(field).column;
        Place { path: &self.path, line: cell.line, column, name: self.columns.name(column) }
    }

    /// Remarks on the rows.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The error of a column without statistics.
    pub(super) fn no_statistics(&self, column: usize) -> DataError {
        let column = self.columns.name(column).map_or((column + 1).to_string(), |name| format!("`{name}`"));
        DataError::NoStatistics { path: self.path.clone(), column }
    }
}

/// Whether a field is named after a column.
fn is_of_column(field: &Symbol) -> bool {
    ![FEATURES, LABEL].contains(&&**field)
}

/// The fields of one column: that of the labels, and those that inputs take by their names.
fn own_columns(columns: &Columns, label: Option<usize>, format: &Format) -> Vec<Column> {
    let own = |field: &str, column, marks_gaps| Column {
        field: field.to_string(),
        column,
        marks_gaps,
        texts: CellTexts::default(),
    };
    let names = columns.names.as_deref().unwrap_or_default();
    let place_of = |wanted: &str| names.iter().position(|name| name == wanted);
    let named = format.taken.iter().map(|(field, _)| field).filter(|field| is_of_column(field));
    let named = named.filter_map(|field| match (place_of(field), format.marked(field).and_then(place_of)) {
        (Some(column), _) => Some(own(field, column, false)),
        (None, Some(column)) => Some(own(field, column, true)),
        (None, None) => None,
    });
    let mut all: Vec<Column> = label.map(|column| own(LABEL, column, false)).into_iter().collect();
    for column in named {
        if all.iter().all(|known| known.field != column.field) {
            all.push(column);
        }
    }
    all
}

/// The place of an element by the name of its column, such as `v.1.0`.
fn place_of(array: &str, column: &str) -> Option<Vec<usize>> {
    let place = column.strip_prefix(array)?.strip_prefix('.')?;
    let number = |part: &str| part.parse::<usize>().ok().filter(|number| number.to_string() == part);
    place.split('.').map(number).collect()
}

/// The next place of an array.
fn advance(place: &mut [usize], extents: &[usize]) {
    for (at, extent) in place.iter_mut().zip(extents).rev() {
        *at += 1;
        if *at < *extent {
            return;
        }
        *at = 0;
    }
}
