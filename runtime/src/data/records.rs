//! Texts of rows: their columns, and their rows one by one, in any syntax.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use engine_core::diag::nearest;

use super::fault::TableError;
use super::idx::GZIP_MAGIC;
use crate::files;

/// The syntax of a text of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Lines of fields (RFC 4180).
    Csv {
        /// The character between fields.
        separator: char,
    },
    /// One JSON object on each line.
    JsonLines,
}

impl Default for Syntax {
    fn default() -> Self {
        Syntax::Csv { separator: ',' }
    }
}

/// A text of rows. Its path is named in errors.
#[derive(Clone, Copy, Debug)]
pub enum Text<'t> {
    /// The content of a file.
    File(&'t Path),
    /// A text in memory, under a path that is not opened.
    Memory(&'t Path, &'t str),
}

impl<'t> Text<'t> {
    /// The path.
    pub fn path(&self) -> &'t Path {
        match self {
            Text::File(path) | Text::Memory(path, _) => path,
        }
    }

    /// The text from its start on.
    pub(super) fn open(&self) -> Result<Box<dyn BufRead + 't>, TableError> {
        match self {
            Text::Memory(_, text) => Ok(Box::new(text.as_bytes())),
            Text::File(path) => match files::open(path) {
                Ok((file, _)) => reader_of(path, file),
                Err(error) => Err(unreadable(path, error)),
            },
        }
    }
}

/// The content of a file, unless it is gzipped.
fn reader_of(path: &Path, file: File) -> Result<Box<dyn BufRead>, TableError> {
    let mut reader = BufReader::new(file);
    match reader.fill_buf() {
        Ok(head) if head.starts_with(GZIP_MAGIC) => Err(TableError::gzipped(path)),
        Ok(_) => Ok(Box::new(reader)),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn unreadable(path: &Path, error: io::Error) -> TableError {
    TableError::Unreadable { path: path.to_path_buf(), error }
}

/// One row of a text.
#[derive(Debug)]
pub struct Record<'t> {
    /// Where it starts, counted from 1.
    pub line: usize,
    /// Its cells, one for each column.
    pub fields: Vec<Cow<'t, str>>,
}

/// The rows of a text.
pub(super) trait ReadRecords {
    /// The columns of all rows.
    fn columns(&self) -> &Columns;

    /// The next row; none after the last one.
    ///
    /// # Errors
    /// If the file cannot be read or is no text, and for a row with a fault.
    fn read_next(&mut self) -> Result<Option<Record<'_>>, TableError>;
}

/// The columns of a text: their number, and their names if the text holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// How many there are.
    pub n_columns: usize,
    /// Their names.
    pub names: Option<Vec<String>>,
}

impl Columns {
    /// The name of a column, if it has one.
    pub(super) fn name(&self, column: usize) -> Option<&str> {
        self.names.as_ref()?.get(column).map(String::as_str)
    }

    /// The columns of these names, in this order; all columns of a text without names.
    ///
    /// # Errors
    /// If the text has names, and a requested one is missing or duplicate.
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
