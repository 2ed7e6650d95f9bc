//! Comparisons of a query with one row after another, as long as a row may be among the nearest.

use super::metric::Metric;
use crate::rank::{Entry, Ranked};
use engine_core::op::kernel::words_as;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::{Add, Mul, Sub};

/// Numbers of vectors.
pub trait Number: Ranked + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    const ZERO: Self;
    const HALF: Self;
    const ONE: Self;
    const NAN: Self;
    fn sqrt(self) -> Self;
    fn inverse(self) -> Self;
}

macro_rules! number {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            const ZERO: $ty = 0.0;
            const HALF: $ty = 0.5;
            const ONE: $ty = 1.0;
            const NAN: $ty = <$ty>::NAN;

            fn sqrt(self) -> $ty {
                self.sqrt()
            }

            fn inverse(self) -> $ty {
                1.0 / self
            }
        }
    )*};
}
number!(f32 f64);

/// Rows of a block whose least score is kept.
const BLOCK: usize = 64;
/// The fewest rows that are compared to begin with.
const FIRST: usize = 32;
/// Rows that are compared side by side, so that memory delivers several at a time.
const ROWS: usize = 4;
/// Sums of a row that run side by side.
const LANES: usize = 8;

/// The comparison of a query with rows.
pub struct Comparison<E> {
    metric: Metric,
    n: usize,
    d: usize,
    k: usize,
    entry: PhantomData<E>,
}

/// The scores of a query's rows, and the slope and the offset of their bounds.
type Bounds<'s, T> = (&'s [T], T, T);

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

impl<E: Entry> Comparison<E> {
    /// Comparisons with n rows of d numbers, of which the k nearest are wanted.
    pub fn new(metric: Metric, [n, d, k]: [usize; 3]) -> Comparison<E> {
        Comparison { metric, n, d, k, entry: PhantomData }
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

    /// Writes the k nearest rows in ascending order, and returns how many rows were compared. Rows that are not `allowed`
    /// come behind all others.
    pub fn run<T: Number>(
        &self,
        [query, base]: [&[T]; 2],
        (bounds, allowed): (Bounds<T>, Option<&[u8]>),
        workspace: &mut [u64],
        rows: &mut [i32],
    ) -> usize {
        let mut parts = self.parts::<T>(workspace);
        for (least, scores) in parts.least.iter_mut().zip(bounds.0.chunks(BLOCK)) {
            *least = least_of(scores);
        }
        let inverse = inverse_norm(query);
        let query = Query { metric: self.metric, d: self.d, vector: query, inverse, base, allowed };
        let mut n_best = 0;
        if self.n_first() > 0 {
            self.begin(&query, bounds.0, &mut parts);
            n_best = self.k;
        }
        let compared = self.compare_others(&query, bounds, &mut parts, n_best);
        for (row, entry) in rows.iter_mut().zip(parts.best.iter()) {
            *row = entry.index() as i32;
        }
        rows.sort_unstable();
        parts.done.len() + compared
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
        for (rows, entries) in parts.done.chunks(ROWS).zip(parts.first.chunks_mut(ROWS)) {
            let at = |i: usize| rows[i.min(rows.len() - 1)] as usize;
            let values = query.values([at(0), at(1), at(2), at(3)]);
            for ((entry, &row), value) in entries.iter_mut().zip(rows).zip(values) {
                *entry = E::new(value.rank(false), row as usize);
            }
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
        let mut waiting = Waiting { rows: [0; ROWS], n: 0, count: 0 };
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
                    waiting.add(row, query, &mut best);
                }
            }
        }
        waiting.compare(query, &mut best);
        waiting.count
    }
}

/// Rows that wait for their comparison.
struct Waiting {
    rows: [usize; ROWS],
    n: usize,
    /// How many rows there were.
    count: usize,
}

impl Waiting {
    fn add<T: Number, E: Entry>(&mut self, row: usize, query: &Query<T>, best: &mut Best<E>) {
        self.rows[self.n] = row;
        self.n += 1;
        if self.n == ROWS {
            self.compare(query, best);
        }
    }

    fn compare<T: Number, E: Entry>(&mut self, query: &Query<T>, best: &mut Best<E>) {
        if self.n == 0 {
            return;
        }
        let last = self.rows[self.n - 1];
        self.rows[self.n..].fill(last);
        for (row, value) in self.rows.into_iter().zip(query.values(self.rows)).take(self.n) {
            best.offer(E::new(value.rank(false), row));
        }
        self.count += self.n;
        self.n = 0;
    }
}

/// The best so far: a heap, once it is full.
struct Best<'w, E> {
    entries: &'w mut [E],
    n: usize,
}

