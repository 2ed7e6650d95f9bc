//! Sorting and selecting along an axis, and search.
//!
//! All ops share one order: numbers as they compare, in either direction. -0 and 0 are equal. NaN comes after every
//! number in both directions. Equal elements keep their order.

mod axis;
mod draw_code;
mod draw_fold;
mod draw_rows;
mod nearest;
mod quantile;
mod ragged;
mod rank;
mod rank_words;
mod recall;
mod searchsorted;
mod select;
mod sort;
mod sort_block;
mod sort_entry;
mod sort_gpu;
mod sort_merge;
mod sort_rows;
mod topk;
mod topk_buffer;
mod topk_code;
mod topk_ending;
mod topk_form;
mod topk_gpu;
mod topk_rows;
mod topk_trim;

pub use draw_rows::draw_rows;
pub use nearest::{
    near_least, nearest, nearest_centre, nearest_of_lists, nearest_rows, rows_by_bounds, within,
};
pub use quantile::{kthvalue, median, quantile};
pub use ragged::{
    compact, masked_select, nonzero, rank_select, segment_reduce, segment_softmax, spread, unique,
};
pub use recall::recall;
pub use searchsorted::{bucketize, searchsorted};
pub use sort::{argsort, sort};
pub use sort_rows::sort_rows;
pub use topk::topk;
pub use topk_rows::topk_rows;

use engine_core::op::{OpForm, Plugin, Registry};

/// Sorting and selecting along an axis, and search.
pub struct Order;

impl Plugin for Order {
    fn name(&self) -> &str {
        "order"
    }

    fn ops(&self) -> Vec<OpForm> {
        let along_axes = vec![sort(), argsort(), topk(), kthvalue(), median(), quantile()];
        let others = [
            searchsorted(),
            bucketize(),
            sort_rows(),
            topk_rows(),
            draw_rows(),
            nearest(),
            nearest_rows(),
            rows_by_bounds(),
            nearest_of_lists(),
            nearest_centre(),
            near_least(),
        ];
        let ragged = [
            within(),
            within().alias("range_search", "range_search(a, b, c, cap=4)"),
            rank_select(),
            compact(),
            nonzero(),
            masked_select(),
            unique(),
            segment_reduce(),
            spread(),
            segment_softmax(),
        ];
        along_axes.into_iter().map(OpForm::takes_scalars).chain(others).chain(ragged).collect()
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(recall());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        testing::assert_families(&[&Order], include_str!("../../../tests/examples/order.json"));
    }

    #[test]
    fn ragged_results_are_those_of_loops() {
        testing::assert_families(&[&Order], include_str!("../../../tests/examples/ragged.json"));
    }
}
