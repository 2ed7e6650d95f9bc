//! The best of some candidates by their values.

use super::metric::Metric;
use super::{picked, sorted, topk};
use engine_core::ir::{Builder, Value};

/// A search of `[m, d]` queries among `[n, d]` rows.
pub struct Search {
    /// How near rows are.
    pub metric: Metric,
    /// The queries in the type of their accumulator.
    pub queries: Value,
    /// The base, likewise.
    pub base: Value,
    /// How many rows are wanted, at most n.
    pub k: usize,
}

impl Search {
    /// The k best of the candidates `[m, count]` in ascending order, and the value of the last of them, `[m]`. Candidates
    /// ascend, so that equal values are ordered by row.
    pub fn best(&self, b: &mut Builder, candidates: Value) -> (Value, Value) {
        let m = b.extents(candidates)[0];
        let values = self.metric.values(b, self.queries, self.base, candidates);
        let best = topk(b, values, self.k, false);
        let last = b.slice(best[0], &[0, self.k - 1], &[m, 1], &[1, 1]);
        let last = b.reshape(last, &[m]);
        let places = sorted(b, best[1]);
        (picked(b, candidates, places), last)
    }
}
