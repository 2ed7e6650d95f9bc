//! The rows that may be among the nearest to a query, given bounds of their values.

use super::comparison::{Best, Query, make_heap};
use super::metric::Metric;
use super::number::Number;
use super::sums::least_of_blocks;
use crate::rank::Entry;
use engine_core::op::kernel::words_as;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// Rows of a block whose least score is kept.
const BLOCK: usize = 64;
/// The fewest rows that are compared to begin with.
const FIRST: usize = 20;

/// The choice of rows for a query.
pub struct Choice<E> {
    metric: Metric,
    n: usize,
    k: usize,
    entry: PhantomData<E>,
}

/// The scores of a query's rows, and the slope and the offset of their bounds.
type Bounds<'s, T> = (&'s [T], T, T);

/// What a choice leaves to be compared.
pub struct Chosen {
    /// How many rows are listed, at least k.
    pub listed: usize,
    /// How many other rows were compared.
    pub compared: usize,
}

/// Parts of the workspace.
struct Parts<'w, T, E> {
    /// The least score of each block.
    least: &'w mut [T],
    /// Blocks in the order of their least scores.
    blocks: &'w mut [E],
    /// The rows that are compared to begin with, in ascending order.
    done: &'w mut [u64],
    /// Their values.
    first: &'w mut [E],
    /// The k best, the last of them in front: a heap.
    best: &'w mut [E],
}

impl<E: Entry> Choice<E> {
    /// Choices among n rows, of which the k nearest are wanted.
    pub fn new(metric: Metric, n: usize, k: usize) -> Choice<E> {
        Choice { metric, n, k, entry: PhantomData }
    }

    fn n_blocks(&self) -> usize {
        self.n.div_ceil(BLOCK)
    }

    /// Rows to begin with: at least k, or none.
    fn n_first(&self) -> usize {
        let wanted = (2 * self.k).max(FIRST).min(self.n_blocks());
        if wanted < self.k { 0 } else { wanted }
    }

    /// Words of the workspace.
    pub fn words(&self) -> usize {
        let entry = size_of::<E>() / 8;
        self.n_blocks() * (1 + entry) + self.n_first() * (1 + entry) + self.k * entry
    }

