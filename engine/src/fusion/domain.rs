//! The points that a kernel visits.

/// How often a kernel computes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Once per kernel.
    Uniform,
    /// Once per row: `outer · inner` points.
    Row,
    /// At each of the `outer · row · inner` points.
    Element,
}

/// The points that a kernel visits, row-major: `row` is the extent that reductions run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    /// Points before the reduced extent.
    pub outer: usize,
    /// The reduced extent; for a map kernel, all points.
    pub row: usize,
    /// Points after the reduced extent; 1 when rows are contiguous.
    pub inner: usize,
}

impl Domain {
    /// `n_points` points in one row.
    pub fn flat(n_points: usize) -> Domain {
        Domain { outer: 1, row: n_points, inner: 1 }
    }

    /// The domain of a reduction of a tensor over adjacent axes.
    pub fn of_reduction(extents: &[usize], axes: &[usize]) -> Domain {
        let first = axes.first().copied().unwrap_or(0);
        let last = axes.last().copied().unwrap_or(0);
        Domain {
            outer: extents[..first].iter().product(),
            row: axes.iter().map(|&axis| extents[axis]).product(),
            inner: extents[(last + 1).min(extents.len())..].iter().product(),
        }
    }

    /// Number of points of a class.
    pub fn points(&self, class: Class) -> usize {
        match class {
            Class::Uniform => 1,
            Class::Row => self.outer * self.inner,
            Class::Element => self.outer * self.row * self.inner,
        }
    }
}
