//! The source `csv`: tables with a column to predict.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use engine_core::ir::{Attr, DType, Literal};
use engine_core::pipeline::DataDecl;
use indexmap::IndexMap;

use super::files::{empty_set, expect, split_names};
use super::{DataError, DataSet, FieldNames, LoadContext, Source, Split};
use crate::data::cells::{Cells, Missing, Place, Policy};
use crate::data::csv::{Columns, Reading, Record, Records, dropped_note};
use crate::data::fault::{CellFault, TableError, shortened};
use crate::files;
use crate::tensor::HostTensor;

/// The field `features`, `[rows, columns]`, and, if a column is named as such, `label`.
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
        "the table of a CSV `file`: the column `label`, if there is one, and all others as `features`"
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
        set(tables, &format, context.dtype(LABEL))
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
        })
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

/// The cells of the column of labels.
#[derive(Default)]
struct Labels {
    /// Each with a zero byte behind it, which no text holds.
    texts: String,
    /// (cell, its line) where the line is not the one after the cell before.
    breaks: Vec<(usize, usize)>,
    n_cells: usize,
    next_line: usize,
}

impl Labels {
    fn push(&mut self, line: usize, text: &str) {
        if line != self.next_line {
            self.breaks.push((self.n_cells, line));
        }
        self.next_line = line + 1;
        self.n_cells += 1;
        self.texts.push_str(text);
        self.texts.push('\0');
    }

    fn cells(&self) -> impl Iterator<Item = LabelCell<'_>> {
        let (mut breaks, mut next_line) = (self.breaks.iter().peekable(), 0);
        self.texts.split_terminator('\0').enumerate().map(move |(cell, text)| {
            let line = breaks.next_if(|(at, _)| *at == cell).map_or(next_line, |(_, line)| *line);
            next_line = line + 1;
            LabelCell { line, text }
        })
    }
}

/// A cell of the column of labels.
#[derive(Clone, Copy)]
struct LabelCell<'t> {
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
    label: Option<usize>,
    labels: Labels,
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
        let others = (0..columns.n_columns).filter(|&column| Some(column) != label).collect();
        let taken = match (first.and_then(Table::feature_names), &columns.names) {
            (Some(wanted), Some(_)) => columns.select(&path, &wanted)?,
            _ => others,
        };
        let features = Cells::new(format.dtype, format.policy);
        let table = Table {
            path,
            columns,
            taken,
            features,
            label,
            labels: Labels::default(),
            n_rows: 0,
            n_dropped: 0,
        };
        // Duplicate names are ambiguous.
        if let Some(names) = table.feature_names() {
            table.columns.select(&table.path, &names)?;
        }
        Ok(table)
    }

    fn label_name(&self) -> Option<&str> {
        self.columns.name(self.label?)
    }

    fn feature_names(&self) -> Option<Vec<String>> {
        let names = self.columns.names.as_ref()?;
        Some(self.taken.iter().map(|&column| names[column].clone()).collect())
    }

    fn push(&mut self, record: &Record<'_>, format: &Format) -> Result<(), TableError> {
        let label = self.label.map(|column| &record.fields[column]);
        let lacks_label = label.is_some_and(|text| is_missing_label(text, format));
        let lacks_feature =
            || self.taken.iter().any(|&column| format.policy.is_missing(&record.fields[column]));
        if format.policy.missing == Missing::Drop && (lacks_label || lacks_feature()) {
            self.n_dropped += 1;
            return Ok(());
        }
        for &column in &self.taken {
            let name = self.columns.name(column);
            let place = Place { path: &self.path, line: record.line, column, name };
            self.features.push(&place, &record.fields[column])?;
        }
        if let Some(text) = label {
            self.labels.push(record.line, text);
        }
        self.n_rows += 1;
        Ok(())
    }

    /// A fault of a label.
    fn fault(&self, cell: LabelCell<'_>, fault: CellFault) -> TableError {
        self.label_place(cell).fault(fault)
    }

    fn label_place(&self, cell: LabelCell<'_>) -> Place<'_> {
        let column = self.label.unwrap_or_default();
        Place { path: &self.path, line: cell.line, column, name: self.columns.name(column) }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = dropped_note(&self.path, self.n_dropped);
        notes.extend(self.features.rounded_note());
        notes
    }
}

/// Whether a label says that there is none. As the name of a class, `NA` is a name like others.
fn is_missing_label(text: &str, format: &Format) -> bool {
    match format.label_as {
        Some(LabelAs::Classes) => text.is_empty(),
        _ => format.policy.is_missing(text),
    }
}

