//! Vectors of 16 floats, with the AVX-512 instructions that split a float into mantissa and exponent and scale by powers
//! of two.

use super::number::{Number, ROUND, Single};
use engine_core::op::simd::Isa;
use std::arch::x86_64::*;
use std::f32::consts::FRAC_1_SQRT_2;
use std::ops::{Add, Mul, Sub};

/// 16 floats. Only loops that are compiled for AVX-512 may use the type.
#[derive(Clone, Copy)]
pub struct F32x16(__m512);

impl F32x16 {
    #[inline(always)]
    pub fn load(values: &[f32; 16]) -> F32x16 {
        // SAFETY: the loop is compiled for AVX-512, here and below; the array has 16 elements.
        F32x16(unsafe { _mm512_loadu_ps(values.as_ptr()) })
    }

    #[inline(always)]
    pub fn store(self, values: &mut [f32; 16]) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), self.0) };
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident by $instruction:ident;)*) => { $(
        impl $trait for F32x16 {
            type Output = F32x16;
            #[inline(always)]
            fn $method(self, b: F32x16) -> F32x16 {
                // SAFETY: as for `load`.
                F32x16(unsafe { $instruction(self.0, b.0) })
            }
        }
    )* };
}
operators! {
    Add add by _mm512_add_ps;
    Sub sub by _mm512_sub_ps;
    Mul mul by _mm512_mul_ps;
}

impl Number for F32x16 {
    type Scalar = f32;

    #[inline(always)]
    fn of(value: f32) -> F32x16 {
        // SAFETY: as for `load`.
        F32x16(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    fn fma<I: Isa>(self, b: F32x16, c: F32x16) -> F32x16 {
        // SAFETY: as for `load`.
        F32x16(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }
}

impl Single for F32x16 {
    #[inline(always)]
    fn at_most(self, limit: f32) -> F32x16 {
        // SAFETY: as for `load`. The instruction yields its second operand where either is NaN.
        F32x16(unsafe { _mm512_min_ps(F32x16::of(limit).0, self.0) })
    }

    #[inline(always)]
    fn at_least(self, limit: f32) -> F32x16 {
        // SAFETY: as above.
        F32x16(unsafe { _mm512_max_ps(F32x16::of(limit).0, self.0) })
    }

    #[inline(always)]
    fn scaled(self, shifted: F32x16) -> F32x16 {
        // SAFETY: as for `load`.
        F32x16(unsafe { _mm512_scalef_ps(self.0, (shifted - F32x16::of(ROUND)).0) })
    }

    #[inline(always)]
    fn split_exponent(self) -> (F32x16, F32x16) {
        // SAFETY: as for `load`.
        unsafe {
            // A mantissa between 1 and 2, halved from √2 on.
            let m = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>(self.0);
            let exponent = _mm512_getexp_ps(self.0);
            let is_high = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(m, _mm512_set1_ps(2.0 * FRAC_1_SQRT_2));
            let m = _mm512_mask_mul_ps(m, is_high, m, _mm512_set1_ps(0.5));
            let exponent = _mm512_mask_add_ps(exponent, is_high, exponent, _mm512_set1_ps(1.0));
            (F32x16(m), F32x16(exponent))
        }
    }

    #[inline(always)]
    fn log_ends(self, inside: F32x16) -> F32x16 {
        // Each class of numbers has four bits, lowest first. Quiet and signalling NaN stay, 0 becomes
        // -inf, 1 keeps the result. -inf becomes NaN, inf stays. Negative numbers become NaN, positive ones keep the
        // result.
        const ENDS: i32 = 0x0353_0422;
        // SAFETY: as for `load`.
        F32x16(unsafe { _mm512_fixupimm_ps::<0>(inside.0, self.0, _mm512_set1_epi32(ENDS)) })
    }
}
