//! Rows that are left out since they lack cells.

use std::path::Path;

use super::fault::{AllDropped, TableError, shortened};
use super::records::Columns;

/// The rows of a text that are left out, and where their cells are missing.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    n_rows: usize,
    /// How many cells each column lacks; columns at the end may be absent.
    n_missing: Vec<usize>,
}

impl Dropped {
    /// Counts a row, given the places of the columns that it lacks. Whether it lacks any, and is left out.
    pub(super) fn takes(&mut self, missing: impl Iterator<Item = usize>) -> bool {
        let mut missing: Vec<usize> = missing.collect();
        missing.sort_unstable();
        missing.dedup();
        let Some(&last) = missing.last() else { return false };
        self.n_rows += 1;
        if self.n_missing.len() <= last {
            self.n_missing.resize(last + 1, 0);
        }
        missing.iter().for_each(|&column| self.n_missing[column] += 1);
        true
    }

    pub(super) fn has_rows(&self) -> bool {
        self.n_rows > 0
    }

    /// The remark on these rows, if there are any.
    pub(super) fn note(&self, path: &Path) -> Option<String> {
        let n_rows = self.n_rows;
        self.has_rows().then(|| format!("{}: {n_rows} rows with missing cells are left out", path.display()))
    }

    /// The error of a text without other rows.
    pub(super) fn no_rows(&self, path: &Path, columns: &Columns) -> TableError {
        let name = |column: usize| match columns.name(column) {
            Some(name) => format!("`{}`", shortened(name)),
            None => format!("column {}", column + 1),
        };
        let lacking = self.n_missing.iter().enumerate().filter(|(_, n_missing)| **n_missing > 0);
        let columns = lacking.map(|(column, &n_missing)| (name(column), n_missing)).collect();
        let dropped = self.has_rows().then_some(AllDropped { n_rows: self.n_rows, columns });
        TableError::NoRows { path: path.to_path_buf(), dropped }
    }
}
