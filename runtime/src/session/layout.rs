//! How the rows of a split fall into batches.

use engine_core::ir::Symbol;
use engine_core::pipeline::LastBatch;
use engine_core::stage::{Rows, SplitShape};

use super::error::SessionError;

/// How the rows of a split fall into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Rows of a step.
    pub(super) batch: usize,
    /// Batches that make a step.
    pub(super) n_parts: usize,
    pub(super) n_full: usize,
    /// Rows of the short batch; 0 if there is none.
    pub(super) last_rows: usize,
}

impl Layout {
    pub(super) fn new(
        stage: &Symbol,
        n_rows: usize,
        (batch, n_parts): (usize, usize),
        last: LastBatch,
    ) -> Result<Self, SessionError> {
        let batch = batch.saturating_mul(n_parts);
        let rows_error = |why: String| SessionError::Rows { stage: stage.clone(), why };
        if batch == 0 {
            return Err(rows_error("a batch needs at least one row".to_string()));
        }
        if i32::try_from(n_rows).is_err() {
            return Err(rows_error(format!("{n_rows} rows do not fit an i32 index")));
        }
        let last_rows = if last == LastBatch::Short { n_rows % batch } else { 0 };
        let layout = Layout { batch, n_parts, n_full: n_rows / batch, last_rows };
        if layout.steps() == 0 {
            let wanted = match n_parts {
                1 => format!("no batch of {batch}"),
                _ => format!("no step of {n_parts} batches of {}", batch / n_parts),
            };
            return Err(rows_error(format!("the data has {n_rows} rows, which make {wanted}")));
        }
        Ok(layout)
    }

    /// The whole batches of an epoch.
    pub(super) fn whole(shape: &SplitShape, batch: usize) -> Rows {
        let batch = batch.clamp(1, shape.n_rows.max(1));
        Rows::Batches { batch, per_epoch: (shape.n_rows / batch).max(1) }
    }

    /// Batches, the short one included.
    pub(super) fn steps(&self) -> usize {
        self.n_full + usize::from(self.last_rows > 0)
    }

    /// Rows in all batches.
    pub(super) fn rows(&self) -> usize {
        self.n_full * self.batch + self.last_rows
    }

    /// Rows before the batch of this number.
    pub(super) fn rows_before(&self, position: usize) -> usize {
        (position * self.batch).min(self.rows())
    }

    /// Whether a step takes a whole batch or the short one.
    pub(super) fn size_of(&self, step: u64) -> Size {
        match (step % self.steps() as u64) < self.n_full as u64 {
            true => Size::Whole,
            false => Size::Short,
        }
    }

    /// The two ways to take rows, as far as there are such batches.
    pub(super) fn ways(&self) -> (Option<Rows>, Option<Rows>) {
        let full = Rows::Batches { batch: self.batch / self.n_parts, per_epoch: self.steps() * self.n_parts };
        let last = Rows::Last { first: self.n_full * self.batch, rows: self.last_rows };
        ((self.n_full > 0).then_some(full), (self.last_rows > 0).then_some(last))
    }
}

/// Which of the two plans of a stage takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Whole,
    Short,
}