    fn parts<'w, T: Number>(&self, workspace: &'w mut [u64]) -> Parts<'w, T, E> {
        let entry = size_of::<E>() / 8;
        let (least, rest) = workspace.split_at_mut(self.n_blocks());
        let (blocks, rest) = rest.split_at_mut(self.n_blocks() * entry);
        let (done, rest) = rest.split_at_mut(self.n_first());
        let (first, rest) = rest.split_at_mut(self.n_first() * entry);
        let least = &mut words_as::<T>(least)[..self.n_blocks()];
        let best = &mut E::slice(rest)[..self.k];
        Parts { least, blocks: E::slice(blocks), done, first: E::slice(first), best }
    }

    /// Lists the rows that may be among the k nearest, in ascending order. If these are more than fit `rows`, the rest of the
    /// comparison follows, and the k nearest are listed. Rows that are not `allowed` come behind all others.
    pub fn run<T: Number>(
        &self,
        [query, base]: [&[T]; 2],
        (bounds, allowed): (Bounds<T>, Option<&[u8]>),
        workspace: &mut [u64],
        rows: &mut [i32],
    ) -> Chosen {
        let mut parts = self.parts::<T>(workspace);
        least_of_blocks(bounds.0, BLOCK, parts.least);
        let query = Query::new(self.metric, query, base, allowed);
        let mut n_best = 0;
        if self.n_first() > 0 {
            self.begin(&query, bounds.0, &mut parts);
            n_best = self.k;
            let limit = T::of_rank(parts.best[0].rank(), false);
            if let Some(listed) = list(bounds, limit, parts.least, rows).filter(|&listed| listed >= self.k) {
                let is_other = |row: &&u64| rows[..listed].binary_search(&(**row as i32)).is_err();
                return Chosen { listed, compared: parts.done.iter().filter(is_other).count() };
            }
        }
        let compared = self.compare_others(&query, bounds, &mut parts, n_best);
        for (row, entry) in rows.iter_mut().zip(parts.best.iter()) {
            *row = entry.index() as i32;
        }
        rows[..self.k].sort_unstable();
        Chosen { listed: self.k, compared: parts.done.len() + compared - self.k }
    }

    /// Compares the first row of the least score of each of the best blocks.
    fn begin<T: Number>(&self, query: &Query<T>, scores: &[T], parts: &mut Parts<T, E>) {
        for (block, (entry, least)) in parts.blocks.iter_mut().zip(parts.least.iter()).enumerate() {
            *entry = E::new(least.rank(false), block);
        }
        let n_first = self.n_first();
        parts.blocks.select_nth_unstable(n_first - 1);
        for (done, entry) in parts.done.iter_mut().zip(parts.blocks.iter()) {
            let first = entry.index() * BLOCK;
            let of_block = &scores[first..(first + BLOCK).min(self.n)];
            let least = parts.least[entry.index()];
            let place =
                of_block.iter().position(|score| score.partial_cmp(&least) != Some(Ordering::Greater));
            *done = (first + place.unwrap_or(0)) as u64;
        }
        parts.done.sort_unstable();
        for (entry, &row) in parts.first.iter_mut().zip(parts.done.iter()) {
            *entry = E::new(query.value(row as usize).rank(false), row as usize);
        }
        parts.first.select_nth_unstable(self.k - 1);
        parts.best.copy_from_slice(&parts.first[..self.k]);
        make_heap(parts.best);
    }

    /// Compares all other rows that may be among the k nearest, in ascending order.
    fn compare_others<T: Number>(
        &self,
        query: &Query<T>,
        (scores, slope, offset): Bounds<T>,
        parts: &mut Parts<T, E>,
        n_best: usize,
    ) -> usize {
        let mut best = Best { entries: &mut *parts.best, n: n_best };
        let mut done = parts.done.iter().peekable();
        let mut count = 0;
        for (block, (least, scores)) in parts.least.iter().zip(scores.chunks(BLOCK)).enumerate() {
            // A NaN is not greater.
            let is_out =
                |score: T, limit: Option<T>| limit.is_some_and(|limit| score * slope + offset > limit);
            let limit = best.limit::<T>();
            if is_out(*least, limit) {
                continue;
            }
            for (row, score) in (block * BLOCK..).zip(scores) {
                if is_out(*score, limit) {
                    continue;
                }
                while done.next_if(|&&other| (other as usize) < row).is_some() {}
                if done.peek().is_none_or(|&&other| other as usize != row) {
                    best.offer(E::new(query.value(row).rank(false), row));
                    count += 1;
                }
            }
        }
        count
    }
}

/// Lists the rows whose bounds are within a limit; `None` if they are too many.
fn list<T: Number>(
    (scores, slope, offset): Bounds<T>,
    limit: T,
    least: &[T],
    rows: &mut [i32],
) -> Option<usize> {
    // A NaN is not greater.
    let is_out = |score: T| score * slope + offset > limit;
    let mut n = 0;
    for (block, scores) in scores.chunks(BLOCK).enumerate() {
        if is_out(least[block]) {
            continue;
        }
        let mut flags = [0; BLOCK];
        for (flag, score) in flags.iter_mut().zip(scores) {
            *flag = u8::from(!is_out(*score));
        }
        let mut within = bits(flags);
        let rows = rows.get_mut(n..n + within.count_ones() as usize)?;
        n += rows.len();
        for row in rows {
            *row = (block * BLOCK) as i32 + within.trailing_zeros() as i32;
            within &= within - 1;
        }
    }
    Some(n)
}

/// One bit for each flag, which is 0 or 1; the first is the lowest.
fn bits(flags: [u8; BLOCK]) -> u64 {
    // The product moves the lowest bits of eight bytes next to each other, to the highest byte.
    let byte = |flags: &[u8; 8]| (u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080)) >> 56;
    (0..).step_by(8).zip(flags.as_chunks().0).fold(0, |bits, (at, flags)| bits | byte(flags) << at)
}
