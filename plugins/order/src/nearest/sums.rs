//! Sums over the elements of two vectors, and least numbers, in vector registers.

use super::number::Number;
use engine_core::op::simd::{Float, Isa, Kernel, Lanes, dispatch};

/// What is added for each pair of elements.
pub trait Term<T>: Copy {
    /// Adds the terms of vector registers to sums.
    ///
    /// # Safety
    /// As for [`Lanes`].
    unsafe fn add<V: Lanes<Scalar = T>>(self, a: V, b: V, sums: V) -> V;
}

/// `(a - b)²`.
#[derive(Clone, Copy)]
pub struct Difference;

/// `a · b`.
#[derive(Clone, Copy)]
pub struct Product;

/// `(a · s)²` for a factor s.
#[derive(Clone, Copy)]
pub struct ScaledSquare<T>(pub T);

/// `(a·s·i - b·t·j)²` for scales s and t and inverse norms i and j, whose products may overflow.
#[derive(Clone, Copy)]
pub struct ScaledDifference<T> {
    pub scales: [T; 2],
    pub inverses: [T; 2],
}

impl<T> Term<T> for Difference {
    #[inline(always)]
    unsafe fn add<V: Lanes<Scalar = T>>(self, a: V, b: V, sums: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let difference = a.minus(b);
            difference.mul_add(difference, sums)
        }
    }
}

impl<T> Term<T> for Product {
    #[inline(always)]
    unsafe fn add<V: Lanes<Scalar = T>>(self, a: V, b: V, sums: V) -> V {
        // SAFETY: the caller's.
        unsafe { a.mul_add(b, sums) }
    }
}

impl<T: Copy> Term<T> for ScaledSquare<T> {
    #[inline(always)]
    unsafe fn add<V: Lanes<Scalar = T>>(self, a: V, _: V, sums: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let scaled = a.times(V::splat(self.0));
            scaled.mul_add(scaled, sums)
        }
    }
}

impl<T: Copy> Term<T> for ScaledDifference<T> {
    #[inline(always)]
    unsafe fn add<V: Lanes<Scalar = T>>(self, a: V, b: V, sums: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let [s, t] = self.scales.map(|scale| V::splat(scale));
            let [i, j] = self.inverses.map(|inverse| V::splat(inverse));
            Difference.add(a.times(s).times(i), b.times(t).times(j), sums)
        }
    }
}

/// The sum of a term over the elements of two vectors of one length.
pub fn sum<T: Float>(a: &[T], b: &[T], term: impl Term<T>) -> T {
    dispatch(Sum { a, b, term })
}

/// Registers of sums, so that additions overlap.
const SUMS: usize = 4;
/// The widest register, in elements.
const WIDEST: usize = 16;

struct Sum<'a, T, F> {
    a: &'a [T],
    b: &'a [T],
    term: F,
}

impl<T: Float, F: Term<T>> Kernel for Sum<'_, T, F> {
    type Output = T;
    #[inline(always)]
    fn run<I: Isa>(self) -> T {
        // SAFETY: `dispatch` has found the instruction set.
        unsafe { self.sum::<T::Vector<I>>() }
    }
}

impl<T: Float, F: Term<T>> Sum<'_, T, F> {
    /// # Safety
    /// As for [`Lanes`].
    #[inline(always)]
    unsafe fn sum<V: Lanes<Scalar = T>>(&self) -> T {
        let n = self.a.len().min(self.b.len());
        let (a, b) = (self.a.as_ptr(), self.b.as_ptr());
        let step = SUMS * V::N;
        let (all, whole) = (n / step * step, n / V::N * V::N);
        // SAFETY: the caller's; all vectors lie before element n.
        unsafe {
            let at = |place: usize| (V::load(a.add(place)), V::load(b.add(place)));
            let mut sums = [V::splat(T::default()); SUMS];
            for first in (0..all).step_by(step) {
                for (i, sums) in sums.iter_mut().enumerate() {
                    let (a, b) = at(first + i * V::N);
                    *sums = self.term.add(a, b, *sums);
                }
            }
            for place in (all..whole).step_by(V::N) {
                let (a, b) = at(place);
                sums[0] = self.term.add(a, b, sums[0]);
            }
            let [first, second, third, fourth] = sums;
            let sums = first.plus(second).plus(third.plus(fourth));
            let mut lanes = [T::default(); WIDEST];
            sums.store(lanes.as_mut_ptr());
            if whole == n {
                return sum_of_lanes(lanes);
            }
            // The last elements, one by one in the first lane of a register.
            let mut rest = [[T::default(); WIDEST]; 2];
            rest[0][..n - whole].copy_from_slice(&self.a[whole..n]);
            rest[1][..n - whole].copy_from_slice(&self.b[whole..n]);
            let [a, b] = rest.map(|rest| V::load(rest.as_ptr()));
            self.term.add(a, b, V::load(lanes.as_ptr())).store(lanes.as_mut_ptr());
            sum_of_lanes(lanes)
        }
    }
}

