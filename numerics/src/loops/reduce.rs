//! Reductions of slices, in an order that depends on the length alone: the same bits on every instruction set and
//! with any number of threads.

use super::elementwise::Element;
use crate::match_type;
use crate::math::{is_nan, larger, smaller};
use crate::simd::operation::{Add, Max, Min, Mul, Operation};
use crate::simd::prefetch::{Prefetch, Requests};
use engine_core::ir::Monoid;
use engine_core::op::simd::Lanes;
use engine_core::op::simd::{Isa, Kernel};

/// Binds `$C` to the type of a fold.
macro_rules! with_fold {
    ($fold:expr, $C:ident => $body:expr) => {
        match_type!($fold, $C => $body, Fold::Sum => Add, Fold::Product => Mul, Fold::Max => Max, Fold::Min => Min)
    };
}

/// An operation that combines two partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Addition; integers wrap.
    Sum,
    /// Multiplication; integers wrap.
    Product,
    /// The larger; NaN if either is NaN.
    Max,
    /// The smaller; NaN if either is NaN.
    Min,
}

impl Fold {
    /// The fold of a monoid; for an index, the fold of its values.
    pub fn of(monoid: Monoid) -> Fold {
        match monoid {
            Monoid::Sum => Fold::Sum,
            Monoid::Prod => Fold::Product,
            Monoid::Max | Monoid::ArgMax => Fold::Max,
            Monoid::Min | Monoid::ArgMin => Fold::Min,
        }
    }
}

/// A type that can be folded.
pub trait Foldable: Element {
    /// The neutral element: 0, 1, or an end of the type (±inf on floats).
    fn neutral(fold: Fold) -> Self;
    /// `a + b`, wrapping on integers.
    fn plus(a: Self, b: Self) -> Self;
    /// `a · b`, wrapping on integers.
    fn times(a: Self, b: Self) -> Self;
    /// The fold of each column of some rows.
    #[doc(hidden)]
    fn fold_lanes<I: Isa, C: Combine>(rows: &[[Self; N_LANES]], requests: &mut Requests) -> [Self; N_LANES];
}

/// `fold(a, b)` of two values.
pub fn combine<T: Foldable>(fold: Fold, a: T, b: T) -> T {
    with_fold!(fold, C => C::combine(a, b))
}

const N_LANES: usize = 64;
const BLOCK: usize = 4096;

/// A [`Fold`] as a type, so that a loop is compiled for each.
#[doc(hidden)]
pub trait Combine: Operation {
    const FOLD: Fold;
    fn combine<T: Foldable>(a: T, b: T) -> T;
}

macro_rules! combine {
    ($($operation:ident as $fold:ident: |$a:ident, $b:ident| $value:expr;)*) => { $(
        impl Combine for $operation {
            const FOLD: Fold = Fold::$fold;
            #[inline(always)]
            fn combine<T: Foldable>($a: T, $b: T) -> T {
                $value
            }
        }
    )* };
}
combine! {
    Add as Sum: |a, b| T::plus(a, b);
    Mul as Product: |a, b| T::times(a, b);
    Max as Max: |a, b| larger(a, b);
    Min as Min: |a, b| smaller(a, b);
}

/// `fold` as a loop of an instruction set.
pub struct FoldSlice<'a, T> {
    pub(super) fold: Fold,
    pub(super) x: &'a [T],
    pub(super) ahead: Prefetch,
}
impl<T: Foldable> Kernel for FoldSlice<'_, T> {
    type Output = T;
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) -> T {
        with_fold!(self.fold, C => fold_pairwise::<I, T, C>(self.x, self.ahead))
    }
}

