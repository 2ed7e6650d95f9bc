//! Neighbours that are evenly spaced in memory, and the axis that products of a few rows go along.

use super::matrix::Matrix;
use super::tiles::FEW_ROWS;

/// The shortest mean run of neighbours that are read as vectors.
const SHORTEST: usize = 4;

/// Neighbouring rows or columns that are evenly spaced in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of the first one.
    pub start: usize,
    pub len: usize,
}

/// The runs of offsets that are `step` apart.
pub fn runs_of(offsets: &[isize], step: isize) -> Vec<Run> {
    let mut runs: Vec<Run> = vec![];
    for (i, offset) in offsets.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if *offset == offsets[i - 1] + step => run.len += 1,
            _ => runs.push(Run { start: i, len: 1 }),
        }
    }
    runs
}

/// The axis that lanes run along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// A lane is a column of the result.
    Columns,
    /// A lane is a part of the contraction.
    Contraction,
}

impl Along {
    /// The axis with longer runs; `None` if both have short ones.
    pub fn of(rows: (usize, &[Run]), columns: (usize, &[Run])) -> Option<Along> {
        let mean = |(n, runs): (usize, &[Run])| n / runs.len().max(1);
        let (row, column) = (mean(rows), mean(columns));
        match row >= SHORTEST && row > column {
            true => Some(Along::Contraction),
            false => (column >= SHORTEST).then_some(Along::Columns),
        }
    }

    /// Whether a product of this left matrix goes along the axis.
    pub fn fits<T>(self, a: &Matrix<T>) -> bool {
        (1..=FEW_ROWS).contains(&a.n_rows) && (self == Along::Columns || a.column_stride == 1)
    }
}
