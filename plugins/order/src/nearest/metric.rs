//! Metrics: distances of pairs, where less is nearer, and the scores of a first pass.

use engine_core::ir::{Attrs, Builder, E, Value};

/// How near a row is to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The squared distance.
    Squared,
    /// The inner product; the largest is nearest.
    Inner,
    /// 1 minus the cosine; 1 for a zero vector.
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
        let queries_of = paired(b, queries, rows);
        match self {
            Metric::Squared => {
                let squares = b.map(&[queries_of, rows], |v| (v[0] - v[1]) * (v[0] - v[1]));
                b.sum(squares, &[2])
            }
            Metric::Inner => {
                let products = b.map(&[queries_of, rows], |v| v[0] * v[1]);
                let sums = b.sum(products, &[2]);
                b.map(&[sums], |v| -v[0])
            }
            Metric::Cosine => {
                let of_rows = inverse_norms(b, base);
                let of_rows = b.gather(of_rows, candidates, 0, 0);
                let of_rows = zeros_elsewhere(b, of_rows, allowed);
                let of_queries = inverse_norms(b, queries);
                let of_queries = b.unreduce(of_queries, &[1], candidates);
                cosine_distances(b, [queries_of, rows], [of_queries, of_rows])
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

/// `|x|²` of each row.
pub fn squared_norms(b: &mut Builder, x: Value) -> Value {
    let squares = b.map(&[x], |v| v[0] * v[0]);
    b.sum(squares, &[1])
}

/// `1 / |x|` of each row, 0 of a zero row.
fn inverse_norms(b: &mut Builder, x: Value) -> Value {
    let squares = squared_norms(b, x);
    inverses(b, squares)
}

/// `1 / √x`, 0 of 0.
pub fn inverses(b: &mut Builder, squares: Value) -> Value {
    b.map(&[squares], |v| E::select(v[0].gt(0.0), v[0].rsqrt(), 0.0))
}

/// `1 - cos`, as `½·Σ (q/|q| - x/|x|)²`, which does not cancel, from the inverse norms of both.
fn cosine_distances(b: &mut Builder, [q, x]: [Value; 2], [i, j]: [Value; 2]) -> Value {
    let [i_all, j_all] = [i, j].map(|norms| b.unreduce(norms, &[2], x));
    let squares = b.map(&[q, i_all, x, j_all], |v| {
        let difference = v[0] * v[1] - v[2] * v[3];
        difference * difference
    });
    let sums = b.sum(squares, &[2]);
    b.map(&[sums, i, j], |v| E::select((v[1] * v[2]).gt(0.0), v[0] * 0.5, 1.0))
}

/// Each query paired with each of its rows.
fn paired(b: &mut Builder, queries: Value, rows: Value) -> Value {
    let shape = b.ty(rows).shape.clone();
    b.broadcast_axes(queries, &[0, 2], &shape)
}
