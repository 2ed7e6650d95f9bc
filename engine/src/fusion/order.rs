//! The order of groups while they merge: whether a path leads from one group to another.
//!
//! Units, which are nodes or kernels, form groups. A topological order of the groups is maintained while they merge, after
//! Pearce and Kelly (A dynamic topological sort algorithm, 2006). A path stays between the positions of its ends, which
//! bounds every search. In a long chain, the ends may be far from each other. There a spanning tree of the units shows
//! most paths in the first steps of a search.

use crate::work::steps;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

/// Groups of units that depend on each other without a circle.
pub struct GroupOrder {
    /// By [`Direction`] and unit: its readers, and its producers.
    edges: [Vec<Vec<usize>>; 2],
    tree: Tree,
    /// By unit: its group. Each unit starts as the group of its number.
    group: Vec<usize>,
    /// By group: its units; none once it has been merged into another.
    units: Vec<Vec<usize>>,
    /// By group: its place in a topological order.
    position: Vec<usize>,
}

/// The direction of a search along edges.
#[derive(Clone, Copy)]
enum Direction {
    Down,
    Up,
}

/// The groups at both ends of a path.
struct Ends<'p> {
    parts: &'p [usize],
    /// The parts of the lowest and of the highest position.
    first: usize,
    last: usize,
}

/// One side of a search for a path.
struct Search {
    direction: Direction,
    open: Vec<usize>,
    seen: HashSet<usize>,
}

impl Search {
    fn new(parts: &[usize], direction: Direction) -> Search {
        Search { direction, open: parts.to_vec(), seen: HashSet::new() }
    }

    /// Whether that side has no group.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.seen.is_empty()
    }
}

impl GroupOrder {
    /// Each unit as its own group. `readers` are the units that read from each.
    pub fn new(readers: Vec<Vec<usize>>) -> GroupOrder {
        let n_units = readers.len();
        let mut producers = vec![vec![]; n_units];
        for (unit, list) in readers.iter().enumerate() {
            list.iter().for_each(|&reader| producers[reader].push(unit));
        }
        let order = topological(&readers);
        let mut position = vec![0; n_units];
        order.iter().enumerate().for_each(|(at, &unit)| position[unit] = at);
        let tree = Tree::new(&order, &position, &producers);
        let units = (0..n_units).map(|unit| vec![unit]).collect();
        GroupOrder { edges: [readers, producers], tree, group: (0..n_units).collect(), units, position }
    }

    /// By unit: its group.
    pub fn groups(&self) -> &[usize] {
        &self.group
    }

    /// Whether group `to` needs group `from`, directly or through others.
    pub fn leads(&self, from: usize, to: usize) -> bool {
        let readers = self.units[from].iter().flat_map(|&unit| &self.edges[Direction::Down as usize][unit]);
        self.position[from] < self.position[to]
            && (readers.copied().any(|reader| self.group[reader] == to) || self.surrounds(&[from, to]))
    }

