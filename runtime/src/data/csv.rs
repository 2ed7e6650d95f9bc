//! Comma-separated values (RFC 4180): lines of fields, quoted or not, each with its place.

use std::borrow::Cow;
use std::io::BufRead;
use std::path::Path;

use engine_core::diag::nearest;
use engine_core::ir::DType;

use super::cells::{Cells, Missing, Place, Policy};
use super::fault::TableError;
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
    /// The separator of fields.
    pub separator: char,
    /// The treatment of cells without a number.
    pub policy: Policy,
    /// The columns to take by their names in the first line, in this order; all if left out.
    pub columns: Option<Vec<String>>,
}

impl Default for Reading {
    fn default() -> Self {
        Reading { dtype: DType::F64, separator: ',', policy: Policy::default(), columns: None }
    }
}

/// One row of a file.
#[derive(Debug)]
pub struct Record<'t> {
    /// Where it starts, counted from 1.
    pub line: usize,
    /// Its fields, without quotes and without blanks around them.
    pub fields: Vec<Cow<'t, str>>,
}

/// The records of a text, read one by one. Empty lines are passed over; all others have as many fields as the first.
pub struct Records<'p, R> {
    path: &'p Path,
    reader: R,
    separator: char,
    /// The number of the next line.
    line: usize,
    n_columns: Option<usize>,
    /// The lines of the last record.
    bytes: Vec<u8>,
    text: String,
}

impl<'p, R: BufRead> Records<'p, R> {
    /// Reads a text; `path` is named in errors and not opened.
    pub fn new(path: &'p Path, reader: R, separator: char) -> Records<'p, R> {
        Records { path, reader, separator, line: 1, n_columns: None, bytes: vec![], text: String::new() }
    }

    /// The next record; none after the last one.
    ///
    /// # Errors
    /// If the file cannot be read or is no text, and for a record that is none.
    pub fn read_next(&mut self) -> Result<Option<Record<'_>>, TableError> {
        let mut line = self.line;
        loop {
            if !self.read_lines()? {
                return Ok(None);
            }
            if !self.text.trim().is_empty() {
                break;
            }
            line = self.line;
        }
        let mut fields = Fields { path: self.path, rest: &self.text, separator: self.separator, line };
        let fields = fields.all()?;
        let (expected, found) = (*self.n_columns.get_or_insert(fields.len()), fields.len());
        match found == expected {
            true => Ok(Some(Record { line, fields })),
            false => Err(TableError::Ragged { path: self.path.to_path_buf(), line, expected, found }),
        }
    }

    /// Reads the lines of a record: one, or more if a quotation contains line breaks. `false` at the end of the file.
    fn read_lines(&mut self) -> Result<bool, TableError> {
        self.text.clear();
        let mut state = Quoting::FieldStart;
        loop {
            self.bytes.clear();
            let n_bytes = self.reader.read_until(b'\n', &mut self.bytes);
            let unreadable = |error| TableError::Unreadable { path: self.path.to_path_buf(), error };
            if n_bytes.map_err(unreadable)? == 0 {
                return Ok(!self.text.is_empty());
            }
            if self.bytes.contains(&0) {
                return Err(TableError::NotText { path: self.path.to_path_buf() });
            }
            let line = String::from_utf8_lossy(&self.bytes);
            // Some programs start a text with a byte order mark.
            let line = line.strip_prefix('\u{feff}').filter(|_| self.line == 1).unwrap_or(&line);
            self.text.push_str(line);
            self.line += usize::from(line.ends_with('\n'));
            state = state.after(line, self.separator);
            if state != Quoting::Open {
                return Ok(true);
            }
        }
    }
}

/// Where a record stands within its fields.
#[derive(Clone, Copy, PartialEq)]
enum Quoting {
    /// Before a field, after blanks.
    FieldStart,
    /// In a field without quotes, or behind one.
    Plain,
    /// In quotes.
    Open,
    /// Behind a quote that ends the quotation, unless another follows.
    Quote,
}

