//! exp and log of 16 floats by AVX-512 instructions that split floats into mantissa and exponent and scale by powers of
//! two. The results have the bits of the portable functions, and are NaN where those are NaN.

use super::super::simd::prefetch::CHUNK;
use super::exponential::{EXP_LIMITS, EXP_TAIL, LN2_HIGH, LN2_LOW, ROUND};
use super::logarithm::LOG_TAIL;
use std::arch::x86_64::*;
use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

macro_rules! chunk_functions {
    ($($name:ident by $function:ident;)*) => { $(
        /// Applies the function to each value.
        ///
        /// # Safety
        /// The machine must have AVX-512 F, and the caller must be compiled for it.
        #[inline(always)]
        pub unsafe fn $name(values: &mut [f32; CHUNK]) {
            for vector in values.as_chunks_mut::<16>().0 {
                // SAFETY: the caller's; a vector has 16 elements.
                unsafe {
                    let at = vector.as_mut_ptr();
                    _mm512_storeu_ps(at, $function(_mm512_loadu_ps(at)));
                }
            }
        }
    )* };
}
chunk_functions! {
    exp by exp_of;
    log by log_of;
}

#[inline(always)]
unsafe fn exp_of(x: __m512) -> __m512 {
    // SAFETY: the caller's.
    unsafe {
        // Minimum and maximum yield the second operand where either is NaN.
        let x = _mm512_min_ps(_mm512_set1_ps(EXP_LIMITS[1]), x);
        let x = _mm512_max_ps(_mm512_set1_ps(EXP_LIMITS[0]), x);
        let round = _mm512_set1_ps(ROUND);
        let n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(LOG2_E), round), round);
        let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_HIGH), x);
        let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_LOW), r);
        let tail = horner(r, EXP_TAIL);
        let fraction = _mm512_fmadd_ps(_mm512_mul_ps(r, r), tail, r);
        _mm512_scalef_ps(_mm512_add_ps(_mm512_set1_ps(1.0), fraction), n)
    }
}

#[inline(always)]
unsafe fn log_of(x: __m512) -> __m512 {
    // Four bits for each class of argument, lowest first: quiet and signalling NaN stay, 0 becomes -inf, 1 keeps the
    // result, -inf becomes NaN, inf stays, negative numbers become NaN, positive ones keep the result.
    const ENDS: i32 = 0x0353_0422;
    // SAFETY: the caller's.
    unsafe {
        // A mantissa between 1 and 2, halved from √2 on.
        let m = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>(x);
        let exponent = _mm512_getexp_ps(x);
        let is_high = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(m, _mm512_set1_ps(2.0 * FRAC_1_SQRT_2));
        let m = _mm512_mask_mul_ps(m, is_high, m, _mm512_set1_ps(0.5));
        let one = _mm512_set1_ps(1.0);
        let exponent = _mm512_mask_add_ps(exponent, is_high, exponent, one);
        let f = _mm512_sub_ps(m, one);
        let square = _mm512_mul_ps(f, f);
        let low = _mm512_mul_ps(exponent, _mm512_set1_ps(LN2_LOW));
        let cubic = _mm512_fmadd_ps(_mm512_mul_ps(square, f), horner(f, LOG_TAIL), low);
        let sum = _mm512_add_ps(f, _mm512_fmadd_ps(_mm512_set1_ps(-0.5), square, cubic));
        let inside = _mm512_fmadd_ps(exponent, _mm512_set1_ps(LN2_HIGH), sum);
        _mm512_fixupimm_ps::<0>(inside, x, _mm512_set1_epi32(ENDS))
    }
}

/// `c₀ + c₁x + c₂x² + …`
#[inline(always)]
unsafe fn horner<const N: usize>(x: __m512, coefficients: [f32; N]) -> __m512 {
    // SAFETY: the caller's.
    unsafe {
        let mut sum = _mm512_set1_ps(coefficients[N - 1]);
        for i in (0..N - 1).rev() {
            sum = _mm512_fmadd_ps(sum, x, _mm512_set1_ps(coefficients[i]));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::simd::isa::{Isa, Kernel, Level, dispatch_on};
    use super::super::{exponential, logarithm};
    use super::*;

    /// Every 257th float (32,000 for each exponent and sign), the ends of the mantissas of each exponent, and the
    /// neighbours of the limits.
    fn sample() -> Vec<f32> {
        let patterns = (0..=u32::MAX).step_by(257);
        let ends = (0..512u32).flat_map(|head| {
            let nearby = (0..64).chain((1 << 22) - 64..(1 << 22) + 64).chain((1 << 23) - 64..1 << 23);
            nearby.map(move |tail| head << 23 | tail)
        });
        let limits =
            [EXP_LIMITS[0], EXP_LIMITS[1], FRAC_1_SQRT_2, 2.0 * FRAC_1_SQRT_2, 88.722_84, -87.336_55];
        let around = limits.into_iter().flat_map(|limit| {
            let bits: u32 = limit.to_bits();
            bits - 1000..bits + 1000
        });
        patterns.chain(ends).chain(around).map(f32::from_bits).collect()
    }

    struct Portable<'v>(&'v mut [f32], bool);
    impl Kernel for Portable<'_> {
        type Output = ();
        #[inline(always)]
        fn run<I: Isa>(self) {
            for value in self.0 {
                *value = if self.1 { exponential::exp::<I>(*value) } else { logarithm::log::<I>(*value) };
            }
        }
    }

    struct Wide<'v>(&'v mut [[f32; CHUNK]], bool);
    impl Kernel for Wide<'_> {
        type Output = ();
        #[inline(always)]
        fn run<I: Isa>(self) {
            for chunk in self.0 {
                // SAFETY: the test asks for AVX-512.
                unsafe { if self.1 { exp(chunk) } else { log(chunk) } }
            }
        }
    }

    #[test]
    fn results_have_the_bits_of_the_portable_functions() {
        if !Level::available().any(|level| level == Level::Avx512) {
            println!("skipped: the machine has no AVX-512");
            return;
        }
        let inputs = sample();
        for is_exp in [true, false] {
            let mut expected = inputs.clone();
            dispatch_on(Level::Avx512, Portable(&mut expected, is_exp));
            let mut found = inputs.clone();
            found.resize(inputs.len().next_multiple_of(CHUNK), 1.0);
            dispatch_on(Level::Avx512, Wide(found.as_chunks_mut().0, is_exp));
            for ((x, found), expected) in inputs.iter().zip(&found).zip(&expected) {
                let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                let name = if is_exp { "exp" } else { "log" };
                assert!(is_same, "{name} {x:e} ({:#x}): {found:e}, not {expected:e}", x.to_bits());
            }
        }
    }
}
