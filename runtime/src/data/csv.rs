//! Comma-separated values (RFC 4180): lines of fields, quoted or not, each with its place.

use std::borrow::Cow;
use std::path::Path;

use super::table::TableError;
use crate::tensor::HostTensor;

/// One row of a file.
#[derive(Debug)]
pub struct Record<'t> {
    /// Where it starts, counted from 1.
    pub line: usize,
    /// Its fields, without quotes and without blanks around them.
    pub fields: Vec<Cow<'t, str>>,
}

/// The records of a text. Empty lines are passed over; all others have as many fields as the first.
pub struct Records<'t> {
    path: &'t Path,
    rest: &'t str,
    separator: char,
    line: usize,
    n_columns: Option<usize>,
}

impl<'t> Records<'t> {
    /// Reads a text; `path` is named in errors and not opened.
    pub fn new(path: &'t Path, text: &'t str, separator: char) -> Records<'t> {
        // Some programs start a text with a byte order mark.
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        Records { path, rest, separator, line: 1, n_columns: None }
    }

    fn record(&mut self) -> Result<Record<'t>, TableError> {
        let line = self.line;
        let mut fields = vec![self.field(1)?];
        while let Some(rest) = self.rest.strip_prefix(self.separator) {
            self.rest = rest;
            fields.push(self.field(fields.len() + 1)?);
        }
        self.skip_line_end();
        let (expected, found) = (*self.n_columns.get_or_insert(fields.len()), fields.len());
        match found == expected {
            true => Ok(Record { line, fields }),
            false => Err(TableError::Ragged { path: self.path.to_path_buf(), line, expected, found }),
        }
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
        let bad = || TableError::BadQuote { path: self.path.to_path_buf(), line: self.line, column };
        let mut end = 0;
        loop {
            end += after_quote[end..].find('"').ok_or_else(bad)?;
            match after_quote[end + 1..].starts_with('"') {
                true => end += 2,
                false => break,
            }
        }
        let (field, rest) = (&after_quote[..end], &after_quote[end + 1..]);
        let bad = bad();
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

    fn skip_line_end(&mut self) {
        self.line += usize::from(self.rest.starts_with('\n'));
        self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
    }
}

impl<'t> Iterator for Records<'t> {
    type Item = Result<Record<'t>, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            if !self.rest[..end].trim().is_empty() {
                return Some(self.record());
            }
            self.rest = &self.rest[end..];
            self.skip_line_end();
        }
        None
    }
}

/// A field as a number; its place is named if it is none.
pub(super) fn number(path: &Path, record: &Record<'_>, column: usize) -> Result<f64, TableError> {
    let field = &record.fields[column];
    field.parse().map_err(|_| TableError::NotANumber {
        path: path.to_path_buf(),
        line: record.line,
        column: column + 1,
        text: field.chars().take(MOST_SHOWN).collect(),
    })
}

/// Characters of a field that a message repeats.
const MOST_SHOWN: usize = 40;

/// Whether a first record holds names: none of its fields is a number.
pub(super) fn is_head(record: &Record<'_>) -> bool {
    record.fields.iter().all(|field| field.parse::<f64>().is_err())
}

/// Reads numbers, one row a line, as `f64[rows, columns]`. The first line may hold names instead.
///
/// # Errors
/// If a field is no number, or lines have unequal numbers of fields.
pub fn parse(path: &Path, text: &str) -> Result<HostTensor, TableError> {
    let mut numbers: Vec<f64> = vec![];
    let (mut n_rows, mut n_columns) = (0, 0);
    for record in Records::new(path, text, ',') {
        let record = record?;
        let is_first = n_columns == 0;
        n_columns = record.fields.len();
        if is_first && is_head(&record) {
            continue;
        }
        for column in 0..n_columns {
            numbers.push(number(path, &record, column)?);
        }
        n_rows += 1;
    }
    Ok(HostTensor::from_slice(&[n_rows, n_columns], &numbers)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn csv(text: &str) -> Result<HostTensor, TableError> {
        parse(Path::new("a.csv"), text)
    }

    fn records(text: &str, separator: char) -> Vec<(usize, Vec<String>)> {
        let records = Records::new(Path::new("a.csv"), text, separator).map(Result::unwrap);
        let owned = |record: Record<'_>| record.fields.into_iter().map(Cow::into_owned).collect();
        records.map(|record| (record.line, owned(record))).collect()
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
    fn quotes_hold_what_would_end_a_field() {
        let text = "a; \"b;\"\"c\"\"\nd\" ;e\n\n \"\";f;\n";
        let expected = |line, fields: [&str; 3]| (line, fields.map(String::from).to_vec());
        let read = records(text, ';');
        assert_eq!(read, [expected(1, ["a", "b;\"c\"\nd", "e"]), expected(4, ["", "f", ""])]);
        assert_eq!(records("1\t\t2", '\t'), [expected(1, ["1", "", "2"])]);
    }

    #[test]
    fn lines_that_are_no_rows_are_named() {
        let error = |text| csv(text).unwrap_err().to_string();
        assert_eq!(error("1,2\n3,x\n"), "a.csv:2: column 2: `x` is not a number");
        assert_eq!(error("1,2\n\n3,\n"), "a.csv:3: column 2: `` is not a number");
        assert_eq!(error("1,2\n\n3\n"), "a.csv:3: 1 columns, the lines before have 2");
        assert_eq!(error("a,b\nc,d\n"), "a.csv:2: column 1: `c` is not a number");
        assert_eq!(error("a,b,c\n1,2\n"), "a.csv:2: 2 columns, the lines before have 3");
        assert_eq!(error("1,2\n3,\"4\n"), "a.csv:2: column 2: the quotation does not end, or not the field");
        assert_eq!(error("1,\"2\"3\n"), "a.csv:1: column 2: the quotation does not end, or not the field");
    }
}
