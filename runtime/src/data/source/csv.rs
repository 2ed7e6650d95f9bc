//! The source `csv`: tables with a column to predict.

mod kind;

use std::io::BufReader;
use std::path::{Path, PathBuf};

use engine_core::ir::{Attr, DType, Literal, Symbol};
use engine_core::pipeline::DataDecl;
use indexmap::IndexMap;

use kind::Kind;

use super::files::{empty_set, expect, split_names};
use super::{DataError, DataSet, FieldNames, LoadContext, Source, Split};
use crate::data::cells::{Cells, Missing, Place, Policy};
use crate::data::csv::{Columns, Reading, Record, Records, dropped_note};
use crate::data::fault::TableError;
use crate::files;

/// The field `features`, `[rows, columns]`, the field `label`, if a column is named as such, and a field for every other
/// column that an input of the pipeline names, `[rows]`.
pub(super) struct Csv;

const NAME: &str = "csv";
const FILE: &str = "file";
const FEATURES: &str = "features";
const LABEL: &str = "label";
const LABEL_AS: &str = "label_as";
const SEPARATOR: &str = "separator";
const MISSING: &str = "missing";
const NON_FINITE: &str = "non_finite";

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

/// The options of the source.
struct Format {
    separator: char,
    policy: Policy,
    label: Option<Label>,
    label_as: Option<LabelAs>,
    dtype: DType,
    /// Fields that inputs of the pipeline take, with their types; none without a pipeline.
    taken: Vec<(Symbol, DType)>,
}

/// The declared contents of the column of labels.
#[derive(Clone, Copy, PartialEq)]
enum LabelAs {
    Classes,
    Numbers,
}

impl Format {
    fn new(context: &LoadContext) -> Result<Format, DataError> {
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
    fn dtype_of(&self, field: &str) -> Option<DType> {
        self.taken.iter().find(|(name, _)| &**name == field).map(|(_, dtype)| *dtype)
    }

    /// Whether the columns without a field of their own are read.
    fn wants_features(&self) -> bool {
        self.taken.is_empty() || self.dtype_of(FEATURES).is_some()
    }
}

fn separator(context: &LoadContext) -> Result<char, DataError> {
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

fn choice<T: Copy>(
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
enum Label {
    Name(String),
    /// Counted from 0.
    Number(usize),
}

impl Label {
    /// The option is the name of a column, or its number counted from 1.
    fn new(context: &LoadContext) -> Result<Option<Label>, DataError> {
        let number = context
            .options
            .iter()
            .any(|(option, value)| &**option == LABEL && matches!(value, Attr::Lit(Literal::Int(_))));
        Ok(match number {
            true => context.count(LABEL, 1 << 20)?.map(|number| Label::Number(number - 1)),
            false => context.text(LABEL)?.map(|name| Label::Name(name.to_string())),
        })
    }

    fn column(&self, columns: &Columns) -> Result<usize, DataError> {
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
fn numbers(n_columns: usize) -> Vec<String> {
    (1..=n_columns).map(|number| number.to_string()).collect()
}

/// The cells of a column.
#[derive(Default)]
struct CellTexts {
    /// Each with a zero byte behind it, which no text holds.
    texts: String,
    /// (cell, its line) where the line is not the one after the cell before.
    breaks: Vec<(usize, usize)>,
    n_cells: usize,
    next_line: usize,
}

impl CellTexts {
    fn push(&mut self, line: usize, text: &str) {
        if line != self.next_line {
            self.breaks.push((self.n_cells, line));
        }
        self.next_line = line + 1;
        self.n_cells += 1;
        self.texts.push_str(text);
        self.texts.push('\0');
    }

    fn cells(&self) -> impl Iterator<Item = TextCell<'_>> {
        let (mut breaks, mut next_line) = (self.breaks.iter().peekable(), 0);
        self.texts.split_terminator('\0').enumerate().map(move |(cell, text)| {
            let line = breaks.next_if(|(at, _)| *at == cell).map_or(next_line, |(_, line)| *line);
            next_line = line + 1;
            TextCell { line, text }
        })
    }
}

/// A column with a field of its own.
struct Column {
    field: String,
    /// Its place in the file.
    column: usize,
    texts: CellTexts,
}

/// A cell of a column.
#[derive(Clone, Copy)]
struct TextCell<'t> {
    line: usize,
    text: &'t str,
}

/// The contents of a file.
struct Table {
    path: PathBuf,
    columns: Columns,
    /// The columns of features.
    taken: Vec<usize>,
    features: Cells,
    /// The columns with fields of their own, the labels first.
    own: Vec<Column>,
    n_rows: usize,
    n_dropped: usize,
}

impl Table {
    /// Reads a file. Where both have names, its columns are those of the first file of the set.
    fn read(path: PathBuf, format: &Format, first: Option<&Table>) -> Result<Table, DataError> {
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

    fn begin(
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

    fn label_name(&self) -> Option<&str> {
        let label = self.own.iter().find(|own| own.field == LABEL)?;
        self.columns.name(label.column)
    }

    fn feature_names(&self) -> Option<Vec<String>> {
        let names = self.columns.names.as_ref()?;
        Some(self.taken.iter().map(|&column| names[column].clone()).collect())
    }

    fn push(&mut self, record: &Record<'_>, format: &Format) -> Result<(), TableError> {
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
    fn own(&self, field: &str) -> &Column {
        self.own
            .iter()
            .find(|own| own.field == field)
            .unwrap_or_else(|| engine_core::bug!("no column makes `{field}`"))
    }

    fn place(&self, field: &str, cell: TextCell<'_>) -> Place<'_> {
        let column = self.own(field).column;
        Place { path: &self.path, line: cell.line, column, name: self.columns.name(column) }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = dropped_note(&self.path, self.n_dropped);
        notes.extend(self.features.rounded_note());
        notes
    }
}

/// The columns with fields of their own: that of the labels, and those that inputs take by their names.
fn own_columns(columns: &Columns, label: Option<usize>, format: &Format) -> Vec<Column> {
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
fn is_missing(field: &str, text: &str, format: &Format) -> bool {
    match format.label_as {
        Some(LabelAs::Classes) if field == LABEL => text.is_empty(),
        _ => format.policy.is_missing(text),
    }
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