fn set(
    tables: IndexMap<String, Table>,
    format: &Format,
    label_dtype: Option<DType>,
) -> Result<DataSet, DataError> {
    let Some(first) = tables.values().next() else { return Err(DataError::NoRows) };
    let mut set = empty_set(NAME, &first.path);
    let (n_columns, columns) = (first.taken.len(), first.feature_names());
    let kind = Kind::of(&tables, format, label_dtype)?;
    let mut notes = vec![];
    for (split, table) in tables {
        if table.taken.len() != n_columns {
            return Err(DataError::WrongContent {
                path: table.path.clone(),
                set: set.name,
                expected: format!("{n_columns} columns of features"),
                found: table.taken.len().to_string(),
            });
        }
        notes.extend(table.notes());
        let labels = format.label.is_some().then(|| kind.tensor(&table, format)).transpose()?;
        let features = table.features.tensor(&[table.n_rows, n_columns])?;
        let mut fields = IndexMap::from([(FEATURES.to_string(), features)]);
        if let Some((labels, note)) = labels {
            notes.extend(note);
            fields.insert(LABEL.to_string(), labels);
        }
        set.splits.insert(split, Split::new(fields)?);
    }
    set.note = (!notes.is_empty()).then(|| notes.join("; "));
    if let Some(columns) = columns {
        set.names.insert(FEATURES.to_string(), FieldNames { columns, ..FieldNames::default() });
    }
    if let Kind::Classes(classes, _) = kind {
        set.names.insert(LABEL.to_string(), FieldNames { classes, ..FieldNames::default() });
    }
    Ok(set)
}

/// The contents of a column of labels in all splits.
enum Kind {
    /// Numbers of this type.
    Numbers(DType),
    /// Names of classes, sorted; each label is the place in this list, in this type.
    Classes(Vec<String>, DType),
}

impl Kind {
    /// Numbers if all labels are numbers, classes if none is. A mixture must be declared as classes.
    fn of(
        tables: &IndexMap<String, Table>,
        format: &Format,
        dtype: Option<DType>,
    ) -> Result<Kind, DataError> {
        let cells = || tables.values().flat_map(|table| table.labels.cells().map(move |cell| (table, cell)));
        if let Some((table, cell)) = cells().find(|(_, cell)| is_missing_label(cell.text, format)) {
            return Err(table.fault(cell, CellFault::Missing(cell.text.to_string())).into());
        }
        let is_number = |cell: LabelCell<'_>| cell.text.parse::<f64>().is_ok();
        let n_numbers = cells().filter(|(_, cell)| is_number(*cell)).count();
        let n_names = cells().count() - n_numbers;
        if format.label_as.is_none() && n_numbers > 0 && n_names > 0 {
            let seeks_number = n_numbers < n_names;
            if let Some((table, cell)) = cells().find(|(_, cell)| is_number(*cell) == seeks_number) {
                let text = shortened(cell.text);
                let fault = match seeks_number {
                    true => CellFault::Mixed { text, found: "a number", n_others: n_names, others: "names" },
                    false => {
                        CellFault::Mixed { text, found: "a name", n_others: n_numbers, others: "numbers" }
                    }
                };
                return Err(table.fault(cell, fault).into());
            }
        }
        if format.label_as == Some(LabelAs::Classes) || (format.label_as.is_none() && n_names > 0) {
            let classes: BTreeSet<&str> = cells().map(|(_, cell)| cell.text).collect();
            let classes = classes.into_iter().map(str::to_string).collect();
            let dtype = dtype.filter(|dtype| matches!(dtype, DType::I64 | DType::U32));
            return Ok(Kind::Classes(classes, dtype.unwrap_or(DType::I32)));
        }
        let all_fit = |fits: fn(&str) -> bool| cells().all(|(_, cell)| fits(cell.text));
        let own = match () {
            () if all_fit(|text| text.parse::<i32>().is_ok()) => DType::I32,
            () if all_fit(|text| text.parse::<i64>().is_ok()) => DType::I64,
            () => DType::F32,
        };
        Ok(Kind::Numbers(dtype.unwrap_or(own)))
    }

    /// The labels of a file, and remarks on them.
    fn tensor(&self, table: &Table, format: &Format) -> Result<(HostTensor, Option<String>), DataError> {
        let dtype = match self {
            Kind::Numbers(dtype) | Kind::Classes(_, dtype) => *dtype,
        };
        let mut cells = Cells::new(dtype, format.policy);
        for cell in table.labels.cells() {
            let place = table.label_place(cell);
            match self {
                Kind::Numbers(_) => cells.push(&place, cell.text)?,
                Kind::Classes(classes, _) => {
                    let number = classes.partition_point(|class| **class < *cell.text);
                    cells.push(&place, &number.to_string())?;
                }
            }
        }
        let note = cells.rounded_note();
        Ok((cells.tensor(&[table.labels.n_cells])?, note))
    }
}

#[cfg(test)]
mod tests;
