//! Products of one row with many rows anywhere in memory. For a query with keys of its own, gathering the keys for a
//! matrix product costs more than the product.

use engine_core::op::simd::Lanes;
use engine_core::op::simd::{Float, Isa, Kernel};

/// Rows in memory.
#[derive(Clone, Copy, Debug)]
pub enum Rows<T> {
    /// Rows at an even distance.
    Strided {
        /// The first element of the first row.
        start: *const T,
        /// Elements from row to row.
        stride: isize,
        /// The number of rows.
        n: usize,
    },
    /// Rows at addresses of their own.
    Picked {
        /// The address of the first row; those of the others follow.
        first: *const *const T,
        /// The number of rows.
        n: usize,
    },
}

impl<T> Rows<T> {
    /// The number of rows.
    pub fn count(&self) -> usize {
        match *self {
            Rows::Strided { n, .. } | Rows::Picked { n, .. } => n,
        }
    }

    /// The first element of a row.
    ///
    /// # Safety
    /// There must be such a row.
    #[inline(always)]
    pub unsafe fn row(&self, row_idx: usize) -> *const T {
        match *self {
            Rows::Strided { start, stride, .. } => start.wrapping_offset(row_idx as isize * stride),
            // SAFETY: the caller's.
            Rows::Picked { first, .. } => unsafe { *first.add(row_idx) },
        }
    }
}

/// Rows, or vectors of a row, that a loop reads together.
const ABREAST: usize = 4;
/// Widest vector, in elements, over all types and instruction sets.
const WIDEST: usize = 16;

/// `scores_of_row` as a loop of an instruction set.
pub struct Scores<'a, T> {
    pub(super) x: &'a [T],
    pub(super) rows: Rows<T>,
    pub(super) out: &'a mut [T],
}

impl<T: Float> Kernel for Scores<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let last = self.out.len().saturating_sub(1);
        for first in (0..self.out.len()).step_by(ABREAST) {
            // Past the end the last row is read again.
            // SAFETY: rows exist and are as long as x, as the caller promises; the vectors belong to the instruction set.
            let sums = unsafe {
                let rows: [*const T; ABREAST] = std::array::from_fn(|i| self.rows.row((first + i).min(last)));
                dot::<T, T::Vector<I>>(self.x, rows)
            };
            let out = &mut self.out[first..];
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum);
        }
    }
}

#[inline(always)]
unsafe fn dot<T: Float, V: Lanes<Scalar = T>>(x: &[T], rows: [*const T; ABREAST]) -> [T; ABREAST] {
    let whole = x.len() / V::N * V::N;
    let mut results = [T::default(); ABREAST];
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [V::splat(T::default()); ABREAST];
        for d in (0..whole).step_by(V::N) {
            let x = V::load(x.as_ptr().add(d));
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum = V::load(row.add(d)).mul_add(x, *sum);
            }
        }
        for ((result, sum), row) in results.iter_mut().zip(sums).zip(rows) {
            let mut lanes = [T::default(); WIDEST];
            sum.store(lanes.as_mut_ptr());
            *result = halved(&mut lanes);
            for (d, &x) in x.iter().enumerate().skip(whole) {
                *result += x * *row.add(d);
            }
        }
    }
    results
}

/// The sum of all lanes: halves are added until one lane is left.
#[inline(always)]
fn halved<T: Float>(lanes: &mut [T; WIDEST]) -> T {
    let mut width = WIDEST / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// `weighted_sum` as a loop of an instruction set.
pub struct Weighted<'a, T> {
    pub(super) weights: &'a [T],
    pub(super) rows: Rows<T>,
    pub(super) out: &'a mut [T],
}

impl<T: Float> Kernel for Weighted<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let width = self.out.len();
        let step = ABREAST * <T::Vector<I> as Lanes>::N;
        let mut at = 0;
        // SAFETY: rows exist and are as long as out, as the caller promises; the vectors belong to the instruction set.
        unsafe {
            while at + step <= width {
                self.columns::<T::Vector<I>, ABREAST>(at);
                at += step;
            }
            while at + <T::Vector<I> as Lanes>::N <= width {
                self.columns::<T::Vector<I>, 1>(at);
                at += <T::Vector<I> as Lanes>::N;
            }
            for w in at..width {
                let mut sum = T::default();
                for (j, &weight) in self.weights.iter().enumerate() {
                    sum += weight * *self.rows.row(j).add(w);
                }
                self.out[w] = sum;
            }
        }
    }
}

impl<T: Float> Weighted<'_, T> {
    /// `COUNT` vectors of the result.
    #[inline(always)]
    unsafe fn columns<V: Lanes<Scalar = T>, const COUNT: usize>(&mut self, at: usize) {
        // SAFETY: the caller's.
        unsafe {
            let mut sums = [V::splat(T::default()); COUNT];
            for (j, &weight) in self.weights.iter().enumerate() {
                let (weight, row) = (V::splat(weight), self.rows.row(j).add(at));
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(row.add(i * V::N)).mul_add(weight, *sum);
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                sum.store(self.out.as_mut_ptr().add(at + i * V::N));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::{scores_of_row, weighted_sum};

    fn numbers(n: usize, salt: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 + salt * 11) % 23) as f32 - 11.0).collect()
    }

    #[test]
    fn strided_and_picked_rows_give_the_sums_of_products() {
        for (n, width) in [(1, 1), (3, 7), (4, 16), (5, 64), (9, 70), (2, 131), (0, 5)] {
            let (x, weights, data) = (numbers(width, 1), numbers(n, 2), numbers(2 * n * width, 3));
            let row = |j: usize| &data[2 * j * width..][..width];
            let pointers: Vec<*const f32> = (0..n).map(|j| row(j).as_ptr()).collect();
            let strided = Rows::Strided { start: data.as_ptr(), stride: 2 * width as isize, n };
            for rows in [strided, Rows::Picked { first: pointers.as_ptr(), n }] {
                let (mut scores, mut sum) = (vec![f32::NAN; n], vec![f32::NAN; width]);
                // SAFETY: there are `n` rows of `width` elements.
                unsafe {
                    scores_of_row(&x, rows, &mut scores);
                    weighted_sum(&weights, rows, &mut sum);
                }
                // Small integers: every order of adding them is exact.
                let dot = |j: usize| row(j).iter().zip(&x).map(|(a, b)| a * b).sum::<f32>();
                assert_eq!(scores, (0..n).map(dot).collect::<Vec<_>>());
                let total = |w: usize| (0..n).map(|j| weights[j] * row(j)[w]).sum::<f32>();
                assert_eq!(sum, (0..width).map(total).collect::<Vec<_>>());
            }
        }
    }
}
