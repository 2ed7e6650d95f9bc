//! Streaming selection of the first k elements of a row.
//!
//! A state holds the k best entries so far and room for as many new ones. When it is full, the best k are selected and
//! the others dropped. The k-th best is a threshold that few elements of a long row pass. So most elements are read
//! only once, in a loop that compares a block with the threshold.

use crate::rank::{Entry, Ranked};
use engine_core::op::RowFold;
use engine_core::op::kernel::{Elements, Share};
use std::marker::PhantomData;

/// The minimum number of new entries between selections.
const NEWCOMERS: usize = 32;
/// Elements per comparison with the threshold.
const BLOCK: usize = 64;

/// The first `k` in order, as a row reduction. In a shorter row, the rest has index -1 and the value that comes last.
pub struct Select<T, E> {
    k: usize,
    descending: bool,
    capacity: usize,
    types: PhantomData<(T, E)>,
}

/// The parts of a state.
struct State<'s, E> {
    n: &'s mut u64,
    /// 1 after the first selection. From then on, the k-th best is a threshold.
    has_threshold: &'s mut u64,
    entries: &'s mut [E],
}

impl<T: Ranked, E: Entry> Select<T, E> {
    /// The first `k` elements, at least one.
    pub fn new(k: usize, descending: bool) -> Select<T, E> {
        Select { k, descending, capacity: k + k.max(NEWCOMERS), types: PhantomData }
    }

    fn parts<'s>(&self, state: &'s mut [u64]) -> State<'s, E> {
        let ([n, has_threshold], words) = state.split_first_chunk_mut().unwrap_or_else(|| no_state());
        State { n, has_threshold, entries: &mut E::slice(words)[..self.capacity] }
    }

    fn push(&self, parts: &mut State<E>, entry: E) {
        parts.entries[*parts.n as usize] = entry;
        *parts.n += 1;
        if *parts.n as usize == self.capacity {
            parts.entries.select_nth_unstable(self.k - 1);
            (*parts.n, *parts.has_threshold) = (self.k as u64, 1);
        }
    }

    /// The exclusive upper bound for the rank of a new entry. An element equal to the threshold comes later than the
    /// element that set it.
    fn threshold(&self, parts: &State<E>) -> Option<u64> {
        (*parts.has_threshold == 1).then(|| parts.entries[self.k - 1].rank())
    }

    /// The first `k` entries of all, in order.
    pub fn best<'s>(&self, state: &'s mut [u64]) -> &'s [E] {
        let State { n, entries, .. } = self.parts(state);
        let n = *n as usize;
        if n > self.k {
            entries[..n].select_nth_unstable(self.k - 1);
        }
        let best = &mut entries[..n.min(self.k)];
        best.sort_unstable();
        best
    }

    fn offer(&self, parts: &mut State<E>, rank: u64, index: usize) {
        if self.threshold(parts).is_none_or(|threshold| rank < threshold) {
            self.push(parts, E::new(rank, index));
        }
    }
}

fn no_state() -> ! {
    engine_core::bug!("a selection without a state")
}

impl<T: Ranked, E: Entry> RowFold for Select<T, E> {
    fn state_words(&self) -> usize {
        2 + self.capacity * size_of::<E>() / 8
    }

    fn init(&self, state: &mut [u64]) {
        state[..2].fill(0);
    }

    fn step(&self, state: &mut [u64], first: usize, piece: Elements) {
        let row = piece.get::<T>();
        let mut parts = self.parts(state);
        for (number, block) in row.chunks(BLOCK).enumerate() {
            let worst = self.threshold(&parts).map(|rank| T::of_rank(rank, self.descending));
            if worst.is_some_and(|worst| !any_before(block, worst, self.descending)) {
                continue;
            }
            for (i, x) in block.iter().enumerate() {
                self.offer(&mut parts, x.rank(self.descending), first + number * BLOCK + i);
            }
        }
    }

    fn merge(&self, state: &mut [u64], later: &[u64]) {
        let mut parts = self.parts(state);
        let n_words = size_of::<E>() / 8;
        for entry in later[2..].chunks_exact(n_words).take(later[0] as usize) {
            let entry = E::read(entry);
            self.offer(&mut parts, entry.rank(), entry.index());
        }
    }

    fn finish(&self, state: &mut [u64], results: &mut Share) {
        let best = self.best(state);
        let (values, indices) = (results.take::<T>(0), results.take::<i32>(1));
        for (entry, (value, index)) in best.iter().zip(values.iter_mut().zip(indices.iter_mut())) {
            *value = T::of_rank(entry.rank(), self.descending);
            *index = entry.index() as i32;
        }
        values[best.len()..].fill(T::last(self.descending));
        indices[best.len()..].fill(-1);
    }
}

/// Whether any element of a block comes before `worst`. If `worst` is NaN, any number does; NaN never does.
fn any_before<T: Ranked>(block: &[T], worst: T, descending: bool) -> bool {
    let is_nan = worst.partial_cmp(&worst).is_none();
    // The loop has no early exit, so that it is vectorized.
    match descending {
        true => block.iter().fold(is_nan, |any, &x| any | (x > worst)),
        false => block.iter().fold(is_nan, |any, &x| any | (x < worst)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::ir::DType;

    /// The state after these pieces of a row, merged in order.
    fn selected(k: usize, pieces: &[&[f32]]) -> Vec<(f32, usize)> {
        let select = Select::<f32, u64>::new(k, true);
        let mut state = vec![u64::MAX; select.state_words()];
        select.init(&mut state);
        let mut first = 0;
        for piece in pieces {
            let mut later = vec![u64::MAX; select.state_words()];
            select.init(&mut later);
            select.step(&mut later, first, Elements::of(piece, DType::F32));
            select.merge(&mut state, &later);
            first += piece.len();
        }
        let parts = select.parts(&mut state);
        let mut entries = parts.entries[..*parts.n as usize].to_vec();
        entries.sort_unstable();
        entries.truncate(k);
        entries.into_iter().map(|entry| (f32::of_rank(entry.rank(), true), entry.index())).collect()
    }

    #[test]
    fn the_cut_into_pieces_does_not_matter() {
        // Many equal elements, so that ties decide.
        let row: Vec<f32> = (0..1000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 25) as f32).collect();
        let mut expected: Vec<(f32, usize)> = row.iter().copied().zip(0..).collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for k in [1, 2, 7, 100, 999] {
            for cut in [0, 1, 63, 500, 998] {
                let pieces = [&row[..cut], &row[cut..cut + 1], &row[cut + 1..]];
                assert_eq!(selected(k, &pieces), expected[..k], "k = {k}, cut at {cut}");
            }
        }
    }
}
