//! The table of a CSV file: which columns are read, and their cells.

use std::io::BufReader;
use std::path::PathBuf;

use engine_core::ir::{Attr, DType, Literal, Symbol};

use crate::data::cells::{Cells, Missing, Place, Policy};
use crate::data::csv::{Columns, Record, Records, dropped_note};
use crate::data::fault::TableError;
use crate::data::source::{DataError, LoadContext};
use crate::files;

pub(super) const FILE: &str = "file";
pub(super) const FEATURES: &str = "features";
pub(super) const LABEL: &str = "label";
pub(super) const LABEL_AS: &str = "label_as";
pub(super) const SEPARATOR: &str = "separator";
pub(super) const MISSING: &str = "missing";
pub(super) const NON_FINITE: &str = "non_finite";

/// The options of the source.
pub(super) struct Format {
    pub(super) separator: char,
    pub(super) policy: Policy,
    pub(super) label: Option<Label>,
    pub(super) label_as: Option<LabelAs>,
    pub(super) dtype: DType,
    /// Fields that inputs of the pipeline take, with their types; none without a pipeline.
    pub(super) taken: Vec<(Symbol, DType)>,
}

/// The declared contents of the column of labels.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum LabelAs {
    Classes,
    Numbers,
}

impl Format {
    pub(super) fn new(context: &LoadContext) -> Result<Format, DataError> {
        let missing = [("refuse", Missing::Refuse), ("drop", Missing::Drop), ("nan", Missing::Nan)];
        let label_as = [("classes", LabelAs::Classes), ("numbers", LabelAs::Numbers)];
        Ok(Format {
            separator: separator(context)?,
            policy: Policy {
                missing: choice(context, MISSING, &missing)?.unwrap_or_default(),
                non_finite: context.truth(NON_FINITE)?.unwrap_or(false),
            },
            label: Label::new(context)?,
            label_as: choice(context, LABEL_AS, &label_as)?,
            dtype: context.dtype(FEATURES).unwrap_or(DType::F32),
            taken: context.types.clone(),
        })
    }
}

impl Format {
    pub(super) fn dtype_of(&self, field: &str) -> Option<DType> {
        self.taken.iter().find(|(name, _)| &**name == field).map(|(_, dtype)| *dtype)
    }

    /// Whether the columns without a field of their own are read.
    pub(super) fn wants_features(&self) -> bool {
        self.taken.is_empty() || self.dtype_of(FEATURES).is_some()
    }
}

pub(super) fn separator(context: &LoadContext) -> Result<char, DataError> {
    let Some(text) = context.text(SEPARATOR)? else { return Ok(',') };
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(separator), None) if !matches!(separator, '"' | '\n' | '\r') => Ok(separator),
        _ => Err(DataError::BadOption {
            name: SEPARATOR.to_string(),
            expected: "one character, such as \";\" or \"\\t\"".to_string(),
            found: Attr::from(text).to_string(),
        }),
    }
}

pub(super) fn choice<T: Copy>(
    context: &LoadContext,
    option: &str,
    choices: &[(&str, T)],
) -> Result<Option<T>, DataError> {
    let Some(text) = context.text(option)? else { return Ok(None) };
    let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
    chosen.map(Some).ok_or_else(|| {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        DataError::BadOption {
            name: option.to_string(),
            expected: words.join(" or "),
            found: Attr::from(text).to_string(),
        }
    })
}

/// The column to predict.
pub(super) enum Label {
    Name(String),
    /// Counted from 0.
    Number(usize),
}

impl Label {
    /// The option is the name of a column, or its number counted from 1.
    pub(super) fn new(context: &LoadContext) -> Result<Option<Label>, DataError> {
        let number = context
            .options
            .iter()
            .any(|(option, value)| &**option == LABEL && matches!(value, Attr::Lit(Literal::Int(_))));
        Ok(match number {
            true => context.count(LABEL, 1 << 20)?.map(|number| Label::Number(number - 1)),
            false => context.text(LABEL)?.map(|name| Label::Name(name.to_string())),
        })
    }

    pub(super) fn column(&self, columns: &Columns) -> Result<usize, DataError> {
        let names = columns.names.clone().unwrap_or_else(|| numbers(columns.n_columns));
        let column = match self {
            Label::Number(column) => Some(*column).filter(|column| *column < names.len()),
            Label::Name(label) => names.iter().position(|name| name == label),
        };
        column.ok_or_else(|| DataError::BadOption {
            name: LABEL.to_string(),
            expected: format!("one of the columns {}", names.join(", ")),
            found: match self {
                Label::Name(name) => Attr::from(name.as_str()).to_string(),
                Label::Number(column) => (column + 1).to_string(),
            },
        })
    }
}

/// The names of unnamed columns.
pub(super) fn numbers(n_columns: usize) -> Vec<String> {
    (1..=n_columns).map(|number| number.to_string()).collect()
}

/// The cells of a column.
#[derive(Default)]
pub(super) struct CellTexts {
    /// Each with a zero byte behind it, which no text holds.
    pub(super) texts: String,
    /// (cell, its line) where the line is not the one after the cell before.
    pub(super) breaks: Vec<(usize, usize)>,
    pub(super) n_cells: usize,
    pub(super) next_line: usize,
}

impl CellTexts {
    pub(super) fn push(&mut self, line: usize, text: &str) {
        if line != self.next_line {
            self.breaks.push((self.n_cells, line));
        }
        self.next_line = line + 1;
        self.n_cells += 1;
        self.texts.push_str(text);
        self.texts.push('\0');
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = TextCell<'_>> {
        let (mut breaks, mut next_line) = (self.breaks.iter().peekable(), 0);
        self.texts.split_terminator('\0').enumerate().map(move |(cell, text)| {
            let line = breaks.next_if(|(at, _)| *at == cell).map_or(next_line, |(_, line)| *line);
            next_line = line + 1;
            TextCell { line, text }
        })
    }
}

