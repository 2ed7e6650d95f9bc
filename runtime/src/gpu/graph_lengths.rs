//! The lengths of captured graphs: how many steps one graph replays.

use std::collections::HashMap;

/// The largest numbers of steps per graph. Longer graphs amortize the gap between two graph launches, which is long
/// compared with a short kernel. The rest of a run may become a graph of its own.
const MOST_STEPS: [usize; 3] = [1, 16, 320];
/// The largest number of launches in a graph of several steps. With more launches, the gap is negligible and
/// instantiating the graph is not.
const MOST_STARTS: usize = 1000;
/// Instantiating a graph takes up to milliseconds. The saved gaps repay that after so many launches.
const TIMES_TO_PAY: usize = 16;

/// The lengths of the graphs of a plan.
pub struct GraphLengths {
    /// In ascending order, each a multiple of the one before; equal where steps are too long for longer graphs.
    lengths: [usize; 3],
    /// By number of steps: how many times a graph of that length could have been launched.
    wanted: HashMap<usize, usize>,
}

impl GraphLengths {
    /// The lengths for steps of `n_starts` launches.
    pub fn new(n_starts: usize) -> GraphLengths {
        GraphLengths { lengths: lengths(n_starts), wanted: HashMap::new() }
    }

    /// The largest number of steps of a graph.
    pub fn most(&self) -> usize {
        self.lengths[2]
    }

    /// Discards the counts after the graphs have been discarded.
    pub fn forget(&mut self) {
        self.wanted.clear();
    }

    /// The lengths of the graphs that together run `n_steps` steps.
    pub fn of_run(&mut self, n_steps: usize) -> Vec<usize> {
        let [one, some, many] = self.lengths;
        if some == one {
            return vec![one; n_steps];
        }
        let n_many = if many > some && self.pays(many, n_steps / many) { n_steps / many } else { 0 };
        let rest = n_steps - n_many * many;
        let (n_some, rest) = (rest / some, rest % some);
        let last = if rest > one && self.pays(rest, 1) { vec![rest] } else { vec![one; rest] };
        [vec![many; n_many], vec![some; n_some], last].concat()
    }

    /// Whether a graph of `n_steps`, launched `n_times` now, repays its instantiation.
    fn pays(&mut self, n_steps: usize, n_times: usize) -> bool {
        let wanted = self.wanted.entry(n_steps).or_default();
        *wanted += n_times;
        *wanted > TIMES_TO_PAY
    }
}

/// The lengths of graphs of steps with `n_starts` launches each.
fn lengths(n_starts: usize) -> [usize; 3] {
    let [one, some, many] = MOST_STEPS;
    if n_starts > MOST_STARTS {
        return [one; 3];
    }
    let fitting = MOST_STARTS / n_starts.max(1) / some * some;
    [one, some, fitting.clamp(some, many)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_with_fewer_launches_get_longer_graphs() {
        let found: Vec<_> = [1, 2, 9, 31, 62, 63, 1000, 1001].into_iter().map(lengths).collect();
        let of_one = [1, 16, 16];
        let expected =
            [[1, 16, 320], [1, 16, 320], [1, 16, 96], [1, 16, 32], of_one, of_one, of_one, [1, 1, 1]];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_length_is_used_once_its_graph_repays_its_instantiation() {
        let mut lengths = GraphLengths::new(9);
        assert_eq!(lengths.of_run(100), [[16; 6].as_slice(), &[1; 4]].concat());
        let runs: Vec<Vec<usize>> = (1..TIMES_TO_PAY + 1).map(|_| lengths.of_run(100)).collect();
        assert_eq!(runs.last(), Some(&vec![96, 4]), "16 times before");
        assert!(runs[..TIMES_TO_PAY - 1].iter().all(|run| run.iter().sum::<usize>() == 100 && run[0] == 16));
        lengths.forget();
        assert_eq!(lengths.of_run(2), [1, 1]);
        assert_eq!(GraphLengths::new(1001).of_run(3), [1; 3]);
    }
}