    /// Whether a path leads from one of these groups to one of them through a group that is none of them: then they
    /// cannot be one.
    pub fn surrounds(&self, parts: &[usize]) -> bool {
        let position = |part: &usize| self.position[*part];
        let first = parts.iter().copied().min_by_key(position);
        let last = parts.iter().copied().max_by_key(position);
        let (Some(first), Some(last)) = (first, last) else { return false };
        let ends = Ends { parts, first, last };
        // From both sides in turn: the smaller side bounds the work.
        let [mut down, mut up] =
            [Direction::Down, Direction::Up].map(|direction| Search::new(parts, direction));
        loop {
            let found = self.step(&mut down, &up, &ends).or_else(|| self.step(&mut up, &down, &ends));
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Visits one group. Returns whether there is a path, if that is known then.
    fn step(&self, search: &mut Search, other: &Search, ends: &Ends) -> Option<bool> {
        let Some(group) = search.open.pop() else { return Some(false) };
        let is_part = ends.parts.contains(&group);
        for &unit in &self.units[group] {
            if !is_part && self.shows_path(unit, search.direction, ends) {
                return Some(true);
            }
            for &next_unit in &self.edges[search.direction as usize][unit] {
                steps(1);
                let next = self.group[next_unit];
                if ends.parts.contains(&next) {
                    match is_part {
                        true => continue,
                        false => return Some(true),
                    }
                }
                if other.seen.contains(&next) || self.shows_path(next_unit, search.direction, ends) {
                    return Some(true);
                }
                if self.is_between(next, ends) && search.seen.insert(next) {
                    search.open.push(next);
                }
            }
        }
        None
    }

    /// Whether the tree shows a path between a unit and the end that a search heads for.
    fn shows_path(&self, unit: usize, direction: Direction, ends: &Ends) -> bool {
        match direction {
            Direction::Down => self.units[ends.last].last().is_some_and(|&last| self.tree.leads(unit, last)),
            Direction::Up => {
                self.units[ends.first].first().is_some_and(|&first| self.tree.leads(first, unit))
            }
        }
    }

    fn is_between(&self, group: usize, ends: &Ends) -> bool {
        let at = self.position[group];
        self.position[ends.first] < at && at < self.position[ends.last]
    }

    /// Groups in chains, in which each group leads to the next. A group that fits none of the last few chains begins a new
    /// one.
    pub fn chains(&self, groups: &BTreeSet<usize>) -> Vec<Vec<usize>> {
        const N_TRIED: usize = 4;
        let mut groups: Vec<usize> = groups.iter().copied().collect();
        groups.sort_unstable_by_key(|&group| self.position[group]);
        let mut chains: Vec<Vec<usize>> = vec![];
        for group in groups {
            let leads = |chain: &&mut Vec<usize>| chain.last().is_some_and(|&last| self.leads(last, group));
            match chains.iter_mut().rev().take(N_TRIED).find(leads) {
                Some(chain) => chain.push(group),
                None => chains.push(vec![group]),
            }
        }
        chains
    }

    /// The groups of some chains that may merge with a group: those that the next group of their chain does not separate
    /// from it. Chains may be older than the latest merge.
    pub fn near(&self, chains: &[Vec<usize>], group: usize) -> BTreeSet<usize> {
        let mut near = BTreeSet::new();
        for chain in chains {
            let now = |&unit: &usize| self.group[unit];
            let (start, end) = match chain.len() {
                1 => (0, 1),
                _ => (
                    chain.partition_point(|unit| self.leads(now(unit), group)),
                    chain.partition_point(|unit| !self.leads(group, now(unit))),
                ),
            };
            near.extend(chain[start.saturating_sub(1)..chain.len().min(end + 1)].iter().map(now));
        }
        near
    }

    /// Merges groups under the number of one of them. No path may lead from one to another through a third.
    pub fn merge(&mut self, parts: &[usize], into: usize) {
        let position = |part: &usize| self.position[*part];
        let first = parts.iter().copied().min_by_key(position).unwrap_or(into);
        let last = parts.iter().copied().max_by_key(position).unwrap_or(into);
        let ends = Ends { parts, first, last };
        self.make_room(&ends, into);
        for &part in parts.iter().filter(|&&part| part != into) {
            let units = std::mem::take(&mut self.units[part]);
            units.iter().for_each(|&unit| self.group[unit] = into);
            self.units[into].extend(units);
        }
    }

    /// Moves all producers of the ends before all their readers, within the places that they had, and `into` between both.
    fn make_room(&mut self, ends: &Ends, into: usize) {
        let [mut before, mut after] =
            [Direction::Up, Direction::Down].map(|direction| Search::new(ends.parts, direction));
        // Often one side is empty and the other a long chain, which does not have to move then.
        while self.follow(&mut before, ends) && self.follow(&mut after, ends) {}
        if before.is_empty() || after.is_empty() {
            let place = if before.is_empty() { ends.first } else { ends.last };
            self.position[into] = self.position[place];
            return;
        }
        let [before, after] = [before, after].map(|mut search| {
            while self.follow(&mut search, ends) {}
            let mut reached: Vec<usize> = search.seen.into_iter().collect();
            reached.sort_unstable_by_key(|&group| self.position[group]);
            reached
        });
        let moved = ends.parts.iter().chain(&before).chain(&after);
        let mut places: Vec<usize> = moved.map(|&group| self.position[group]).collect();
        places.sort_unstable();
        let n_before = places.len() - after.len();
        self.position[into] = places[before.len()];
        before.iter().zip(&places).for_each(|(&group, &at)| self.position[group] = at);
        after.iter().zip(&places[n_before..]).for_each(|(&group, &at)| self.position[group] = at);
    }

    /// Follows the edges of one more group to the groups between the ends; false once there is none.
    fn follow(&self, search: &mut Search, ends: &Ends) -> bool {
        let Some(group) = search.open.pop() else { return false };
        for &unit in self.units[group].iter().flat_map(|&unit| &self.edges[search.direction as usize][unit]) {
            steps(1);
            let next = self.group[unit];
            if self.is_between(next, ends) && !ends.parts.contains(&next) && search.seen.insert(next) {
                search.open.push(next);
            }
        }
        true
    }
}

/// Units in an order in which producers come first. Of those that are ready, the lowest number comes first.
pub fn topological(readers: &[Vec<usize>]) -> Vec<usize> {
    let mut waiting = vec![0; readers.len()];
    readers.iter().flatten().for_each(|&reader| waiting[reader] += 1);
    let free = (0..waiting.len()).filter(|&unit| waiting[unit] == 0);
    let mut free: BinaryHeap<Reverse<usize>> = free.map(Reverse).collect();
    let mut order = vec![];
    while let Some(Reverse(unit)) = free.pop() {
        order.push(unit);
        for &reader in &readers[unit] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                free.push(Reverse(reader));
            }
        }
    }
    assert_eq!(order.len(), waiting.len(), "bug in the engine: kernels depend on each other in a circle");
    order
}

