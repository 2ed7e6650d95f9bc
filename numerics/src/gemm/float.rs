//! The entry points of products, and the floats whose products are compiled in this crate.

use super::direct::DirectKernel;
use super::few_windows::WindowsKernel;
use super::kernel::TileKernel;
use super::matrix::{Matrix, TileMut};
use super::row_products::{Rows, Scores, Weighted};
use super::scratch::Scratch;
use super::uneven::Right;
use engine_core::op::simd::{Float, dispatch, dispatch_pairs};

/// `out = a · b`, on the calling thread.
///
/// Shapes: a `[m, k]`, b `[k, n]`, out `[m, n]`. With `k = 0` the product is 0.
///
/// # Panics
/// If shapes differ.
pub fn gemm_tile<T: GemmFloat>(scratch: &mut Scratch<T>, a: Matrix<T>, b: Right<T>, out: &mut TileMut<T>) {
    expect_shapes(a, &b, out);
    if a.n_columns == 0 {
        (0..out.n_rows).for_each(|row_idx| out.row(row_idx).fill(T::default()));
    }
    match b {
        Right::Uneven(b) if b.windows.are_direct(out.n_rows) => {
            T::run_direct(DirectKernel { scratch, a, b, out })
        }
        Right::Uneven(b) => match b.windows.along.filter(|along| along.fits(&a)) {
            Some(along) => T::run_windows(WindowsKernel { a, b, out, along }),
            None => T::run_tile(TileKernel { scratch, a, b: Right::Uneven(b), out, is_added: false }),
        },
        Right::Even(_) => T::run_tile(TileKernel { scratch, a, b, out, is_added: false }),
    }
}

/// `out += a · b`, on the calling thread; shapes as for [`gemm_tile`].
///
/// # Panics
/// If shapes differ.
pub fn add_gemm_tile<T: GemmFloat>(
    scratch: &mut Scratch<T>,
    a: Matrix<T>,
    b: Matrix<T>,
    out: &mut TileMut<T>,
) {
    let b = b.into();
    expect_shapes(a, &b, out);
    T::run_tile(TileKernel { scratch, a, b, out, is_added: true });
}

/// `out = a · b` of pairs of bf16, which have the bits of `f32`: an element of A and one of B are neighbours along the
/// contracted axis. Sums are `f32`. Shapes as for [`gemm_tile`].
///
/// # Panics
/// If shapes differ, B is uneven, or the machine has no registers for pairs.
pub fn gemm_tile_of_pairs(scratch: &mut Scratch<f32>, a: Matrix<f32>, b: Right<f32>, out: &mut TileMut<f32>) {
    expect_shapes(a, &b, out);
    assert!(matches!(b, Right::Even(_)), "bug: uneven pairs");
    if a.n_columns == 0 {
        (0..out.n_rows).for_each(|row_idx| out.row(row_idx).fill(0.0));
    }
    dispatch_pairs(TileKernel { scratch, a, b, out, is_added: false });
}

/// Compares shapes: a `[m, k]`, b `[k, n]`, out `[m, n]`.
///
/// # Panics
/// If they differ.
fn expect_shapes<T: Float>(a: Matrix<T>, b: &Right<T>, out: &TileMut<T>) {
    let [k, n] = b.shape();
    assert_eq!((a.n_rows, n, a.n_columns), (out.n_rows, out.n_columns, k));
}

/// `out[j] = Σ_d x[d] · rows[j][d]`
///
/// # Safety
/// There must be as many rows as results, each as long as `x`, and no thread may write them meanwhile.
pub unsafe fn scores_of_row<T: GemmFloat>(x: &[T], rows: Rows<T>, out: &mut [T]) {
    assert_eq!(rows.count(), out.len());
    T::run_scores(Scores { x, rows, out });
}

/// `out[w] = Σ_j weights[j] · rows[j][w]`
///
/// # Safety
/// There must be as many rows as weights, each as long as `out`, and no thread may write them meanwhile.
pub unsafe fn weighted_sum<T: GemmFloat>(weights: &[T], rows: Rows<T>, out: &mut [T]) {
    assert_eq!(rows.count(), weights.len());
    T::run_weighted(Weighted { weights, rows, out });
}

/// A float that has products. Its methods are loops that are compiled in this crate.
pub trait GemmFloat: Float {
    #[doc(hidden)]
    fn run_tile(kernel: TileKernel<Self>);
    #[doc(hidden)]
    fn run_direct(kernel: DirectKernel<Self>);
    #[doc(hidden)]
    fn run_windows(kernel: WindowsKernel<Self>);
    #[doc(hidden)]
    fn run_scores(kernel: Scores<Self>);
    #[doc(hidden)]
    fn run_weighted(kernel: Weighted<Self>);
}

macro_rules! gemm_floats {
    ($($type:ident)*) => { $(
        impl GemmFloat for $type {
            fn run_tile(kernel: TileKernel<$type>) {
                dispatch(kernel);
            }
            fn run_direct(kernel: DirectKernel<$type>) {
                dispatch(kernel);
            }
            fn run_windows(kernel: WindowsKernel<$type>) {
                dispatch(kernel);
            }
            fn run_scores(kernel: Scores<$type>) {
                dispatch(kernel);
            }
            fn run_weighted(kernel: Weighted<$type>) {
                dispatch(kernel);
            }
        }
    )* };
}

gemm_floats! { f32 f64 }
