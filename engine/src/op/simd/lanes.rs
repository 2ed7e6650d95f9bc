//! Vector registers as a trait.

/// A value at the start of a cache line. Arrays that loops load vectors from need it: on the stack they may start
/// anywhere, and a vector across two cache lines takes two loads.
#[repr(align(64))]
pub struct Aligned<T>(pub T);

/// A vector register of scalars.
///
/// # Safety
/// The methods of the x86 vectors may be called only where the instruction set is enabled. Pointers must be valid for
/// `N` scalars; they need no alignment.
#[allow(clippy::missing_safety_doc)] // The trait states the conditions of all methods.
pub unsafe trait Lanes: Copy {
    /// The type of a lane.
    type Scalar: Copy + Default;
    /// The number of lanes.
    const N: usize;
    /// Whether factors of [`Lanes::mul_add`] are pairs of bf16.
    const IS_PAIRS: bool = false;
    /// Whether an instruction multiplies pairs of bf16.
    const HAS_BF16: bool = false;
    /// The number of rows of sums, two vectors each, that fit the registers.
    const ROWS: usize;
    /// The same value in all lanes.
    unsafe fn splat(value: Self::Scalar) -> Self;
    /// Reads `N` scalars.
    unsafe fn load(from: *const Self::Scalar) -> Self;
    /// Every second of `2 N` scalars.
    unsafe fn load_even(from: *const Self::Scalar) -> Self;
    /// The lanes of both in turn: the first halves, then the second ones.
    unsafe fn interleave(self, b: Self) -> (Self, Self);
    /// The lanes of `tail` from one on, of which there are `N` at most, and its own before.
    unsafe fn with_tail(self, tail: Self, lane: usize) -> Self;
    /// Writes `N` scalars.
    unsafe fn store(self, to: *mut Self::Scalar);
    /// `self · b + c`.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self + b`.
    unsafe fn plus(self, b: Self) -> Self;
    /// `self - b`.
    unsafe fn minus(self, b: Self) -> Self;
    /// `self · b`.
    unsafe fn times(self, b: Self) -> Self;
    /// `self / b`.
    unsafe fn over(self, b: Self) -> Self;
    /// In each lane `self` where it is larger or NaN, else `b`.
    unsafe fn larger(self, b: Self) -> Self;
    /// In each lane `self` where it is smaller or NaN, else `b`.
    unsafe fn smaller(self, b: Self) -> Self;
}

/// A vector of `f32` whose bits may be pairs of bf16.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)] // As above.
pub unsafe trait Halves: Lanes<Scalar = f32> {
    /// [`Lanes::ROWS`] of sums of pairs, which need registers for both halves of two vectors.
    const PAIR_ROWS: usize;
    /// The number in the lower half of each lane, which comes first.
    unsafe fn first(self) -> Self;
    /// The number in the upper half of each lane.
    unsafe fn second(self) -> Self;
}

/// Methods of two vectors.
macro_rules! binary_methods {
    ($($name:ident: |$a:ident, $b:ident| $value:expr;)*) => { $(
        #[inline(always)]
        unsafe fn $name(self, b: Self) -> Self {
            let ($a, $b) = (self, b);
            // SAFETY: the caller's. Arrays need none.
            #[allow(unused_unsafe)]
            unsafe { $value }
        }
    )* };
}