/// A spanning tree of the units. The parent of a unit is the latest unit that it reads from. Units below a unit have the
/// numbers after its own.
struct Tree {
    /// By unit: its number, and the number of units of its subtree.
    numbers: Vec<(usize, usize)>,
}

impl Tree {
    fn new(order: &[usize], position: &[usize], producers: &[Vec<usize>]) -> Tree {
        let parent = |unit: usize| producers[unit].iter().copied().max_by_key(|&producer| position[producer]);
        let mut below = vec![1; order.len()];
        for &unit in order.iter().rev() {
            if let Some(parent) = parent(unit) {
                below[parent] += below[unit];
            }
        }
        let mut numbers = vec![(0, 0); order.len()];
        // By unit: the number of its next child.
        let mut next = vec![0; order.len()];
        let mut next_root = 0;
        for &unit in order {
            let slot = parent(unit).map_or(&mut next_root, |parent| &mut next[parent]);
            let number = *slot;
            *slot += below[unit];
            numbers[unit] = (number, below[unit]);
            next[unit] = number + 1;
        }
        Tree { numbers }
    }

    /// Whether one unit is above another, so that a path leads down to it.
    fn leads(&self, from: usize, to: usize) -> bool {
        let ((from, n_below), (to, _)) = (self.numbers[from], self.numbers[to]);
        from <= to && to < from + n_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By group: all that it leads to, by following every edge.
    fn closure(readers: &[Vec<usize>], group: &[usize]) -> Vec<HashSet<usize>> {
        let follow = |start: usize| {
            let (mut open, mut seen) = (vec![start], HashSet::new());
            while let Some(from) = open.pop() {
                for unit in (0..group.len()).filter(|&unit| group[unit] == from) {
                    let next = readers[unit].iter().map(|&reader| group[reader]).filter(|&next| next != from);
                    open.extend(next.filter(|&next| seen.insert(next)));
                }
            }
            seen
        };
        (0..group.len()).map(follow).collect()
    }

    proptest! {
        #[test]
        fn paths_are_those_of_an_exhaustive_search(
            edges in prop::collection::vec((0usize..16, 0usize..16), 0..40),
            numbers in Just((0..16).collect::<Vec<usize>>()).prop_shuffle(),
            merges in prop::collection::vec(prop::collection::vec(0usize..16, 2..4), 0..16),
        ) {
            let mut readers = vec![vec![]; 16];
            edges.iter().filter(|(a, b)| a < b).for_each(|&(a, b)| readers[numbers[a]].push(numbers[b]));
            let mut order = GroupOrder::new(readers.clone());
            for units in merges {
                let reached = closure(&readers, order.groups());
                for (from, to) in (0..16).flat_map(|from| (0..16).map(move |to| (from, to))) {
                    let are_groups = from != to && order.groups().contains(&from) && order.groups().contains(&to);
                    prop_assert!(!are_groups || order.leads(from, to) == reached[from].contains(&to));
                }
                let all: BTreeSet<usize> = order.groups().iter().copied().collect();
                for &group in &all {
                    let near = order.near(&order.chains(&all), group);
                    let can_join = |other: &&usize| !order.surrounds(&[group, **other]);
                    prop_assert!(all.iter().filter(can_join).all(|other| near.contains(other)));
                }
                let parts: HashSet<usize> = units.iter().map(|&unit| order.groups()[unit]).collect();
                let parts: Vec<usize> = parts.into_iter().collect();
                let is_third = |group: &usize| order.groups().contains(group) && !parts.contains(group);
                let leads = |from: usize, to: usize| reached[from].contains(&to);
                let surrounds = (0..16).filter(is_third).any(|third| {
                    parts.iter().any(|&part| leads(part, third)) && parts.iter().any(|&part| leads(third, part))
                });
                prop_assert_eq!(order.surrounds(&parts), surrounds);
                if !surrounds {
                    order.merge(&parts, parts[0]);
                }
            }
        }
    }
}