/// A balanced tree over blocks. Partial results are on a stack and merge like the carries of a binary counter, because
/// a recursive function cannot be inlined.
#[inline(always)]
fn fold_pairwise<I: Isa, T: Foldable, C: Combine>(x: &[T], ahead: Prefetch) -> T {
    if x.len() < N_LANES / 2 {
        return x.iter().fold(T::neutral(C::FOLD), |partial, &value| C::combine(partial, value));
    }
    let mut partials = [T::neutral(C::FOLD); usize::BITS as usize];
    let mut height = 0;
    let mut requests = ahead.over(x.len() / N_LANES);
    for (block_idx, block) in x.chunks(BLOCK).enumerate() {
        let mut partial = fold_block::<I, T, C>(block, &mut requests);
        for _ in 0..block_idx.trailing_ones() {
            height -= 1;
            partial = C::combine(partials[height], partial);
        }
        partials[height] = partial;
        height += 1;
    }
    partials[..height]
        .iter()
        .rev()
        .copied()
        .reduce(|right, left| C::combine(left, right))
        .unwrap_or(T::neutral(C::FOLD))
}

#[inline(always)]
fn fold_block<I: Isa, T: Foldable, C: Combine>(x: &[T], requests: &mut Requests) -> T {
    let (rows, rest) = x.as_chunks::<N_LANES>();
    let mut lanes = T::fold_lanes::<I, C>(rows, requests);
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = C::combine(*lane, value);
    }
    let mut width = N_LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = C::combine(lanes[i], lanes[i + width]);
        }
    }
    lanes[0]
}

/// Lanes in an array, which the compiler vectorises.
#[inline(always)]
fn fold_array_lanes<T: Foldable, C: Combine>(
    rows: &[[T; N_LANES]],
    _requests: &mut Requests,
) -> [T; N_LANES] {
    let mut lanes = [T::neutral(C::FOLD); N_LANES];
    for row in rows {
        for (lane, &value) in lanes.iter_mut().zip(row) {
            *lane = C::combine(*lane, value);
        }
    }
    lanes
}

/// Lanes in vector registers; an array of as many would stay in memory.
// Indexed, not iterated: the count is a constant and the loops must unroll.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn fold_vector_lanes<V: Lanes<Scalar: Foldable>, C: Combine>(
    rows: &[[V::Scalar; N_LANES]],
    requests: &mut Requests,
) -> [V::Scalar; N_LANES] {
    const MOST: usize = N_LANES / 2;
    let neutral = V::Scalar::neutral(C::FOLD);
    let mut lanes = [neutral; N_LANES];
    // SAFETY: `V` belongs to the instruction set of the loop; vectors stay inside rows.
    unsafe {
        let mut vectors = [V::splat(neutral); MOST];
        for row in rows {
            requests.step();
            for i in 0..N_LANES / V::N {
                vectors[i] = C::apply(vectors[i], V::load(row.as_ptr().add(i * V::N)));
            }
        }
        for i in 0..N_LANES / V::N {
            vectors[i].store(lanes.as_mut_ptr().add(i * V::N));
        }
    }
    lanes
}

/// `fold_blocks` as a loop of an instruction set.
pub struct FoldBlocks<'a, T> {
    pub(super) fold: Fold,
    pub(super) x: &'a [T],
    pub(super) width: usize,
    pub(super) out: &'a mut [T],
}
impl<T: Foldable> Kernel for FoldBlocks<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        with_fold!(self.fold, C => self.run_with::<C>());
    }
}

/// Lanes of a block, which the compiler keeps in a register or two.
const BLOCK_LANES: usize = 16;

impl<T: Foldable> FoldBlocks<'_, T> {
    #[inline(always)]
    fn run_with<C: Combine>(self) {
        for (block, out) in self.x.chunks_exact(self.width).zip(self.out) {
            let mut lanes = [T::neutral(C::FOLD); BLOCK_LANES];
            for part in block.as_chunks::<BLOCK_LANES>().0 {
                for (lane, &value) in lanes.iter_mut().zip(part) {
                    *lane = C::combine(*lane, value);
                }
            }
            let mut width = BLOCK_LANES;
            while width > 1 {
                width /= 2;
                for i in 0..width {
                    lanes[i] = C::combine(lanes[i], lanes[i + width]);
                }
            }
            *out = lanes[0];
        }
    }
}

