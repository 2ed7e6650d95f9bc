//! Metrics: distances of pairs, where less is nearer, and the scores of a first pass.

use super::lengths::Lengths;
use engine_core::ir::{Attrs, Builder, E, Value};

/// How near a row is to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The squared distance.
    Squared,
    /// The inner product; the largest is nearest.
    Inner,
    /// 1 minus the cosine; 1 for a zero vector and for an infinite one, NaN for a NaN.
    Cosine,
}

impl Metric {
    /// The metric of a call.
    pub fn of(attrs: &Attrs) -> Metric {
        match attrs.str("metric") {
            "ip" => Metric::Inner,
            "cosine" => Metric::Cosine,
            _ => Metric::Squared,
        }
    }

    /// Its name as an attribute.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Squared => "l2",
            Metric::Inner => "ip",
            Metric::Cosine => "cosine",
        }
    }

    /// The values of queries `[m, d]` and of their candidates `[m, count]`, which are rows of the base. Less is nearer.
    pub fn values(self, b: &mut Builder, queries: Value, base: Value, candidates: Value) -> Value {
        self.values_where(b, queries, base, candidates, None)
    }

    /// As [`Metric::values`]. Candidates that are not `allowed`, `[m, count]`, count as zeros for every content of their
    /// rows, and have no gradient.
    pub fn values_where(
        self,
        b: &mut Builder,
        queries: Value,
        base: Value,
        candidates: Value,
        allowed: Option<Value>,
    ) -> Value {
        let rows = b.gather(base, candidates, 0, 0);
        let rows = zeros_elsewhere(b, rows, allowed);
        match self {
            Metric::Squared => {
                let queries_of = paired(b, queries, rows);
                let squares = b.map(&[queries_of, rows], |v| (v[0] - v[1]) * (v[0] - v[1]));
                b.sum(squares, &[2])
            }
            Metric::Inner => {
                let queries_of = paired(b, queries, rows);
                let products = b.map(&[queries_of, rows], |v| v[0] * v[1]);
                let sums = b.sum(products, &[2]);
                b.map(&[sums], |v| -v[0])
            }
            Metric::Cosine => {
                let [of_queries, of_base] = [queries, base].map(|x| Lengths::of(b, x));
                let units = of_queries.unit_rows(b, queries);
                let units = paired(b, units, rows);
                let scales = b.gather(of_base.scales, candidates, 0, 0);
                let inverses = of_base.inverses(b);
                let inverses = b.gather(inverses, candidates, 0, 0);
                let inverses = zeros_elsewhere(b, inverses, allowed);
                let of_queries = of_queries.inverses(b);
                let of_queries = b.unreduce(of_queries, &[1], candidates);
                cosine_distances(b, [units, rows], scales, [of_queries, inverses])
            }
        }
    }

    /// The values as a user reads them.
    pub fn shown(self, b: &mut Builder, values: Value) -> Value {
        match self {
            Metric::Inner => b.map(&[values], |v| -v[0]),
            _ => values,
        }
    }
}

/// Numbers of candidates, `[m, count]` or `[m, count, d]`, with zeros for those that are not allowed.
fn zeros_elsewhere(b: &mut Builder, x: Value, allowed: Option<Value>) -> Value {
    let Some(mut allowed) = allowed else { return x };
    if b.ty(x).rank() == 3 {
        allowed = b.unreduce(allowed, &[2], x);
    }
    b.map(&[x, allowed], |v| E::select(v[1], v[0], 0.0))
}

/// `1 - cos`, as `½·Σ (q/|q| - x/|x|)²`, which does not cancel: from queries at length 1, rows and their scales, and the
/// inverse norms of scaled queries and rows.
fn cosine_distances(b: &mut Builder, [units, x]: [Value; 2], scales: Value, [i, j]: [Value; 2]) -> Value {
    let [scales, j_all] = [scales, j].map(|of_rows| b.unreduce(of_rows, &[2], x));
    let squares = b.map(&[units, x, scales, j_all], |v| {
        let difference = v[0] - v[1] * v[2] * v[3];
        difference * difference
    });
    let sums = b.sum(squares, &[2]);
    b.map(&[sums, i, j], |v| {
        let lengths = v[1] * v[2];
        let others = E::select(lengths.is_nan(), lengths, 1.0);
        E::select(lengths.gt(0.0), v[0] * 0.5, others)
    })
}

/// Each query paired with each of its rows.
fn paired(b: &mut Builder, queries: Value, rows: Value) -> Value {
    let shape = b.ty(rows).shape.clone();
    b.broadcast_axes(queries, &[0, 2], &shape)
}