impl Quoting {
    fn after(self, line: &str, separator: char) -> Quoting {
        if self == Quoting::FieldStart && !line.contains('"') {
            return Quoting::Plain;
        }
        line.chars().fold(self, |state, letter| match (state, letter) {
            (Quoting::Open, '"') => Quoting::Quote,
            (Quoting::Open, _) | (Quoting::Quote | Quoting::FieldStart, '"') => Quoting::Open,
            (_, letter) if letter == separator => Quoting::FieldStart,
            (Quoting::FieldStart, ' ' | '\t') => Quoting::FieldStart,
            _ => Quoting::Plain,
        })
    }
}

/// The fields of a record.
struct Fields<'t> {
    path: &'t Path,
    rest: &'t str,
    separator: char,
    /// The line of the next field.
    line: usize,
}

impl<'t> Fields<'t> {
    fn all(&mut self) -> Result<Vec<Cow<'t, str>>, TableError> {
        let mut fields = vec![self.field(1)?];
        while let Some(rest) = self.rest.strip_prefix(self.separator) {
            self.rest = rest;
            fields.push(self.field(fields.len() + 1)?);
        }
        Ok(fields)
    }

    /// The next field, up to a separator or the end of the line.
    fn field(&mut self, column: usize) -> Result<Cow<'t, str>, TableError> {
        let is_blank = |c: char| (c == ' ' || c == '\t') && c != self.separator;
        match self.rest.trim_start_matches(is_blank).strip_prefix('"') {
            Some(quoted) => self.quoted(quoted, column),
            None => {
                let (field, rest) = self.rest.split_at(self.field_end());
                self.rest = rest;
                Ok(Cow::Borrowed(field.trim()))
            }
        }
    }

    /// A field in quotes, which may hold separators, ends of lines, and quotes written twice.
    fn quoted(&mut self, after_quote: &'t str, column: usize) -> Result<Cow<'t, str>, TableError> {
        let bad = TableError::BadQuote { path: self.path.to_path_buf(), line: self.line, column };
        let mut end = 0;
        loop {
            let Some(quote) = after_quote[end..].find('"') else { return Err(bad) };
            end += quote;
            match after_quote[end + 1..].starts_with('"') {
                true => end += 2,
                false => break,
            }
        }
        let (field, rest) = (&after_quote[..end], &after_quote[end + 1..]);
        self.line += field.matches('\n').count();
        self.rest = rest;
        let (blank, rest) = rest.split_at(self.field_end());
        if !blank.trim().is_empty() {
            return Err(bad);
        }
        self.rest = rest;
        Ok(if field.contains('"') { Cow::Owned(field.replace("\"\"", "\"")) } else { Cow::Borrowed(field) })
    }

    fn field_end(&self) -> usize {
        self.rest.find([self.separator, '\n']).unwrap_or(self.rest.len())
    }
}

/// Whether a first record holds names: none of its fields is a number.
pub(super) fn is_head(record: &Record<'_>) -> bool {
    record.fields.iter().all(|field| field.parse::<f64>().is_err())
}

/// The columns of a file: their number, and their names if the first line holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// How many there are.
    pub n_columns: usize,
    /// Their names.
    pub names: Option<Vec<String>>,
}

impl Columns {
    /// The columns according to the first record of a file.
    pub(super) fn of(first: &Record<'_>) -> Columns {
        let names = is_head(first).then(|| first.fields.iter().map(|field| field.to_string()).collect());
        Columns { n_columns: first.fields.len(), names }
    }

    /// The name of a column, if it has one.
    pub(super) fn name(&self, column: usize) -> Option<&str> {
        self.names.as_ref()?.get(column).map(String::as_str)
    }