/// `argmax` or `argmin` as a loop of an instruction set.
pub struct FirstIndex<'a, T> {
    pub(super) value: T,
    pub(super) x: &'a [T],
}
impl<T: Foldable> Kernel for FirstIndex<'_, T> {
    type Output = Option<usize>;
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) -> Option<usize> {
        let value = self.value;
        let searches_nan = is_nan(value);
        let matches = |&v: &T| if searches_nan { is_nan(v) } else { v == value };
        let chunk_idx =
            self.x.chunks(N_LANES).position(|chunk| chunk.iter().fold(false, |any, v| any | matches(v)))?;
        let start = chunk_idx * N_LANES;
        Some(start + self.x[start..].iter().position(matches)?)
    }
}

/// `fold_rows` as a loop of an instruction set.
pub struct FoldRows<'a, T> {
    pub(super) fold: Fold,
    pub(super) rows: &'a [T],
    pub(super) n_rows: usize,
    pub(super) row_stride: usize,
    pub(super) accumulator: &'a mut [T],
}
impl<T: Foldable> Kernel for FoldRows<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        with_fold!(self.fold, C => self.run_with::<C>());
    }
}

impl<T: Foldable> FoldRows<'_, T> {
    /// Strips of 64 columns stay in registers over all rows.
    #[inline(always)]
    fn run_with<C: Combine>(self) {
        let (strips, rest) = self.accumulator.as_chunks_mut::<N_LANES>();
        let n_whole = strips.len() * N_LANES;
        for (strip_idx, strip) in strips.iter_mut().enumerate() {
            let mut lanes = *strip;
            for row_idx in 0..self.n_rows {
                let row = &self.rows[row_idx * self.row_stride + strip_idx * N_LANES..][..N_LANES];
                for (lane, &value) in lanes.iter_mut().zip(row) {
                    *lane = C::combine(*lane, value);
                }
            }
            *strip = lanes;
        }
        for row_idx in 0..self.n_rows {
            let row = &self.rows[row_idx * self.row_stride + n_whole..][..rest.len()];
            for (lane, &value) in rest.iter_mut().zip(row) {
                *lane = C::combine(*lane, value);
            }
        }
    }
}

macro_rules! foldable {
    ($($type:ident: $lowest:expr, $highest:expr, $plus:expr, $times:expr, $fold_lanes:expr;)*) => { $(
        impl Foldable for $type {
            #[inline(always)]
            fn neutral(fold: Fold) -> $type {
                match fold {
                    Fold::Sum => 0 as $type,
                    Fold::Product => 1 as $type,
                    Fold::Max => $lowest,
                    Fold::Min => $highest,
                }
            }
            #[inline(always)]
            fn plus(a: $type, b: $type) -> $type {
                $plus(a, b)
            }
            #[inline(always)]
            fn times(a: $type, b: $type) -> $type {
                $times(a, b)
            }
            #[inline(always)]
            fn fold_lanes<I: Isa, C: Combine>(
                rows: &[[$type; N_LANES]],
                requests: &mut Requests,
            ) -> [$type; N_LANES] {
                $fold_lanes(rows, requests)
            }
        }
    )* };
}

