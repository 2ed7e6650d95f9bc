//! The best of some candidates by their values.

use super::filter::Filter;
use super::metric::Metric;
use super::{picked, sorted, topk};
use crate::axis::called;
use engine_core::ir::{Attr, Attrs, Builder, Value};

/// A search of `[m, d]` queries among `[n, d]` rows.
pub struct Search {
    /// How near rows are.
    pub metric: Metric,
    /// The queries in the type of their accumulator.
    pub queries: Value,
    /// The base, likewise.
    pub base: Value,
    /// The rows that may be found.
    pub filter: Option<Filter>,
    /// How many rows are wanted, at most n.
    pub k: usize,
}

impl Search {
    /// The values of candidates `[m, count]`; less is nearer. Those of hidden rows are NaN.
    pub fn values(&self, b: &mut Builder, candidates: Value) -> Value {
        let values = self.metric.values(b, self.queries, self.base, candidates);
        match self.filter {
            Some(filter) => filter.hide(b, values, candidates),
            None => values,
        }
    }

    /// The k nearest of the rows that each query lists, `i32[m, k]` ascending: `lists` `[m, room]` have `counts` `[m]` rows,
    /// or all rows where the count is negative.
    pub fn nearest_of_lists(&self, b: &mut Builder, lists: Value, counts: Value) -> Value {
        let attrs = Attrs::default()
            .with("k", Attr::from(self.k as i64))
            .with("metric", Attr::from(self.metric.name()));
        let operands = [self.queries, self.base, lists, counts].into_iter();
        let operands: Vec<Value> = operands.chain(self.filter.map(|filter| filter.value())).collect();
        called(b, "nearest_of_lists", &operands, attrs)[0]
    }

    /// The k best of the candidates `[m, count]` in ascending order, and the value of the last of them, `[m]`. Candidates
    /// ascend, so that equal values are ordered by row.
    pub fn best(&self, b: &mut Builder, candidates: Value) -> (Value, Value) {
        let m = b.extents(candidates)[0];
        let values = self.values(b, candidates);
        let best = topk(b, values, self.k, false);
        let last = b.slice(best[0], &[0, self.k - 1], &[m, 1], &[1, 1]);
        let last = b.reshape(last, &[m]);
        let places = sorted(b, best[1]);
        (picked(b, candidates, places), last)
    }
}
