//! Why rows of a file cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use engine_core::ir::DType;
use thiserror::Error;

use super::idx::IdxError;
use super::npy::NpyError;
use super::npz::NpzError;
use super::vecs::VecsError;
use crate::tensor::TensorError;

/// Why a file's rows cannot be used.
#[derive(Debug, Error)]
pub enum TableError {
    /// The file cannot be opened or read.
    #[error("{}: cannot be read: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: io::Error,
    },
    /// A file of no known format, which is no text either.
    #[error("{}: is {}", .path.display(), not_text(*.is_gzipped))]
    NotText {
        /// The file.
        path: PathBuf,
        /// Whether it is gzipped, as only IDX files may be.
        is_gzipped: bool,
    },
    /// A cell cannot be an element.
    #[error(transparent)]
    Cell(Box<BadCell>),
    /// The first line lacks columns that are taken by name.
    #[error("{}: there is no column {}", .path.display(), listed(.missing.iter().map(|(name, _)| name)))]
    MissingColumns {
        /// The file.
        path: PathBuf,
        /// The missing names, each with the most similar present name.
        missing: Vec<(String, Option<String>)>,
        /// The present names.
        known: Vec<String>,
    },
    /// Two columns have the same name.
    #[error("{}: two columns are called `{}`", .path.display(), shortened(.name))]
    SameName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A line with more or fewer columns than those before.
    #[error("{}:{line}: {found} columns, the lines before have {expected}", .path.display())]
    Ragged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Columns of the lines before.
        expected: usize,
        /// Columns of this line.
        found: usize,
    },
    /// A quotation without an end, or with more behind it.
    #[error("{}:{line}: column {column}: the quotation does not end, or not the field", .path.display())]
    BadQuote {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
    },
    /// A line of JSON Lines that is no row.
    #[error("{}:{line}: {why}", .path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The fault.
        why: String,
    },
    /// A file without names has more or fewer columns than those that training took.
    #[error("{}: a row has {found} columns, in training it had {expected}", .path.display())]
    WrongColumns {
        /// The file.
        path: PathBuf,
        /// Columns in training.
        expected: usize,
        /// Columns of the file.
        found: usize,
    },
    /// There are no rows, or none without a missing cell where such rows are left out.
    #[error("{}: {}", .path.display(), no_rows_text(.dropped.as_ref()))]
    NoRows {
        /// The file.
        path: PathBuf,
        /// The rows that were left out.
        dropped: Option<AllDropped>,
    },
    /// The rows have another number of elements than the input takes.
    #[error("rows of {found} do not fit an input of {expected}")]
    WrongRow {
        /// The type of one row of the input.
        expected: String,
        /// The type of one row of the file.
        found: String,
    },
    /// A number that the input's element type cannot hold.
    #[error(
        "{}row {row}{}: {value} is no {dtype}",
        file_text(.path.as_deref()),
        element_text(*.element)
    )]
    WrongValue {
        /// The file, if the rows are those of one.
        path: Option<PathBuf>,
        /// The row, counted from 0.
        row: usize,
        /// The element of the row, counted from 0, if rows have several.
        element: Option<usize>,
        /// The number.
        value: String,
        /// The input's element type.
        dtype: DType,
    },
    /// An IDX file cannot be used.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// A `.npy` file cannot be used.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// A `.npz` file cannot be used.
    #[error(transparent)]
    Npz(#[from] NpzError),
    /// A file of vectors cannot be used.
    #[error(transparent)]
    Vecs(#[from] VecsError),
    /// So much cannot be held.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Rows that were all left out, since each lacks a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllDropped {
    /// How many there were.
    pub n_rows: usize,
    /// The columns with missing cells, in their order, and how many cells each lacks.
    pub columns: Vec<(String, usize)>,
}

fn no_rows_text(dropped: Option<&AllDropped>) -> String {
    let Some(AllDropped { n_rows, columns }) = dropped else { return "has no rows".to_string() };
    let columns = shown(columns.iter().map(|(name, n_missing)| format!("{n_missing} in {name}")));
    format!("all rows ({n_rows}) are left out, since each has a missing cell: {columns}")
}

fn not_text(is_gzipped: bool) -> &'static str {
    match is_gzipped {
        true => "gzipped, which only IDX files may be; decompress it",
        false => "neither text nor of a format that is known",
    }
}