foldable! {
    f32: f32::NEG_INFINITY, f32::INFINITY, |a, b| a + b, |a, b| a * b, fold_vector_lanes::<I::F32, C>;
    f64: f64::NEG_INFINITY, f64::INFINITY, |a, b| a + b, |a, b| a * b, fold_vector_lanes::<I::F64, C>;
    i32: i32::MIN, i32::MAX, i32::wrapping_add, i32::wrapping_mul, fold_array_lanes::<i32, C>;
    i64: i64::MIN, i64::MAX, i64::wrapping_add, i64::wrapping_mul, fold_array_lanes::<i64, C>;
    u32: u32::MIN, u32::MAX, u32::wrapping_add, u32::wrapping_mul, fold_array_lanes::<u32, C>;
    u8: u8::MIN, u8::MAX, u8::wrapping_add, u8::wrapping_mul, fold_array_lanes::<u8, C>;
    i8: i8::MIN, i8::MAX, i8::wrapping_add, i8::wrapping_mul, fold_array_lanes::<i8, C>;
    i16: i16::MIN, i16::MAX, i16::wrapping_add, i16::wrapping_mul, fold_array_lanes::<i16, C>;
    u16: u16::MIN, u16::MAX, u16::wrapping_add, u16::wrapping_mul, fold_array_lanes::<u16, C>;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::loops::{argmax, argmin, fold, fold_rows};
    use engine_core::op::simd::{Level, dispatch_on};

    fn wave(len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7919) % 1009) as f32 / 1009.0 - 0.4).collect()
    }

    #[test]
    fn sums_of_any_length_are_close_to_the_f64_sum() {
        for len in [0, 1, 31, 32, 63, 64, 65, 4095, 4096, 4097, 16384, 100_003] {
            let x = wave(len);
            let exact: f64 = x.iter().map(|&v| v as f64).sum();
            let magnitude: f64 = x.iter().map(|&v| v.abs() as f64).sum();
            assert!((fold(Fold::Sum, &x) as f64 - exact).abs() <= 3e-7 * magnitude, "{len}");
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let x = wave(20_011);
        for kind in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
            let bits = |level| {
                dispatch_on(level, FoldSlice { fold: kind, x: &x[..9000], ahead: Prefetch::NOTHING })
                    .to_bits()
            };
            assert!(Level::available().all(|level| bits(level) == bits(Level::Baseline)), "{kind:?}");
        }
    }

    #[test]
    fn extremes_and_products_agree_with_plain_loops() {
        let x = wave(5000);
        assert_eq!(fold(Fold::Max, &x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        assert_eq!(fold(Fold::Min, &x), x.iter().copied().fold(f32::INFINITY, f32::min));
        assert_eq!(fold(Fold::Product, &[2i64, -3, 7]), -42);
        assert_eq!(fold(Fold::Sum, &[i32::MAX, 1]), i32::MIN);
        assert_eq!(fold(Fold::Max, &[3u8, 200, 4]), 200);
        assert_eq!(fold::<f64>(Fold::Min, &[]), f64::INFINITY);
    }

    #[test]
    fn one_nan_anywhere_makes_the_extremes_nan() {
        for at in [0, 1, 63, 64, 4095, 4096, 4999] {
            let mut x = wave(5000);
            x[at] = f32::NAN;
            assert!(fold(Fold::Max, &x).is_nan() && fold(Fold::Min, &x).is_nan(), "{at}");
            assert_eq!((argmax(&x), argmin(&x)), (Some(at), Some(at)));
        }
    }

    #[test]
    fn the_first_of_equal_extremes_wins() {
        let mut x = vec![0i32; 300];
        (x[70], x[200]) = (5, 5);
        (x[100], x[299]) = (-5, -5);
        assert_eq!((argmax(&x), argmin(&x)), (Some(70), Some(100)));
        assert_eq!(argmax(&[f32::NEG_INFINITY; 3]), Some(0));
        assert_eq!(argmax::<f32>(&[]), None);
    }

    #[test]
    fn rows_fold_onto_the_accumulator() {
        let (n_rows, n_columns, row_stride) = (9, 150, 160);
        let rows = wave(n_rows * row_stride);
        for kind in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
            let mut accumulator = vec![0.25; n_columns];
            fold_rows(kind, &rows, n_rows, row_stride, &mut accumulator);
            for (j, &got) in accumulator.iter().enumerate() {
                let expected = (0..n_rows).fold(0.25, |sum, i| combine(kind, sum, rows[i * row_stride + j]));
                assert_eq!(got, expected, "{kind:?} of column {j}");
            }
        }
    }
}
