//! Loops in captured graphs: all their trips, or a node that repeats a body.

use super::prepared::Work;

/// The largest number of launches of a loop that are captured one by one, as a graph of several steps has at most. Not
/// measured; a WHILE node takes 4.4 us a trip with a body of one small kernel (H200).
pub const MOST_STARTS: usize = 1000;

/// The least number of launches in the body of a WHILE node whose number of trips is known. The 4.4 us of the node (H200)
/// are then a small part of the 0.6 us or more that each launch takes (docs/decisions/052-device-loops.md).
const BODY_STARTS: usize = 96;

/// How a graph holds a loop.
#[derive(Clone, Copy, Debug)]
pub enum GraphLoop {
    /// All its trips, one by one.
    Trips,
    /// A node that repeats some trips.
    Node(Division),
}

/// The trips of a node.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// Trips that are captured before the node.
    pub before: usize,
    /// Trips in the body of the node.
    pub of_body: usize,
}

impl GraphLoop {
    /// The form of a loop of so many trips.
    pub fn new(work: &Work, trips: usize) -> GraphLoop {
        let may_end = matches!(work, Work::Loop { until: Some(_), .. });
        let n_starts = work.n_starts();
        if may_end || n_starts > MOST_STARTS {
            GraphLoop::Node(Division::new(n_starts, trips, may_end))
        } else {
            GraphLoop::Trips
        }
    }
}

impl Division {
    /// Divides the trips of a loop of `n_starts` launches. The end of a loop that may end early is read after each trip.
    fn new(n_starts: usize, trips: usize, may_end: bool) -> Division {
        let starts_of_trip = (n_starts / trips.max(1)).max(1);
        let of_body = if may_end { 1 } else { BODY_STARTS.div_ceil(starts_of_trip).min(trips.max(1)) };
        Division { before: trips % of_body, of_body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trips that a launch of the graph runs, as the end of a body counts them.
    fn run(division: Division, trips: usize) -> usize {
        let mut number = division.before;
        loop {
            number += division.of_body;
            if number >= trips {
                return number;
            }
        }
    }

    #[test]
    fn a_node_and_the_trips_before_it_are_all_trips() {
        for starts_of_trip in [1, 2, 7, 17, 95, 96, 97, 5000] {
            for trips in (1..=300).chain([1000, 2000, 99_991, 100_000]) {
                let division = Division::new(starts_of_trip * trips, trips, false);
                assert_eq!(run(division, trips), trips, "{division:?} of {trips}");
                let starts = starts_of_trip * division.of_body;
                let is_large = starts >= BODY_STARTS || division.of_body == trips;
                assert!(is_large && starts < BODY_STARTS + starts_of_trip, "{division:?} of {trips}");
            }
        }
    }

    #[test]
    fn the_end_of_a_loop_is_read_after_each_trip() {
        for trips in [1, 6, 300] {
            let Division { before, of_body } = Division::new(3 * trips, trips, true);
            assert_eq!((before, of_body), (0, 1));
        }
    }
}