impl TableError {
    /// The error of a file or a folder without rows.
    pub(super) fn no_rows(path: &Path) -> Self {
        TableError::NoRows { path: path.to_path_buf(), dropped: None }
    }

    /// The error of a gzipped file of a kind that is read only as it is.
    pub(super) fn gzipped(path: &Path) -> Self {
        TableError::NotText { path: path.to_path_buf(), is_gzipped: true }
    }

    /// The error of rows that were read from this file.
    pub fn in_file(mut self, file: &Path) -> Self {
        if let TableError::WrongValue { path, .. } = &mut self {
            *path = Some(file.to_path_buf());
        }
        self
    }
}

fn file_text(path: Option<&Path>) -> String {
    path.map_or(String::new(), |path| format!("{}: ", path.display()))
}

fn element_text(element: Option<usize>) -> String {
    element.map_or(String::new(), |element| format!(", element {element}"))
}

/// Up to eight names.
pub(crate) fn listed<'n>(names: impl Iterator<Item = &'n String>) -> String {
    shown(names.map(|name| format!("`{}`", shortened(name))))
}

/// Up to eight entries of a list.
fn shown(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<String> = names.collect();
    if let Some(more @ 1..) = names.len().checked_sub(SHOWN) {
        names.truncate(SHOWN);
        names.push(format!("… ({more} more)"));
    }
    names.join(", ")
}

pub(super) fn name_text(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!(" (`{}`)", shortened(name)))
}

/// A cell that cannot be an element.
#[derive(Debug, Error)]
#[error("{}:{line}: column {column}{}: {fault}", .path.display(), name_text(.name.as_deref()))]
pub struct BadCell {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The column's name, if the file has names.
    pub name: Option<String>,
    /// The fault.
    pub fault: CellFault,
}

/// Why a cell cannot be an element.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum CellFault {
    /// It holds no value.
    #[error("the value is missing{}", said(.0))]
    Missing(String),
    /// It holds something else than a number.
    #[error("`{0}` is not a number")]
    NotANumber(String),
    /// It holds an infinity or NaN.
    #[error("`{0}` is not a finite number")]
    NotFinite(String),
    /// It holds a byte of another encoding.
    #[error("the byte {byte:#04x} is not UTF-8")]
    NotUtf8 {
        /// The byte.
        byte: u8,
    },
    /// Its number is none of the element type.
    #[error("{text} is no {dtype}")]
    Unfit {
        /// The number as it is written.
        text: String,
        /// The element type.
        dtype: DType,
    },
    /// It names no class that the training rows have.
    #[error("`{text}` is none of the {n_classes} names of this column in the training rows")]
    UnknownClass {
        /// The name.
        text: String,
        /// The number of known names.
        n_classes: usize,
    },
    /// The column holds numbers in some rows and names in others.
    #[error("`{text}` is {found}, {n_others} other cells of this column are {others}")]
    Mixed {
        /// The cell.
        text: String,
        /// The kind of the cell.
        found: &'static str,
        /// The number of cells of another kind.
        n_others: usize,
        /// The kind of those cells.
        others: &'static str,
    },
}

impl CellFault {
    /// The fault of a name that is none of these many classes.
    pub(super) fn unknown(cell: &str, n_classes: usize) -> CellFault {
        CellFault::UnknownClass { text: shortened(cell), n_classes }
    }

    /// One concrete thing to do.
    pub fn help(&self) -> &'static str {
        match self {
            CellFault::Missing(_) => "fill in the cell; the option `missing: \"drop\"` leaves such rows out",
            CellFault::UnknownClass { .. } => {
                "correct the cell; the option `unknown: \"class\"` gives such names a class of their own"
            }
            CellFault::NotUtf8 { .. } => "save the file as UTF-8",
            CellFault::NotANumber(_) => "write numbers, and names in the first line only",
            CellFault::NotFinite(_) => "correct the cell; the option `non_finite: true` takes it as it is",
            CellFault::Unfit { .. } => "declare the input with an element type that holds the number",
            CellFault::Mixed { .. } => {
                "correct the cell; the option `label_as: \"classes\"` takes every cell as the name of a class"
            }
        }
    }
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" (`{text}`)") }
}

/// The start of a text from a file, for a message.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
