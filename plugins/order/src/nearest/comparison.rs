//! Values of a query and rows, and the best of them.

use super::metric::Metric;
use super::number::Number;
use super::sums::{Difference, Product, ScaledDifference, ScaledSquare, sum};
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
    /// Its length, for cosines.
    length: Length<T>,
    base: &'q [T],
    /// Whether each row may be found.
    allowed: Option<&'q [u8]>,
}

impl<'q, T: Number> Query<'q, T> {
    /// A query among the rows of a base, those that are allowed.
    pub fn new(metric: Metric, vector: &'q [T], base: &'q [T], allowed: Option<&'q [u8]>) -> Query<'q, T> {
        Query { metric, d: vector.len(), vector, length: Length::of(vector), base, allowed }
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
                let lengths = [self.length, Length::of(row)];
                let inverses = lengths.map(|length| length.inverse);
                let product = inverses[0] * inverses[1];
                if product > T::ZERO {
                    let scales = lengths.map(|length| length.scale);
                    T::HALF * sum(self.vector, row, ScaledDifference { scales, inverses })
                } else if product.is_nan() {
                    T::NAN
                } else {
                    T::ONE
                }
            }
        }
    }
}

/// The length of a vector whose squares may be beyond the range of their type.
#[derive(Clone, Copy)]
struct Length<T> {
    /// A power of two, by which the vector is multiplied: 1 for vectors of moderate length.
    scale: T,
    /// The inverse norm of that product: 0 of zeros and of an infinite vector, NaN of a NaN.
    inverse: T,
}

impl<T: Number> Length<T> {
    fn of(x: &[T]) -> Length<T> {
        let [shortest, longest] = T::SQUARES;
        let mut square = sum(x, x, Product);
        let mut scale = T::ONE;
        if square < shortest || square > longest {
            scale = if square < shortest { T::ENLARGING } else { T::REDUCING };
            square = sum(x, x, ScaledSquare(scale));
        }
        let inverse = if square == T::ZERO { T::ZERO } else { square.sqrt().inverse() };
        Length { scale, inverse }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distances<T: Number>(query: &[T], rows: &[T]) -> Vec<T> {
        let query = Query::new(Metric::Cosine, query, rows, None);
        (0..rows.len() / query.d).map(|row| query.value(row)).collect()
    }

    #[test]
    fn cosines_do_not_depend_on_lengths() {
        for scale in [1e-40f32, 1e-37, 1e-25, 1e-19, 1.0, 1e19, 1e20, 1e37] {
            let rows = [0.0, 3.0, 2.0, 0.0, -1.0, 0.0, 0.0, 0.0].map(|x: f32| x * scale);
            for of_query in [1e-40f32, 1e-25, 1.0, 1e38] {
                let found = distances(&[of_query, 0.0], &rows);
                let errors = found.iter().zip([1.0, 0.0, 2.0, 1.0]).map(|(found, exact)| found - exact);
                assert!(errors.fold(0.0, |most, error| f32::max(most, error.abs())) < 1e-6, "{found:?}");
            }
        }
        for scale in [1e-310f64, 1e-200, 1.0, 1e200, 1e307] {
            let rows = [0.0, 3.0, 2.0, 0.0, -1.0, 0.0].map(|x: f64| x * scale);
            let found = distances(&[1e-200, 0.0], &rows);
            let errors = found.iter().zip([1.0, 0.0, 2.0]).map(|(found, exact)| found - exact);
            assert!(errors.fold(0.0, |most, error| f64::max(most, error.abs())) < 1e-14, "{found:?}");
        }
    }

    #[test]
    fn the_cosine_of_nan_is_nan_and_that_of_an_infinite_row_counts_as_0() {
        let rows = [f32::NAN, 1.0, f32::INFINITY, 1.0, f32::INFINITY, f32::NAN];
        let found = distances(&[1.0, 0.0], &rows);
        assert!(found[0].is_nan() && found[1] == 1.0 && found[2].is_nan(), "{found:?}");
    }
}
