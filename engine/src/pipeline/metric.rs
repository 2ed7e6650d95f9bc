//! Measures of retrieval, an open set of metrics.
//!
//! Training and evaluation measure nodes of the graph, so their metrics and losses are ops. A search measures the found
//! rows against the true ones, which no step of the graph sees.

use crate::op::Form;

/// A measure of the results of `Search` stages.
pub struct SearchMetric {
    /// Its name, such as `recall`.
    pub name: &'static str,
    /// One sentence for listings.
    pub summary: &'static str,
    /// The field of the split `queries` that holds the truth: `i32[queries, k]`, best first. Data without it is not
    /// measured.
    pub truth: &'static str,
    /// Numbers by their names in reports, from the found rows and the true ones.
    pub measure: fn(RowIds<'_>, RowIds<'_>) -> Vec<(String, f64)>,
}

impl Form for SearchMetric {
    const SET: &'static str = "metric of searches";

    fn name(&self) -> &str {
        self.name
    }
}

/// Row numbers of a base for each query, best first.
#[derive(Clone, Copy, Debug)]
pub struct RowIds<'r> {
    /// The numbers, query by query.
    pub ids: &'r [i32],
    /// Numbers per query.
    pub width: usize,
}

impl<'r> RowIds<'r> {
    /// The numbers of each query.
    pub fn queries(self) -> impl ExactSizeIterator<Item = &'r [i32]> {
        self.ids.chunks_exact(self.width.max(1))
    }
}
