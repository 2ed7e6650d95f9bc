//! A search structure for intervals that overlap a given interval.

use crate::work::steps;

/// A set of intervals from a list that is known from the start; they are added one by one. It is a priority search
/// tree: ordered by start, with the last end below each tree node.
pub struct Intervals {
    /// Intervals in order of start: number and start.
    by_start: Vec<(usize, usize)>,
    /// The place of each interval in that order, and its end.
    places: Vec<(usize, usize)>,
    /// A binary tree with the intervals as leaves. A node holds 1 + the last end of the added intervals below it, or 0
    /// if there is none. Node `i` has children `2i` and `2i + 1`.
    ends: Vec<usize>,
}

impl Intervals {
    /// An empty set that can hold these intervals. Both ends belong to an interval.
    pub fn new(intervals: &[(usize, usize)]) -> Intervals {
        let mut by_start: Vec<(usize, usize)> =
            intervals.iter().enumerate().map(|(id, &(start, _))| (id, start)).collect();
        by_start.sort_unstable_by_key(|&(id, start)| (start, id));
        let mut places = vec![(0, 0); intervals.len()];
        for (place, &(id, _)) in by_start.iter().enumerate() {
            places[id] = (place, intervals[id].1);
        }
        let n_leaves = intervals.len().next_power_of_two();
        Intervals { by_start, places, ends: vec![0; 2 * n_leaves] }
    }

    /// Adds interval `id`.
    pub fn add(&mut self, id: usize) {
        let (place, end) = self.places[id];
        let mut node = self.ends.len() / 2 + place;
        while node > 0 {
            self.ends[node] = self.ends[node].max(end.saturating_add(1));
            node /= 2;
        }
    }

    /// The added intervals that overlap this one.
    pub fn meeting(&self, (start, end): (usize, usize)) -> Vec<usize> {
        let n_leaves = self.ends.len() / 2;
        // Intervals that start before the end come first in the order.
        let in_time = self.by_start.partition_point(|&(_, other)| other <= end);
        let mut found = vec![];
        // Open tree nodes with the first place below them and the number of places.
        let mut open = vec![(1, 0, n_leaves)];
        while let Some((node, first, n)) = open.pop() {
            steps(1);
            if first >= in_time || self.ends[node] <= start {
                continue;
            }
            match n {
                1 => found.push(self.by_start[first].0),
                _ => open.extend([(2 * node, first, n / 2), (2 * node + 1, first + n / 2, n / 2)]),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn those_that_meet_are_found(
            intervals in prop::collection::vec((0usize..50, 0usize..20), 0..40),
            n_added in 0usize..40,
        ) {
            let spans: Vec<(usize, usize)> = intervals.iter().map(|&(start, n)| (start, start + n)).collect();
            let n_added = n_added.min(spans.len());
            let mut added = Intervals::new(&spans);
            (0..n_added).for_each(|id| added.add(id));
            for &(start, end) in &spans {
                let mut found = added.meeting((start, end));
                found.sort_unstable();
                let meets = |&id: &usize| spans[id].0 <= end && start <= spans[id].1;
                prop_assert_eq!(found, (0..n_added).filter(meets).collect::<Vec<_>>());
            }
        }
    }
}
