//! The entry points of loops over numbers, and the types whose loops are compiled in this crate.

use super::elementwise::{BinaryKernel, CompareKernel, MulAddKernel, Operand, UnaryKernel};
use super::reduce::{FirstIndex, Fold, FoldBlocks, FoldRows, FoldSlice, Foldable};
use crate::simd::prefetch::Prefetch;
use engine_core::ir::{Binary, Unary};
use engine_core::op::simd::dispatch;

/// `out[i] = op(x[i])`; loops over f32 request the memory in `ahead`.
///
/// # Panics
/// If the lengths differ, or if `op` does not take `T` to `T`, such as a transcendental function of an integer.
pub fn unary<T: Number>(op: Unary, x: &[T], out: &mut [T], ahead: Prefetch) {
    assert_eq!(x.len(), out.len());
    T::run_unary(UnaryKernel { op, x, out, ahead });
    T::finish_unary(op, x, out);
}

/// `out[i] = op(a[i], b[i])`; loops over f32 request the memory in `ahead`.
///
/// # Panics
/// If the lengths differ, or if `op` does not take `T` to `T`, such as a bit operation on floats or a comparison.
pub fn binary<T: Number>(op: Binary, a: Operand<T>, b: Operand<T>, out: &mut [T], ahead: Prefetch) {
    T::run_binary(BinaryKernel { op, a: a.checked(out.len()), b: b.checked(out.len()), out, ahead });
}

/// `out[i] = op(a[i], b[i])` as 0 or 1; all comparisons but `Ne` are false where an argument is NaN.
///
/// # Panics
/// If the lengths differ, or if `op` is not a comparison.
pub fn compare<T: Number>(op: Binary, a: Operand<T>, b: Operand<T>, out: &mut [u8]) {
    T::run_compare(CompareKernel { op, a: a.checked(out.len()), b: b.checked(out.len()), out });
}

/// `out[i] = a[i]·b[i] + c[i]`, in one rounding on floats where the machine has the instruction.
///
/// # Panics
/// If the lengths differ.
pub fn mul_add<T: Number>(a: &[T], b: Operand<T>, c: Operand<T>, out: &mut [T]) {
    assert_eq!(a.len(), out.len());
    T::run_mul_add(MulAddKernel { a, b: b.checked(out.len()), c: c.checked(out.len()), out });
}

/// The fold of a slice: 64 interleaved lanes over blocks of 4096 elements, merged pairwise. So the error of a sum grows
/// with the logarithm of the number of blocks. Fewer than 32 elements are folded in their order. An empty slice folds to
/// the neutral element.
pub fn fold<T: Number>(fold: Fold, x: &[T]) -> T {
    fold_with_prefetch(fold, x, Prefetch::NOTHING)
}

/// As [`fold`]; a loop over floats requests the memory in `ahead`.
pub fn fold_with_prefetch<T: Number>(fold: Fold, x: &[T], ahead: Prefetch) -> T {
    T::run_fold(FoldSlice { fold, x, ahead })
}

/// Folds blocks of so many neighbours, a multiple of 16: `out[i] = fold(x[i·width..][..width])`.
pub fn fold_blocks<T: Number>(fold: Fold, x: &[T], width: usize, out: &mut [T]) {
    T::run_fold_blocks(FoldBlocks { fold, x, width, out });
}

/// The first index of the largest element; the first NaN if there is one. `None` for an empty slice.
pub fn argmax<T: Number>(x: &[T]) -> Option<usize> {
    T::run_first_index(FirstIndex { value: fold(Fold::Max, x), x })
}

/// The first index of the smallest element; the first NaN if there is one. `None` for an empty slice.
pub fn argmin<T: Number>(x: &[T]) -> Option<usize> {
    T::run_first_index(FirstIndex { value: fold(Fold::Min, x), x })
}

/// Folds rows into one row, in their order: `accumulator[j] = fold(accumulator[j], row[j])`. Row i is
/// `rows[i·row_stride..][..accumulator.len()]`.
///
/// # Panics
/// If the slice is too short for its rows.
pub fn fold_rows<T: Number>(fold: Fold, rows: &[T], n_rows: usize, row_stride: usize, accumulator: &mut [T]) {
    T::run_fold_rows(FoldRows { fold, rows, n_rows, row_stride, accumulator });
}

/// A type that has loops. Its methods are compiled in this crate.
pub trait Number: Foldable {
    #[doc(hidden)]
    fn run_unary(kernel: UnaryKernel<Self>);
    #[doc(hidden)]
    fn run_binary(kernel: BinaryKernel<Self>);
    #[doc(hidden)]
    fn run_compare(kernel: CompareKernel<Self>);
    #[doc(hidden)]
    fn run_mul_add(kernel: MulAddKernel<Self>);
    #[doc(hidden)]
    fn run_fold(kernel: FoldSlice<Self>) -> Self;
    #[doc(hidden)]
    fn run_fold_blocks(kernel: FoldBlocks<Self>);
    #[doc(hidden)]
    fn run_fold_rows(kernel: FoldRows<Self>);
    #[doc(hidden)]
    fn run_first_index(kernel: FirstIndex<Self>) -> Option<usize>;
}

macro_rules! numbers {
    ($($type:ident)*) => { $(
        impl Number for $type {
            fn run_unary(kernel: UnaryKernel<$type>) {
                dispatch(kernel);
            }
            fn run_binary(kernel: BinaryKernel<$type>) {
                dispatch(kernel);
            }
            fn run_compare(kernel: CompareKernel<$type>) {
                dispatch(kernel);
            }
            fn run_mul_add(kernel: MulAddKernel<$type>) {
                dispatch(kernel);
            }
            fn run_fold(kernel: FoldSlice<$type>) -> $type {
                dispatch(kernel)
            }
            fn run_fold_blocks(kernel: FoldBlocks<$type>) {
                dispatch(kernel);
            }
            fn run_fold_rows(kernel: FoldRows<$type>) {
                dispatch(kernel);
            }
            fn run_first_index(kernel: FirstIndex<$type>) -> Option<usize> {
                dispatch(kernel)
            }
        }
    )* };
}

numbers! { f32 f64 i8 i16 i32 i64 u8 u16 u32 }