    /// The columns of these names, in this order; all columns of a file without names.
    ///
    /// # Errors
    /// If the file has names, and a requested one is missing or duplicate.
    pub(super) fn select(&self, path: &Path, wanted: &[String]) -> Result<Vec<usize>, TableError> {
        let Some(names) = &self.names else { return Ok((0..self.n_columns).collect()) };
        let (mut found, mut missing) = (vec![], vec![]);
        for name in wanted {
            let mut places = (0..names.len()).filter(|&column| names[column] == *name);
            match (places.next(), places.next()) {
                (Some(column), None) => found.push(column),
                (Some(_), Some(_)) => {
                    return Err(TableError::SameName { path: path.to_path_buf(), name: name.clone() });
                }
                (None, _) => {
                    let near = nearest(name, names.iter().map(String::as_str)).map(str::to_string);
                    missing.push((name.clone(), near));
                }
            }
        }
        match missing.is_empty() {
            true => Ok(found),
            false => {
                Err(TableError::MissingColumns { path: path.to_path_buf(), missing, known: names.clone() })
            }
        }
    }
}

/// Reads numbers, one row a line, as `[rows, columns]`. The first line may hold names instead.
///
/// # Errors
/// If the file cannot be read, a cell has another type, a column is missing, or lines have unequal numbers of fields.
pub fn parse(path: &Path, reader: impl BufRead, reading: &Reading) -> Result<Rows, TableError> {
    let mut cells = Cells::new(reading.dtype, reading.policy);
    let (mut columns, mut taken) = (Columns::default(), vec![]);
    let (mut n_rows, mut n_dropped) = (0, 0);
    let mut records = Records::new(path, reader, reading.separator);
    let mut is_first = true;
    while let Some(record) = records.read_next()? {
        if std::mem::take(&mut is_first) {
            columns = Columns::of(&record);
            let wanted = reading.columns.as_ref().map(|wanted| columns.select(path, wanted));
            taken = wanted.transpose()?.unwrap_or_else(|| (0..columns.n_columns).collect());
            if columns.names.is_some() {
                continue;
            }
        }
        let has_missing = || taken.iter().any(|&column| reading.policy.is_missing(&record.fields[column]));
        if reading.policy.missing == Missing::Drop && has_missing() {
            n_dropped += 1;
            continue;
        }
        for &column in &taken {
            let name = columns.name(column);
            cells.push(&Place { path, line: record.line, column, name }, &record.fields[column])?;
        }
        n_rows += 1;
    }
    let mut notes = dropped_note(path, n_dropped);
    notes.extend(cells.rounded_note());
    Ok(Rows { tensor: cells.tensor(&[n_rows, taken.len()])?, columns, notes })
}

