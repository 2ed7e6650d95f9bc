//! Values of a query and rows, and the best of them.

use super::metric::Metric;
use super::number::Number;
use super::sums::{Difference, Product, ScaledDifference, sum};
use crate::rank::Entry;

/// The best so far: a heap, once it is full.
pub struct Best<'w, E> {
    pub entries: &'w mut [E],
    pub n: usize,
}

impl<E: Entry> Best<'_, E> {
    /// The last value among the k best, once there are k.
    pub fn limit<T: Number>(&self) -> Option<T> {
        (self.n == self.entries.len()).then(|| T::of_rank(self.entries[0].rank(), false))
    }

    /// Takes an entry, if it is among the best.
    pub fn offer(&mut self, entry: E) {
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

/// Puts the last entry in front, and so on.
pub fn make_heap<E: Entry>(entries: &mut [E]) {
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

/// A query and the rows it is compared with.
pub struct Query<'q, T> {
    metric: Metric,
    d: usize,
    vector: &'q [T],
    /// The inverse of its norm, for cosines.
    inverse: T,
    base: &'q [T],
    /// Whether each row may be found.
    allowed: Option<&'q [u8]>,
}

impl<'q, T: Number> Query<'q, T> {
    /// A query among the rows of a base, those that are allowed.
    pub fn new(metric: Metric, vector: &'q [T], base: &'q [T], allowed: Option<&'q [u8]>) -> Query<'q, T> {
        Query { metric, d: vector.len(), vector, inverse: inverse_norm(vector), base, allowed }
    }

    /// The value of a row; less is nearer. That of a hidden row is NaN.
    pub fn value(&self, row: usize) -> T {
        if self.allowed.is_some_and(|allowed| allowed[row] == 0) {
            return T::NAN;
        }
        let row = &self.base[row * self.d..(row + 1) * self.d];
        match self.metric {
            Metric::Squared => sum(self.vector, row, Difference),
            Metric::Inner => T::ZERO - sum(self.vector, row, Product),
            Metric::Cosine => {
                let inverses = [self.inverse, inverse_norm(row)];
                let sum = sum(self.vector, row, ScaledDifference(inverses));
                if inverses[0] * inverses[1] > T::ZERO { sum * T::HALF } else { T::ONE }
            }
        }
    }
}

/// `1 / |x|`, 0 of zeros.
fn inverse_norm<T: Number>(x: &[T]) -> T {
    let square = sum(x, x, Product);
    if square > T::ZERO { square.sqrt().inverse() } else { T::ZERO }
}
