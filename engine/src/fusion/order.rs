//! The order of groups while they are joined: whether a path leads from one to another.
//!
//! Units, which are nodes or kernels, form groups. A topological order of the groups is kept while they merge, after
//! Pearce and Kelly (A dynamic topological sort algorithm, 2006). A path stays between the positions of its ends, which
//! bounds every search. In a long chain the ends may be far apart: there a spanning tree of the units, which shows most
//! paths at once, ends a search at its first steps.

use crate::work::steps;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

/// Groups of units that depend on each other without a circle.
pub struct GroupOrder {
    /// By [`Way`] and unit: those that read from it, and those that it reads from.
    edges: [Vec<Vec<usize>>; 2],
    tree: Tree,
    /// By unit: its group. Each unit starts as the group of its number.
    group: Vec<usize>,
    /// By group: its units; none once it has been merged into another.
    units: Vec<Vec<usize>>,
    /// By group: its place in a topological order.
    position: Vec<usize>,
}

/// Which way edges are followed.
#[derive(Clone, Copy)]
enum Way {
    Down,
    Up,
}

/// Groups that a path should lead from and to.
struct Ends<'p> {
    parts: &'p [usize],
    /// The parts of the lowest and of the highest position.
    first: usize,
    last: usize,
}

/// One side of a search for a path.
struct Search {
    way: Way,
    open: Vec<usize>,
    seen: HashSet<usize>,
}

impl Search {
    fn new(parts: &[usize], way: Way) -> Search {
        Search { way, open: parts.to_vec(), seen: HashSet::new() }
    }

    /// Whether nothing lies on that side.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.seen.is_empty()
    }
}

impl GroupOrder {
    /// Each unit by itself. `readers` are the units that read from each.
    pub fn new(readers: Vec<Vec<usize>>) -> GroupOrder {
        let n_units = readers.len();
        let mut producers = vec![vec![]; n_units];
        for (unit, list) in readers.iter().enumerate() {
            list.iter().for_each(|&reader| producers[reader].push(unit));
        }
        let order = topological(&readers, &producers);
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
        let readers = self.units[from].iter().flat_map(|&unit| &self.edges[Way::Down as usize][unit]);
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
        // From both sides in turn: the smaller side decides how long it takes.
        let [mut down, mut up] = [Way::Down, Way::Up].map(|way| Search::new(parts, way));
        loop {
            let found = self.step(&mut down, &up, &ends).or_else(|| self.step(&mut up, &down, &ends));
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Looks at one group: whether there is a path, if that is known then.
    fn step(&self, search: &mut Search, other: &Search, ends: &Ends) -> Option<bool> {
        let Some(group) = search.open.pop() else { return Some(false) };
        let is_part = ends.parts.contains(&group);
        for &unit in &self.units[group] {
            if !is_part && self.shows_path(unit, search.way, ends) {
                return Some(true);
            }
            for &next_unit in &self.edges[search.way as usize][unit] {
                steps(1);
                let next = self.group[next_unit];
                if ends.parts.contains(&next) {
                    match is_part {
                        true => continue,
                        false => return Some(true),
                    }
                }
                if other.seen.contains(&next) || self.shows_path(next_unit, search.way, ends) {
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
    fn shows_path(&self, unit: usize, way: Way, ends: &Ends) -> bool {
        match way {
            Way::Down => self.units[ends.last].last().is_some_and(|&last| self.tree.leads(unit, last)),
            Way::Up => self.units[ends.first].first().is_some_and(|&first| self.tree.leads(first, unit)),
        }
    }

    fn is_between(&self, group: usize, ends: &Ends) -> bool {
        let at = self.position[group];
        self.position[ends.first] < at && at < self.position[ends.last]
    }

    /// Groups in chains, each of which leads to the next in its chain. What fits none of the last few begins a chain.
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

    /// What of some chains can become one with a group: none from which it is parted by the next in a chain. Chains may be
    /// older than the latest merge.
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

    /// Groups become one, under the number of one of them. No path leads from one to another through a third.
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

    /// Moves all that the ends need before all that needs them, within the places that they had, and `into` between both.
    fn make_room(&mut self, ends: &Ends, into: usize) {
        let [mut before, mut after] = [Way::Up, Way::Down].map(|way| Search::new(ends.parts, way));
        // Often nothing lies on one side, and a long chain on the other, of which nothing has to move then.
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

    /// Follows the edges of one more group to what lies between the ends; false once there is none.
    fn follow(&self, search: &mut Search, ends: &Ends) -> bool {
        let Some(group) = search.open.pop() else { return false };
        for &unit in self.units[group].iter().flat_map(|&unit| &self.edges[search.way as usize][unit]) {
            steps(1);
            let next = self.group[unit];
            if self.is_between(next, ends) && !ends.parts.contains(&next) && search.seen.insert(next) {
                search.open.push(next);
            }
        }
        true
    }
}

/// Units in an order in which producers come first, among those that are free the one of the lowest number.
fn topological(readers: &[Vec<usize>], producers: &[Vec<usize>]) -> Vec<usize> {
    let mut waiting: Vec<usize> = producers.iter().map(Vec::len).collect();
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

/// A spanning tree of the units, in which each hangs below the latest that it reads from. Units below a unit have the
/// numbers after its own.
struct Tree {
    /// By unit: its number, and how many units are below it, itself included.
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
        // By unit: the number of the next one to hang below it.
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