macro_rules! array_lanes {
    ($($scalar:ident $n:literal)*) => { $(
        // SAFETY: plain arithmetic, on every machine.
        unsafe impl Lanes for [$scalar; $n] {
            type Scalar = $scalar;
            const N: usize = $n;
            const ROWS: usize = 4;
            #[inline(always)]
            unsafe fn splat(value: $scalar) -> Self {
                [value; $n]
            }
            #[inline(always)]
            unsafe fn load(from: *const $scalar) -> Self {
                // SAFETY: the caller's.
                unsafe { from.cast::<Self>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn load_even(from: *const $scalar) -> Self {
                // SAFETY: the caller's.
                std::array::from_fn(|i| unsafe { *from.add(2 * i) })
            }
            #[inline(always)]
            unsafe fn interleave(self, b: Self) -> (Self, Self) {
                let lane = |i: usize| if i % 2 == 0 { self[i / 2] } else { b[i / 2] };
                (std::array::from_fn(lane), std::array::from_fn(|i| lane($n + i)))
            }
            #[inline(always)]
            unsafe fn with_tail(self, tail: Self, lane: usize) -> Self {
                std::array::from_fn(|i| if i < lane { self[i] } else { tail[i] })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $scalar) {
                // SAFETY: the caller's.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                std::array::from_fn(|i| self[i] * b[i] + c[i])
            }
            binary_methods! {
                plus: |a, b| std::array::from_fn(|i| a[i] + b[i]);
                minus: |a, b| std::array::from_fn(|i| a[i] - b[i]);
                times: |a, b| std::array::from_fn(|i| a[i] * b[i]);
                over: |a, b| std::array::from_fn(|i| a[i] / b[i]);
                larger: |a, b| std::array::from_fn(|i| if a[i] > b[i] || a[i].is_nan() { a[i] } else { b[i] });
                smaller: |a, b| std::array::from_fn(|i| if a[i] < b[i] || a[i].is_nan() { a[i] } else { b[i] });
            }
        }
    )* };
}
array_lanes! { f32 4 f64 2 }

/// Numbers of `f32`, or pairs of bf16 in the same bits. Pairs are the factors of [`Lanes::mul_add`], which adds both products
/// of a pair to a number; other methods move bits or take numbers.
#[derive(Clone, Copy)]
pub struct Pairs<V>(V);

#[cfg(target_arch = "x86_64")]
pub use x86::Bf16Pairs;

/// A vector of pairs: the methods of the vector of `f32`, and `mul_add`.
macro_rules! pair_lanes {
    ($vector:ty, $make:expr, $rows:expr, |$a:ident, $b:ident, $c:ident| $mul_add:expr) => {
        type Scalar = f32;
        const N: usize = <$vector>::N;
        const IS_PAIRS: bool = true;
        const ROWS: usize = $rows;
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            // SAFETY: the caller's, here and below.
            $make(unsafe { <$vector>::splat(value) })
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            $make(unsafe { <$vector>::load(from) })
        }
        #[inline(always)]
        unsafe fn load_even(from: *const f32) -> Self {
            // SAFETY: as above.
            $make(unsafe { <$vector>::load_even(from) })
        }
        #[inline(always)]
        unsafe fn interleave(self, b: Self) -> (Self, Self) {
            // SAFETY: as above.
            let (low, high) = unsafe { self.0.interleave(b.0) };
            ($make(low), $make(high))
        }
        #[inline(always)]
        unsafe fn with_tail(self, tail: Self, lane: usize) -> Self {
            // SAFETY: as above.
            $make(unsafe { self.0.with_tail(tail.0, lane) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe { self.0.store(to) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, b: Self, c: Self) -> Self {
            let ($a, $b, $c) = (self.0, b.0, c.0);
            // SAFETY: as above.
            $make(unsafe { $mul_add })
        }
        binary_methods! {
            plus: |a, b| $make(a.0.plus(b.0));
            minus: |a, b| $make(a.0.minus(b.0));
            times: |a, b| $make(a.0.times(b.0));
            over: |a, b| $make(a.0.over(b.0));
            larger: |a, b| $make(a.0.larger(b.0));
            smaller: |a, b| $make(a.0.smaller(b.0));
        }
    };
}

// SAFETY: the methods of `V`.
unsafe impl<V: Halves> Lanes for Pairs<V> {
    pair_lanes! { V, Pairs, V::PAIR_ROWS, |a, b, c| {
        a.second().mul_add(b.second(), a.first().mul_add(b.first(), c))
    } }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Halves, Lanes};
    use std::arch::x86_64::*;

    /// [`Pairs`](super::Pairs) that one instruction of AVX512-BF16 multiplies.
    #[derive(Clone, Copy)]
    pub struct Bf16Pairs(__m512);

    // SAFETY: the methods of `__m512`, and one instruction of AVX512-BF16. All types have 64 bytes of any bits.
    unsafe impl Lanes for Bf16Pairs {
        const HAS_BF16: bool = true;
        pair_lanes! { __m512, Bf16Pairs, 8, |a, b, c| {
            let [a, b] = [a, b].map(|pairs| std::mem::transmute::<__m512, __m512bh>(pairs));
            _mm512_dpbf16_ps(c, a, b)
        } }
    }

    // SAFETY: single instructions.
    unsafe impl Halves for __m256 {
        const PAIR_ROWS: usize = 4;
        #[inline(always)]
        unsafe fn first(self) -> Self {
            // SAFETY: the caller's, here and below.
            unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_castps_si256(self))) }
        }
        #[inline(always)]
        unsafe fn second(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_and_ps(self, _mm256_castsi256_ps(_mm256_set1_epi32(0xFFFF_0000u32 as i32))) }
        }
    }

    // SAFETY: single instructions.
    unsafe impl Halves for __m512 {
        const PAIR_ROWS: usize = 8;
        #[inline(always)]
        unsafe fn first(self) -> Self {
            // SAFETY: the caller's, here and below.
            unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_castps_si512(self))) }
        }
        #[inline(always)]
        unsafe fn second(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_and_ps(self, _mm512_castsi512_ps(_mm512_set1_epi32(0xFFFF_0000u32 as i32))) }
        }
    }

    /// Masks of the lanes from one on: the vector that begins so many places before the middle.
    static LANES_FROM_8: [i32; 16] = [0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1];
    static LANES_FROM_4: [i64; 8] = [0, 0, 0, 0, -1, -1, -1, -1];

    macro_rules! x86_lanes {
        ($($vector:ident of $n:literal $scalar:ident, $rows:literal rows:
            $splat:ident $load:ident $store:ident $mul_add:ident $plus:ident $minus:ident $times:ident $over:ident
            $max:ident $min:ident $keep_nan:expr, $even:expr, $interleave:expr, $with_tail:expr;)*) => { $(
            // SAFETY: thin names for single instructions.
            unsafe impl Lanes for $vector {
                type Scalar = $scalar;
                const N: usize = $n;
                const ROWS: usize = $rows;
                #[inline(always)]
                unsafe fn splat(value: $scalar) -> Self {
                    // SAFETY: the caller's, here and below.
                    unsafe { $splat(value) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $scalar) -> Self {
                    // SAFETY: as above.
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn load_even(from: *const $scalar) -> Self {
                    // SAFETY: as above.
                    unsafe { $even($load(from), $load(from.add($n))) }
                }
                #[inline(always)]
                unsafe fn interleave(self, b: Self) -> (Self, Self) {
                    // SAFETY: as above.
                    unsafe { $interleave(self, b) }
                }
                #[inline(always)]
                unsafe fn with_tail(self, tail: Self, lane: usize) -> Self {
                    // SAFETY: as above.
                    unsafe { $with_tail(self, tail, lane) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $scalar) {
                    // SAFETY: as above.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $mul_add(self, b, c) }
                }
                // The instructions for extremes give `b` where either is NaN.
                binary_methods! {
                    plus: |a, b| $plus(a, b);
                    minus: |a, b| $minus(a, b);
                    times: |a, b| $times(a, b);
                    over: |a, b| $over(a, b);
                    larger: |a, b| $keep_nan(a, $max(a, b));
                    smaller: |a, b| $keep_nan(a, $min(a, b));
                }
            }
        )* };
    }
    x86_lanes! {
        __m256 of 8 f32, 6 rows: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_add_ps
            _mm256_sub_ps _mm256_mul_ps _mm256_div_ps _mm256_max_ps _mm256_min_ps
            |a, picked| _mm256_blendv_ps(picked, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)),
            |low, high| _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(
                _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(low, high)))),
            |a, b| {
                let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                (_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high))
            },
            |a, tail, lane| _mm256_blendv_ps(a, tail, _mm256_loadu_ps(LANES_FROM_8.as_ptr().add(8 - lane).cast()));
        __m256d of 4 f64, 6 rows: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_add_pd
            _mm256_sub_pd _mm256_mul_pd _mm256_div_pd _mm256_max_pd _mm256_min_pd
            |a, picked| _mm256_blendv_pd(picked, a, _mm256_cmp_pd::<_CMP_UNORD_Q>(a, a)),
            |low, high| _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_unpacklo_pd(low, high)),
            |a, b| {
                let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                (_mm256_permute2f128_pd::<0x20>(low, high), _mm256_permute2f128_pd::<0x31>(low, high))
            },
            |a, tail, lane| _mm256_blendv_pd(a, tail, _mm256_loadu_pd(LANES_FROM_4.as_ptr().add(4 - lane).cast()));
        __m512 of 16 f32, 8 rows: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_add_ps
            _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_max_ps _mm512_min_ps
            |a, picked| _mm512_mask_mov_ps(picked, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a),
            |low, high| _mm512_permutex2var_ps(
                low, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), high),
            |a, b| {
                let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
                (_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b))
            },
            |a, tail, lane| _mm512_mask_mov_ps(a, (u32::MAX << lane) as u16, tail);
        __m512d of 8 f64, 8 rows: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_add_pd
            _mm512_sub_pd _mm512_mul_pd _mm512_div_pd _mm512_max_pd _mm512_min_pd
            |a, picked| _mm512_mask_mov_pd(picked, _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a), a),
            |low, high| _mm512_permutex2var_pd(low, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), high),
            |a, b| {
                let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
                let high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
                (_mm512_permutex2var_pd(a, low, b), _mm512_permutex2var_pd(a, high, b))
            },
            |a, tail, lane| _mm512_mask_mov_pd(a, (u32::MAX << lane) as u8, tail);
    }
}

