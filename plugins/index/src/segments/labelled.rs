//! Rows with labels, and the means of these.

use engine_core::ir::{Builder, Value};

/// The operands of a mean, in `f32` or wider.
pub struct Means {
    /// The rows.
    pub x: Value,
    /// Their labels, within range.
    pub label: Value,
    /// The means so far.
    pub c: Value,
    /// The weights of the rows.
    pub weights: Option<Value>,
    /// The weight of each label: `i32[…, K]` without weights.
    pub total: Value,
    /// Whether each label has a mean.
    pub is_full: Value,
}

impl Means {
    /// The axis of rows, and of labels in c.
    pub fn axis(&self, b: &Builder) -> usize {
        b.ty(self.label).rank() - 1
    }

    /// The number of labels.
    pub fn n_labels(&self, b: &Builder) -> usize {
        b.extents(self.c)[self.axis(b)]
    }
}