/// A column with a field of its own.
pub(super) struct Column {
    pub(super) field: String,
    /// Its place in the file.
    pub(super) column: usize,
    pub(super) texts: CellTexts,
}

/// A cell of a column.
#[derive(Clone, Copy)]
pub(super) struct TextCell<'t> {
    pub(super) line: usize,
    pub(super) text: &'t str,
}

/// The contents of a file.
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) columns: Columns,
    /// The columns of features.
    pub(super) taken: Vec<usize>,
    pub(super) features: Cells,
    /// The columns with fields of their own, the labels first.
    pub(super) own: Vec<Column>,
    pub(super) n_rows: usize,
    pub(super) n_dropped: usize,
}

impl Table {
    /// Reads a file. Where both have names, its columns are those of the first file of the set.
    pub(super) fn read(path: PathBuf, format: &Format, first: Option<&Table>) -> Result<Table, DataError> {
        let unreadable = |error| TableError::Unreadable { path: path.clone(), error };
        let (file, _) = files::open(&path).map_err(unreadable)?;
        let mut records = Records::new(&path, BufReader::new(file), format.separator);
        let mut table: Option<Table> = None;
        while let Some(record) = records.read_next()? {
            match &mut table {
                Some(table) => table.push(&record, format)?,
                None => {
                    let mut begun = Table::begin(path.clone(), &record, format, first)?;
                    if begun.columns.names.is_none() {
                        begun.push(&record, format)?;
                    }
                    table = Some(begun);
                }
            }
        }
        table.filter(|table| table.n_rows > 0).ok_or_else(|| TableError::NoRows { path }.into())
    }

    pub(super) fn begin(
        path: PathBuf,
        record: &Record<'_>,
        format: &Format,
        first: Option<&Table>,
    ) -> Result<Table, DataError> {
        let columns = Columns::of(record);
        let label = match (&format.label, first.and_then(Table::label_name)) {
            (Some(_), Some(name)) if columns.names.is_some() => {
                Some(Label::Name(name.to_string()).column(&columns)?)
            }
            (Some(label), _) => Some(label.column(&columns)?),
            (None, _) => None,
        };
        let own = own_columns(&columns, label, format);
        let is_own = |column: usize| own.iter().any(|own| own.column == column);
        let others = (0..columns.n_columns).filter(|&column| !is_own(column)).collect();
        let taken = match (first.and_then(Table::feature_names), &columns.names) {
            (Some(wanted), Some(_)) => columns.select(&path, &wanted)?,
            _ if format.wants_features() => others,
            _ => vec![],
        };
        let features = Cells::new(format.dtype, format.policy);
        let table = Table { path, columns, taken, features, own, n_rows: 0, n_dropped: 0 };
        // Duplicate names are ambiguous.
        if let Some(mut names) = table.feature_names() {
            names.extend(
                table.own.iter().filter_map(|own| table.columns.name(own.column)).map(str::to_string),
            );
            table.columns.select(&table.path, &names)?;
        }
        Ok(table)
    }

    pub(super) fn label_name(&self) -> Option<&str> {
        let label = self.own.iter().find(|own| own.field == LABEL)?;
        self.columns.name(label.column)
    }

    pub(super) fn feature_names(&self) -> Option<Vec<String>> {
        let names = self.columns.names.as_ref()?;
        Some(self.taken.iter().map(|&column| names[column].clone()).collect())
    }

    pub(super) fn push(&mut self, record: &Record<'_>, format: &Format) -> Result<(), TableError> {
        let lacks_own =
            || self.own.iter().any(|own| is_missing(&own.field, &record.fields[own.column], format));
        let lacks_feature =
            || self.taken.iter().any(|&column| format.policy.is_missing(&record.fields[column]));
        if format.policy.missing == Missing::Drop && (lacks_own() || lacks_feature()) {
            self.n_dropped += 1;
            return Ok(());
        }
        for &column in &self.taken {
            let name = self.columns.name(column);
            let place = Place { path: &self.path, line: record.line, column, name };
            self.features.push(&place, &record.fields[column])?;
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

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = dropped_note(&self.path, self.n_dropped);
        notes.extend(self.features.rounded_note());
        notes
    }
}

/// The columns with fields of their own: that of the labels, and those that inputs take by their names.
pub(super) fn own_columns(columns: &Columns, label: Option<usize>, format: &Format) -> Vec<Column> {
    let own = |field: &str, column| Column { field: field.to_string(), column, texts: CellTexts::default() };
    let names = columns.names.as_deref().unwrap_or_default();
    let is_named = |field: &&Symbol| ![FEATURES, LABEL].contains(&&***field);
    let named = format.taken.iter().map(|(field, _)| field).filter(is_named).filter_map(|field| {
        let column = names.iter().position(|name| *name == **field)?;
        Some(own(field, column))
    });
    let mut all: Vec<Column> = label.map(|column| own(LABEL, column)).into_iter().collect();
    for column in named {
        if all.iter().all(|known| known.field != column.field) {
            all.push(column);
        }
    }
    all
}

/// Whether a cell says that there is no value. As the name of a class, `NA` is a name like others.
pub(super) fn is_missing(field: &str, text: &str, format: &Format) -> bool {
    match format.label_as {
        Some(LabelAs::Classes) if field == LABEL => text.is_empty(),
        _ => format.policy.is_missing(text),
    }
}
