//! Functions of 16 floats at a time, by instructions of AVX-512 that take apart and put together powers of two. They
//! give the bits of their namesakes in [`super::math`].

use super::ahead::CHUNK;
use super::math::{EXP_LIMITS, EXP_TAIL, LN2_HIGH, LN2_LOW, LOG_TAIL, ROUND};
use std::arch::x86_64::*;
use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

macro_rules! of_each {
    ($($name:ident by $function:ident;)*) => { $(
        /// The function of this name of each.
        ///
        /// # Safety
        /// The machine must have AVX-512 F; inline it into a function that is compiled for that.
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
of_each! {
    exp by exp_of;
    log by log_of;
}

#[inline(always)]
unsafe fn exp_of(x: __m512) -> __m512 {
    // SAFETY: the caller's.
    unsafe {
        // A comparison with NaN gives the second operand, which is NaN.
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
    // By class of argument, from the lowest four bits up: NaN of two kinds as it is, 0 to -inf, 1 as computed, -inf to
    // NaN, inf as it is, negative to NaN, positive as computed.
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
