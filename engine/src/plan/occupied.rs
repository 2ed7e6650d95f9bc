//! The ranges of an arena that are occupied during some launches.

use crate::work::steps;
use std::collections::BTreeMap;

/// Offsets are multiples of this. A GPU's widest loads and a CPU's cache lines require it.
pub const ALIGNMENT: usize = 256;

/// Byte ranges by the launches during which they are occupied: a segment tree over launches. Adjacent ranges are
/// merged, so the adjacent buffers of a long chain count as one.
pub struct Occupied {
    /// A binary tree with launches as leaves. Node `i` has children `2i` and `2i + 1`.
    nodes: Vec<Node>,
}

#[derive(Clone, Default)]
struct Node {
    /// Ranges that are occupied during all launches below.
    throughout: Ranges,
    /// Ranges that are occupied during any launch below, as far as this node or a node below records it.
    sometimes: Ranges,
}

/// How a span of launches overlaps a node.
enum Part {
    None,
    Some,
    All,
}

impl Occupied {
    /// No range is occupied.
    pub fn new(n_launches: usize) -> Occupied {
        Occupied { nodes: vec![Node::default(); 2 * n_launches.next_power_of_two()] }
    }

    /// Occupies a range from the first to the last launch of a span.
    pub fn add(&mut self, span: (usize, usize), range: (usize, usize)) {
        let n_leaves = self.nodes.len() / 2;
        // Open tree nodes with the first launch below them and the number of launches.
        let mut open = vec![(1, 0, n_leaves)];
        while let Some((node, first, n)) = open.pop() {
            steps(1);
            match part(span, first, n) {
                Part::None => continue,
                Part::Some => {
                    open.extend([(2 * node, first, n / 2), (2 * node + 1, first + n / 2, n / 2)]);
                }
                Part::All => self.nodes[node].throughout.add(range),
            }
            self.nodes[node].sometimes.add(range);
        }
    }

    /// The ranges that are occupied at any time from the first to the last launch of a span.
    pub fn during(&self, span: (usize, usize)) -> Vec<(usize, usize)> {
        let mut open = vec![(1, 0, self.nodes.len() / 2)];
        let mut found = vec![];
        while let Some((node, first, n)) = open.pop() {
            let Node { throughout, sometimes } = &self.nodes[node];
            match part(span, first, n) {
                Part::None => {}
                Part::Some => {
                    found.extend(&throughout.0);
                    open.extend([(2 * node, first, n / 2), (2 * node + 1, first + n / 2, n / 2)]);
                }
                Part::All => found.extend(&sometimes.0),
            }
        }
        steps(found.len());
        found.into_iter().map(|(&low, &high)| (low, high)).collect()
    }
}

fn part((start, end): (usize, usize), first: usize, n: usize) -> Part {
    let last = first + n - 1;
    match (start <= first && last <= end, end < first || last < start) {
        (true, _) => Part::All,
        (_, true) => Part::None,
        _ => Part::Some,
    }
}

/// Disjoint, non-adjacent ranges: start to end. Starts and ends are multiples of the alignment.
#[derive(Clone, Default)]
struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    fn add(&mut self, (mut low, high): (usize, usize)) {
        let mut high = high.next_multiple_of(ALIGNMENT);
        while let Some((&start, &end)) = self.0.range(..=high).next_back()
            && end >= low
        {
            self.0.remove(&start);
            (low, high) = (low.min(start), high.max(end));
        }
        self.0.insert(low, high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn occupied_places_are_those_of_all_that_meet(
            taken in prop::collection::vec((0usize..20, 0usize..20, 0usize..30, 1usize..5), 0..30),
            span in (0usize..20, 0usize..20),
        ) {
            let span_of = |start: usize, n: usize| (start, (start + n).min(19));
            let mut occupied = Occupied::new(20);
            for &(start, n, at, size) in &taken {
                occupied.add(span_of(start, n), (at * ALIGNMENT, (at + size) * ALIGNMENT - 1));
            }
            let (from, to) = span_of(span.0, span.1);
            let places = |low: usize, high: usize| low / ALIGNMENT..high.div_ceil(ALIGNMENT);
            let found = occupied.during((from, to)).into_iter().flat_map(|(low, high)| places(low, high));
            let meets = |&&(start, n, _, _): &&(usize, usize, usize, usize)| {
                start <= to && from <= span_of(start, n).1
            };
            let expected = taken.iter().filter(meets).flat_map(|&(_, _, at, size)| at..at + size);
            prop_assert_eq!(found.collect::<BTreeSet<_>>(), expected.collect::<BTreeSet<_>>());
        }
    }
}