/// The sum of the lanes of a register; lanes that it lacks are 0. Halves are added, which takes the compiler a few vector
/// instructions.
#[inline(always)]
fn sum_of_lanes<T: Float>(mut lanes: [T; WIDEST]) -> T {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

/// The least number of each block of so many; -∞ if one is NaN.
pub fn least_of_blocks<T: Number>(numbers: &[T], block: usize, least: &mut [T]) {
    dispatch(Least { numbers, block, least });
}

struct Least<'a, T> {
    numbers: &'a [T],
    block: usize,
    least: &'a mut [T],
}

impl<T: Number> Kernel for Least<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (least, numbers) in self.least.iter_mut().zip(self.numbers.chunks(self.block)) {
            // SAFETY: `dispatch` has found the instruction set.
            let number = unsafe { least_of::<T, T::Vector<I>>(numbers) };
            *least = if number.is_nan() { T::last(true) } else { number };
        }
    }
}

/// The least number, or NaN if there is one.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn least_of<T: Number, V: Lanes<Scalar = T>>(numbers: &[T]) -> T {
    let whole = numbers.len() / V::N * V::N;
    // SAFETY: the caller's; all vectors are inside the slice.
    unsafe {
        let mut least = V::splat(T::last(false));
        for at in (0..whole).step_by(V::N) {
            least = V::load(numbers.as_ptr().add(at)).smaller(least);
        }
        let mut lanes = [T::last(false); WIDEST];
        least.store(lanes.as_mut_ptr());
        // A NaN stays, since no number is less.
        let smaller = |least: T, number: T| if number < least || number.is_nan() { number } else { least };
        // Halves, which are vector instructions.
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] = smaller(lanes[i], lanes[i + half]);
            }
        }
        numbers[whole..].iter().fold(lanes[0], |least, &number| smaller(least, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_blocks_is_lost_to_nan() {
        for n in [1usize, 16, 63, 64, 150] {
            let numbers: Vec<f32> = (0..n).map(|i| ((i * 37) % 101) as f32).collect();
            let mut least = vec![0.0; n.div_ceil(64)];
            least_of_blocks(&numbers, 64, &mut least);
            let exact = |numbers: &[f32]| numbers.iter().copied().fold(f32::INFINITY, f32::min);
            assert_eq!(least, numbers.chunks(64).map(exact).collect::<Vec<_>>());
            for at in 0..n {
                let mut numbers = numbers.clone();
                numbers[at] = f32::NAN;
                least_of_blocks(&numbers, 64, &mut least);
                assert_eq!(least[at / 64], f32::NEG_INFINITY, "{at} of {n}");
            }
        }
    }

    #[test]
    fn sums_of_all_lengths_are_those_of_double_precision() {
        for n in [0, 1, 7, 16, 33, 64, 150, 784] {
            let numbers =
                |step: usize| (0..n).map(|i| ((i * step) % 101) as f32 / 101.0 - 0.5).collect::<Vec<_>>();
            let (a, b) = (numbers(7), numbers(31));
            let exact = |term: fn(f64, f64) -> f64| {
                a.iter().zip(&b).map(|(a, b)| term(f64::from(*a), f64::from(*b))).sum::<f64>()
            };
            let near = |sum: f32, exact: f64| {
                assert!((f64::from(sum) - exact).abs() <= 1e-5 * exact.abs().max(1.0), "{n}: {sum}, {exact}")
            };
            near(sum(&a, &b, Difference), exact(|a, b| (a - b) * (a - b)));
            near(sum(&a, &b, Product), exact(|a, b| a * b));
            let scaled = ScaledDifference { scales: [0.5, 2.0], inverses: [4.0, 1.5] };
            near(sum(&a, &b, scaled), exact(|a, b| (2.0 * a - 3.0 * b).powi(2)));
            near(sum(&a, &b, ScaledSquare(3.0)), exact(|a, _| 9.0 * a * a));
            let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            assert!((sum(&wide(&a), &wide(&b), Product) - exact(|a, b| a * b)).abs() < 1e-12);
        }
    }
}