#[cfg(test)]
mod tests {
    use super::super::isa::{Float, Isa, Kernel, Level, dispatch_on};
    use super::Lanes;

    struct Moves<'a, T>(&'a [T], &'a mut [T]);

    impl<T: Float> Kernel for Moves<'_, T> {
        type Output = usize;
        #[inline(always)]
        fn run<I: Isa>(self) -> usize {
            let n = <T::Vector<I> as Lanes>::N;
            assert!(self.0.len() >= 2 * n && self.1.len() >= (4 + n) * n);
            // SAFETY: the slices are as long as the vectors, which belong to the instruction set.
            unsafe {
                let (from, to) = (self.0.as_ptr(), self.1.as_mut_ptr());
                T::Vector::<I>::load_even(from).store(to);
                let (low, high) = T::Vector::<I>::load(from).interleave(T::Vector::<I>::load(from.add(n)));
                low.store(to.add(n));
                high.store(to.add(2 * n));
                for lane in 0..=n {
                    let (own, tail) = (T::Vector::<I>::load(from), T::Vector::<I>::load(from.add(n)));
                    own.with_tail(tail, lane).store(to.add((3 + lane) * n));
                }
            }
            n
        }
    }

    fn assert_moved<T: Float + From<u8> + PartialEq + std::fmt::Debug>() {
        let numbers: Vec<T> = (0..32u8).map(T::from).collect();
        for level in Level::available() {
            let mut moved = vec![T::default(); 20 * 16];
            let n = dispatch_on(level, Moves(&numbers, &mut moved));
            let even = (0..n).map(|i| numbers[2 * i]);
            let in_turn = (0..n).flat_map(|i| [numbers[i], numbers[n + i]]);
            let tails = (0..=n).flat_map(|lane| (0..n).map(move |i| if i < lane { i } else { n + i }));
            let all = even.chain(in_turn).chain(tails.map(|i| numbers[i]));
            assert_eq!(moved[..(4 + n) * n], all.collect::<Vec<_>>()[..], "{level:?}");
        }
    }

    #[test]
    fn lanes_move_on_every_instruction_set() {
        assert_moved::<f32>();
        assert_moved::<f64>();
    }
}
