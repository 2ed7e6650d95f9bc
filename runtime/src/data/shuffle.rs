//! The order in which an epoch visits the rows of a data set.

use crate::philox::WordStream;

/// Separates the random words of shuffling from those of other uses of the seed.
const DOMAIN: u32 = 0x5348_5546;

/// Fills `order` with a permutation of `0..order.len()` that depends on `(seed, epoch)` and the length alone.
///
/// A Fisher–Yates shuffle driven by Philox4x32-10, so every order is as likely as any other, and the same on
/// every device. Nothing is allocated.
///
/// # Panics
/// If the rows do not fit an i32 index.
pub fn epoch_order(seed: u64, epoch: u64, order: &mut [i32]) {
    assert!(i32::try_from(order.len()).is_ok(), "{} rows do not fit an i32 index", order.len());
    for (row, slot) in order.iter_mut().enumerate() {
        *slot = row as i32;
    }
    let mut stream = WordStream::new(seed, DOMAIN, epoch);
    for last in (1..order.len()).rev() {
        order.swap(last, stream.below(last as u32 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn order(seed: u64, epoch: u64, n_rows: usize) -> Vec<i32> {
        let mut order = vec![-1; n_rows];
        epoch_order(seed, epoch, &mut order);
        order
    }

    proptest! {
        #[test]
        fn is_a_permutation(seed: u64, epoch: u64, n_rows in 0usize..700) {
            let mut sorted = order(seed, epoch, n_rows);
            sorted.sort_unstable();
            prop_assert!(sorted.iter().copied().eq(0..n_rows as i32));
        }

        #[test]
        fn depends_on_nothing_but_seed_and_epoch(seed: u64, epoch: u64, n_rows in 0usize..700) {
            let mut reused = vec![i32::MAX; n_rows];
            epoch_order(seed ^ 1, epoch, &mut reused);
            epoch_order(seed, epoch, &mut reused);
            prop_assert_eq!(reused, order(seed, epoch, n_rows));
        }

        #[test]
        fn another_seed_or_epoch_is_another_order(seed: u64, epoch: u64, bit in 0u32..64) {
            let here = order(seed, epoch, 100);
            prop_assert_ne!(&here, &order(seed ^ 1 << bit, epoch, 100));
            prop_assert_ne!(&here, &order(seed, epoch ^ 1 << bit, 100));
        }
    }

    /// Values of a separate Python implementation; a change would break the resuming of old checkpoints.
    #[test]
    fn the_order_is_fixed_for_good() {
        assert_eq!(order(0, 0, 10), [8, 1, 9, 3, 4, 5, 2, 0, 7, 6]);
        assert_eq!(order(42, 3, 10), [4, 5, 1, 2, 3, 6, 8, 9, 7, 0]);
    }

    #[test]
    fn all_orders_of_four_are_equally_likely() {
        let mut counts: HashMap<Vec<i32>, u32> = HashMap::new();
        (0..24_000).for_each(|epoch| *counts.entry(order(11, epoch, 4)).or_default() += 1);
        assert_eq!(counts.len(), 24);
        let chi_squared: f64 =
            counts.values().map(|&count| (f64::from(count) - 1000.0).powi(2) / 1000.0).sum();
        // 23 degrees of freedom: the 99.9th percentile is 49.7, and the 0.1th is 7.5.
        assert!((7.5..49.7).contains(&chi_squared), "{chi_squared}");
    }

    /// Pairs of neighbours and places of 13 rows, over 8,000 epochs.
    #[test]
    fn rows_come_at_all_places_and_behind_all_others() {
        let (mut places, mut pairs) = ([[0.0f64; 13]; 13], [[0.0f64; 13]; 13]);
        for epoch in 0..8000 {
            let order = order(6, epoch, 13);
            order.iter().enumerate().for_each(|(place, &row)| places[row as usize][place] += 1.0);
            order.windows(2).for_each(|pair| pairs[pair[0] as usize][pair[1] as usize] += 1.0);
        }
        let chi_squared = |count: f64, mean: f64| (count - mean).powi(2) / mean;
        let of_places: f64 = places.iter().flatten().map(|&n| chi_squared(n, 8000.0 / 13.0)).sum();
        // 144 degrees of freedom: the 99.9th percentile is 202.
        assert!(of_places < 202.0, "{of_places}");
        assert!((0..13).all(|row| pairs[row][row] == 0.0));
        let others = pairs.iter().enumerate().flat_map(|(row, counts)| {
            counts.iter().enumerate().filter(move |(other, _)| *other != row).map(|(_, &n)| n)
        });
        let of_pairs: f64 = others.map(|n| chi_squared(n, 8000.0 / 13.0)).sum();
        // At most 155 degrees of freedom: the 99.9th percentile is 215.
        assert!(of_pairs < 215.0, "{of_pairs}");
    }
}