/// The remark on rows that were left out.
pub(super) fn dropped_note(path: &Path, n_dropped: usize) -> Vec<String> {
    let text = |n: usize| format!("{}: {n} rows with missing cells are left out", path.display());
    (n_dropped > 0).then(|| text(n_dropped)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn csv(text: &str) -> Result<HostTensor, TableError> {
        Ok(parse(Path::new("a.csv"), text.as_bytes(), &Reading::default())?.tensor)
    }

    fn records(text: &str, separator: char) -> Vec<(usize, Vec<String>)> {
        let mut records = Records::new(Path::new("a.csv"), text.as_bytes(), separator);
        let mut read = vec![];
        while let Some(record) = records.read_next().unwrap() {
            read.push((record.line, record.fields.into_iter().map(Cow::into_owned).collect()));
        }
        read
    }

    #[test]
    fn numbers_with_or_without_names_above_are_rows() {
        let plain = csv("1,2\n\n3, -4.5\n").unwrap();
        assert_eq!((plain.shape(), plain.to_f64()), (&[2usize, 2][..], vec![1.0, 2.0, 3.0, -4.5]));
        assert_eq!(csv("\u{feff}left,right\r\n1,2\r\n3,-4.5\r\n").unwrap(), plain);
        assert_eq!(csv("1,\"2\"\n3,-4.5").unwrap(), plain);
        assert_eq!(csv("").unwrap().shape(), [0, 0]);
    }

    #[test]
    fn quotations_may_contain_separators() {
        let text = "a; \"b;\"\"c\"\"\nd\" ;e\n\n \"\";f;\n";
        let expected = |line, fields: [&str; 3]| (line, fields.map(String::from).to_vec());
        let read = records(text, ';');
        assert_eq!(read, [expected(1, ["a", "b;\"c\"\nd", "e"]), expected(4, ["", "f", ""])]);
        assert_eq!(records("1\t\t2", '\t'), [expected(1, ["1", "", "2"])]);
        // A quote within a field is none.
        let inches = records("5\" pipe,a,\"b\r\nc\"\n6\",\"\"\"\",\" \"\n", ',');
        assert_eq!(inches, [expected(1, ["5\" pipe", "a", "b\r\nc"]), expected(3, ["6\"", "\"", " "])]);
    }

    #[test]
    fn lines_that_are_no_rows_are_named() {
        let error = |text| csv(text).unwrap_err().to_string();
        assert_eq!(error("1,2\n3,x\n"), "a.csv:2: column 2: `x` is not a number");
        assert_eq!(error("1,2\n\n3,\n"), "a.csv:3: column 2: the value is missing");
        assert_eq!(error("1,2\n\n3\n"), "a.csv:3: 1 columns, the lines before have 2");
        assert_eq!(error("a,b\nc,d\n"), "a.csv:2: column 1 (`a`): `c` is not a number");
        assert_eq!(error("a,b,c\n1,2\n"), "a.csv:2: 2 columns, the lines before have 3");
        assert_eq!(error("1,2\n3,\"4\n"), "a.csv:2: column 2: the quotation does not end, or not the field");
        assert_eq!(error("1,\"2\"3\n"), "a.csv:1: column 2: the quotation does not end, or not the field");
        assert_eq!(error("1,\"2\n3\"4\n"), "a.csv:1: column 2: the quotation does not end, or not the field");
        assert_eq!(error("1,2\n3,\0\n"), "a.csv: is neither text nor of a format that is known");
    }

    #[test]
    fn columns_are_selected_by_name() {
        let taken = |text: &str, columns: &[&str]| {
            let columns = Some(columns.iter().map(|name| name.to_string()).collect());
            parse(Path::new("a.csv"), text.as_bytes(), &Reading { columns, ..Reading::default() })
        };
        let rows = taken("b,c,a\n2,x,1\n4,y,3\n", &["a", "b"]).unwrap();
        assert_eq!((rows.tensor.shape(), rows.tensor.to_f64()), (&[2usize, 2][..], vec![1.0, 2.0, 3.0, 4.0]));
        // Without names, the order counts.
        assert_eq!(taken("1,2\n", &["a", "b"]).unwrap().tensor.to_f64(), [1.0, 2.0]);
        let error = |text: &str| taken(text, &["length", "width"]).unwrap_err();
        assert_eq!(error("lenght,size\n1,2\n").to_string(), "a.csv: there is no column `length`, `width`");
        assert_eq!(error("length,width,width\n1,2,3\n").to_string(), "a.csv: two columns are called `width`");
    }

    #[test]
    fn rows_with_missing_cells_are_left_out_if_asked_for() {
        let policy = Policy { missing: Missing::Drop, ..Policy::default() };
        let text = "a,b\n1,2\n3,NA\n,4\n5,6\n";
        let rows =
            parse(Path::new("a.csv"), text.as_bytes(), &Reading { policy, ..Reading::default() }).unwrap();
        assert_eq!(rows.tensor.to_f64(), [1.0, 2.0, 5.0, 6.0]);
        assert_eq!(rows.notes, ["a.csv: 2 rows with missing cells are left out"]);
    }
}
