//! Comma-separated values (RFC 4180): lines of fields, quoted or not, each with its place.

use std::borrow::Cow;
use std::io::BufRead;
use std::path::Path;
use std::str::{self, Utf8Error};

use super::fault::{BadCell, CellFault, TableError};
use super::records::{Columns, ReadRecords, Record, Text};

/// The records of a text, read one by one. Empty lines are passed over; all others have as many fields as the first.
struct Records<'p> {
    path: &'p Path,
    reader: Box<dyn BufRead + 'p>,
    separator: char,
    /// The number of the next line.
    line: usize,
    n_columns: Option<usize>,
    /// The lines of the last record.
    bytes: Vec<u8>,
    text: String,
}

impl<'p> Records<'p> {
    fn open(text: Text<'p>, separator: char) -> Result<Records<'p>, TableError> {
        let (path, reader) = (text.path(), text.open()?);
        Ok(Records { path, reader, separator, line: 1, n_columns: None, bytes: vec![], text: String::new() })
    }

    /// The next record; none after the last one.
    fn read_next(&mut self) -> Result<Option<Record<'_>>, TableError> {
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
                return Err(TableError::NotText { path: self.path.to_path_buf(), is_gzipped: false });
            }
            let line = str::from_utf8(&self.bytes).map_err(|error| self.not_utf8(&error))?;
            // Some programs start a text with a byte order mark.
            let line = line.strip_prefix('\u{feff}').filter(|_| self.line == 1).unwrap_or(line);
            self.text.push_str(line);
            self.line += usize::from(line.ends_with('\n'));
            state = state.after(line, self.separator);
            if state != Quoting::Open {
                return Ok(true);
            }
        }
    }

    /// The error of the first byte of the last line that is no UTF-8. Such bytes must not be replaced: names that differ
    /// in them would become the same class.
    fn not_utf8(&self, error: &Utf8Error) -> TableError {
        let (before, rest) = self.bytes.split_at(error.valid_up_to());
        let before = [&self.text, str::from_utf8(before).unwrap_or_default()].concat();
        TableError::Cell(Box::new(BadCell {
            path: self.path.to_path_buf(),
            line: self.line,
            column: column_after(&before, self.separator),
            name: None,
            fault: CellFault::NotUtf8 { byte: rest.first().copied().unwrap_or_default() },
        }))
    }
}

/// The column, counted from 1, in which the start of a record ends.
fn column_after(start: &str, separator: char) -> usize {
    let mut state = Quoting::FieldStart;
    let ends_field = |letter: &char| {
        let ends = *letter == separator && state != Quoting::Open;
        state = state.after_letter(*letter, separator);
        ends
    };
    1 + start.trim_start_matches('\u{feff}').chars().filter(ends_field).count()
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
        line.chars().fold(self, |state, letter| state.after_letter(letter, separator))
    }

    fn after_letter(self, letter: char, separator: char) -> Quoting {
        match (self, letter) {
            (Quoting::Open, '"') => Quoting::Quote,
            (Quoting::Open, _) | (Quoting::Quote | Quoting::FieldStart, '"') => Quoting::Open,
            (_, letter) if letter == separator => Quoting::FieldStart,
            (Quoting::FieldStart, ' ' | '\t') => Quoting::FieldStart,
            _ => Quoting::Plain,
        }
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

/// The rows of a text of which the first line may hold the names of the columns.
pub(super) struct CsvRecords<'p> {
    columns: Columns,
    /// The first row, unless the first line holds names.
    first: Option<Record<'static>>,
    records: Records<'p>,
}

impl<'p> CsvRecords<'p> {
    pub(super) fn open(text: Text<'p>, separator: char) -> Result<CsvRecords<'p>, TableError> {
        let mut records = Records::open(text, separator)?;
        let first = records.read_next()?.map(|record| {
            let fields = record.fields.into_iter().map(|field| Cow::Owned(field.into_owned()));
            Record { line: record.line, fields: fields.collect() }
        });
        let n_columns = first.as_ref().map_or(0, |record| record.fields.len());
        let (head, first) = first.map_or((None, None), |record| match is_head(&record) {
            true => (Some(record), None),
            false => (None, Some(record)),
        });
        let names = head.map(|head| head.fields.into_iter().map(Cow::into_owned).collect());
        Ok(CsvRecords { columns: Columns { n_columns, names }, first, records })
    }
}

impl ReadRecords for CsvRecords<'_> {
    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn read_next(&mut self) -> Result<Option<Record<'_>>, TableError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.records.read_next(),
        }
    }
}

/// Whether a first record holds names: none of its fields is a number.
fn is_head(record: &Record<'_>) -> bool {
    record.fields.iter().all(|field| field.parse::<f64>().is_err())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::data::cells::{Missing, Policy};
    use crate::data::forms::FieldNames;
    use crate::data::rows::{Reading, Rows, read_text};
    use crate::tensor::HostTensor;

    fn rows(text: &str, reading: &Reading) -> Result<Rows, TableError> {
        read_text(Text::Memory(Path::new("a.csv"), text), reading)
    }

    fn csv(text: &str) -> Result<HostTensor, TableError> {
        Ok(rows(text, &Reading::default())?.tensor)
    }

    fn records(text: &str, separator: char) -> Vec<(usize, Vec<String>)> {
        let mut records = Records::open(Text::Memory(Path::new("a.csv"), text), separator).unwrap();
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

    /// In Latin-1, `ü` and `ä` are bytes that are no UTF-8.
    #[test]
    fn bytes_that_are_no_utf8_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let fault = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let error = read_text(Text::File(&path), &Reading::default()).unwrap_err();
            let TableError::Cell(cell) = error else { panic!("{error}") };
            assert_eq!(cell.fault.help(), "save the file as UTF-8");
            (cell.line, cell.column, cell.fault.to_string())
        };
        let said = |byte: &str| format!("the byte {byte} is not UTF-8");
        assert_eq!(fault(b"a,b,y\n1,2,\xfc\n3,4,\xe4\n"), (2, 3, said("0xfc")));
        assert_eq!(fault(b"\xef\xbb\xbf\"a,1\",n\xe4me\n1,2\n"), (1, 2, said("0xe4")));
        assert_eq!(fault(b"a,b,c\n1,\"x,\ny,z\",\xff\n"), (3, 3, said("0xff")));
    }

    #[test]
    fn columns_are_selected_by_name() {
        let taken = |text: &str, columns: &[&str]| {
            let columns = columns.iter().map(|name| name.to_string()).collect();
            let names = Some(FieldNames { columns, ..FieldNames::default() });
            rows(text, &Reading { names, ..Reading::default() })
        };
        let found = taken("b,c,a\n2,x,1\n4,y,3\n", &["a", "b"]).unwrap();
        assert_eq!(
            (found.tensor.shape(), found.tensor.to_f64()),
            (&[2usize, 2][..], vec![1.0, 2.0, 3.0, 4.0])
        );
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
        let reading = Reading { policy, ..Reading::default() };
        let rows = rows(text, &reading).unwrap();
        assert_eq!(rows.tensor.to_f64(), [1.0, 2.0, 5.0, 6.0]);
        assert_eq!(rows.notes, ["a.csv: 2 rows with missing cells are left out"]);
        let none = self::rows("NA,2\n,4\n", &reading).unwrap_err().to_string();
        let said = "a.csv: all rows (2) are left out, since each has a missing cell: 2 in column 1";
        assert_eq!(none, said);
    }
}