impl<E: Entry> Best<'_, E> {
    /// The last value among the k best, once there are k.
    fn limit<T: Number>(&self) -> Option<T> {
        (self.n == self.entries.len()).then(|| T::of_rank(self.entries[0].rank(), false))
    }

    fn offer(&mut self, entry: E) {
        if self.n < self.entries.len() {
            self.entries[self.n] = entry;
            self.n += 1;
            if self.n == self.entries.len() {
                make_heap(self.entries);
            }
        } else if entry < self.entries[0] {
            self.entries[0] = entry;
            sift_down(self.entries, 0);
        }
    }
}

fn make_heap<E: Entry>(entries: &mut [E]) {
    (0..entries.len() / 2).rev().for_each(|at| sift_down(entries, at));
}

fn sift_down<E: Entry>(entries: &mut [E], mut at: usize) {
    loop {
        let child = 2 * at + 1;
        let Some(&left) = entries.get(child) else { return };
        let next = match entries.get(child + 1) {
            Some(&right) if right > left => child + 1,
            _ => child,
        };
        if entries[next] <= entries[at] {
            return;
        }
        entries.swap(at, next);
        at = next;
    }
}

/// The least score; -∞ if one is NaN.
fn least_of<T: Number>(scores: &[T]) -> T {
    let infinity = T::last(false);
    let mut least = [infinity; LANES];
    let mut nan = [T::ZERO; LANES];
    // Both are selections, so that the loop is vectorized. Only NaN is not at most ∞.
    let mut add = |lane: usize, score: T| {
        least[lane] = if score < least[lane] { score } else { least[lane] };
        nan[lane] = if score <= infinity { nan[lane] } else { T::ONE };
    };
    let (whole, rest) = scores.as_chunks::<LANES>();
    for part in whole {
        for (lane, &score) in part.iter().enumerate() {
            add(lane, score);
        }
    }
    for (lane, &score) in rest.iter().enumerate() {
        add(lane, score);
    }
    match nan.contains(&T::ONE) {
        true => T::last(true),
        false => least.into_iter().fold(infinity, |a, b| if b < a { b } else { a }),
    }
}

/// A query and the rows it is compared with.
struct Query<'q, T> {
    metric: Metric,
    d: usize,
    vector: &'q [T],
    /// The inverse of its norm, for cosines.
    inverse: T,
    base: &'q [T],
    /// Whether each row may be found.
    allowed: Option<&'q [u8]>,
}

impl<T: Number> Query<'_, T> {
    /// The values of rows; less is nearer. Those of hidden rows are NaN.
    fn values(&self, rows: [usize; ROWS]) -> [T; ROWS] {
        let values = self.distances(rows);
        let Some(allowed) = self.allowed else { return values };
        std::array::from_fn(|i| if allowed[rows[i]] != 0 { values[i] } else { T::NAN })
    }

    fn distances(&self, rows: [usize; ROWS]) -> [T; ROWS] {
        let rows = rows.map(|row| &self.base[row * self.d..(row + 1) * self.d]);
        match self.metric {
            Metric::Squared => sums(self.vector, rows, |_, q, x| (q - x) * (q - x)),
            Metric::Inner => sums(self.vector, rows, |_, q, x| q * x).map(|sum| T::ZERO - sum),
            Metric::Cosine => {
                let inverses = rows.map(inverse_norm);
                let scaled = |row: usize, q: T, x: T| {
                    let difference = q * self.inverse - x * inverses[row];
                    difference * difference
                };
                let sums = sums(self.vector, rows, scaled);
                let has_angle = |inverse: T| self.inverse * inverse > T::ZERO;
                let value = |row: usize| if has_angle(inverses[row]) { sums[row] * T::HALF } else { T::ONE };
                [value(0), value(1), value(2), value(3)]
            }
        }
    }
}

/// `1 / |x|`, 0 of zeros.
fn inverse_norm<T: Number>(x: &[T]) -> T {
    let [square, ..] = sums(x, [x; ROWS], |_, q, x| q * x);
    if square > T::ZERO { square.sqrt().inverse() } else { T::ZERO }
}

/// The sums of a term over the elements of a query and of each row, in an order that follows from their length.
fn sums<T: Number>(query: &[T], rows: [&[T]; ROWS], term: impl Fn(usize, T, T) -> T) -> [T; ROWS] {
    let mut lanes = [[T::ZERO; LANES]; ROWS];
    let (parts, rest) = query.as_chunks::<LANES>();
    let rows = rows.map(|row| row.as_chunks::<LANES>());
    for (at, part) in parts.iter().enumerate() {
        for row in 0..ROWS {
            let of_row = &rows[row].0[at];
            for lane in 0..LANES {
                lanes[row][lane] = lanes[row][lane] + term(row, part[lane], of_row[lane]);
            }
        }
    }
    for (lane, &q) in rest.iter().enumerate() {
        for row in 0..ROWS {
            lanes[row][lane] = lanes[row][lane] + term(row, q, rows[row].1[lane]);
        }
    }
    lanes.map(|lanes| lanes.into_iter().fold(T::ZERO, |sum, lane| sum + lane))
}
