//! `recall`, the metric of searches.

use engine_core::pipeline::{RowIds, SearchMetric};

/// The counts that recall is reported for.
const AT: [usize; 3] = [1, 10, 100];

/// The share of the true neighbours among the found ones, for the first k of both.
pub fn recall() -> SearchMetric {
    SearchMetric {
        name: "recall",
        summary: "The share of the first k true neighbours that are among the first k found, at 1, 10 and 100.",
        truth: "neighbours",
        measure: |found, truth| {
            let most = found.width.min(truth.width);
            AT.into_iter()
                .filter(|&k| k <= most)
                .map(|k| (format!("recall@{k}"), at(found, truth, k)))
                .collect()
        },
    }
}

fn at(found: RowIds, truth: RowIds, k: usize) -> f64 {
    let queries = found.queries().zip(truth.queries());
    let n_queries = queries.len();
    let hits = |(found, truth): (&[i32], &[i32])| {
        let truth = &truth[..k.min(truth.len())];
        found[..k.min(found.len())].iter().filter(|id| truth.contains(id)).count()
    };
    queries.map(hits).sum::<usize>() as f64 / (n_queries * k).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recall_counts_the_common_rows_among_the_first() {
        let found = RowIds { ids: &[1, 2, 3, 4, 5, 6], width: 3 };
        let truth = RowIds { ids: &[3, 2, 1, 0, 4, 9, 9, 6], width: 4 };
        assert_eq!(at(found, truth, 1), 0.5);
        assert_eq!(at(found, truth, 3), 4.0 / 6.0);
        assert_eq!((recall().measure)(found, truth), [("recall@1".to_owned(), 0.5)]);
    }
}
