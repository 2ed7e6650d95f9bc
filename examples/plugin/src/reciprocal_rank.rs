//! `reciprocal rank`: a metric of searches.

use engine::core::pipeline::{RowIds, SearchMetric};

/// The mean of 1 / the place at which the nearest true neighbour was found, 0 where it was not found.
pub const RECIPROCAL_RANK: SearchMetric = SearchMetric {
    name: "reciprocal_rank",
    summary: "The mean reciprocal rank of the nearest true neighbour.",
    truth: "neighbours",
    measure: |found, truth| vec![("mrr".to_owned(), mean(found, truth))],
};

fn mean(found: RowIds, truth: RowIds) -> f64 {
    let rank = |found: &[i32], nearest: i32| found.iter().position(|&id| id == nearest);
    let reciprocal = |place: usize| 1.0 / (place + 1) as f64;
    let queries = found.queries().zip(truth.queries());
    let n_queries = queries.len().max(1);
    let ranks = queries.filter_map(|(found, truth)| rank(found, *truth.first()?));
    ranks.map(reciprocal).sum::<f64>() / n_queries as f64
}
