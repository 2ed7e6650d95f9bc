//! Fused multiply-add and polynomials.

use super::super::simd::isa::Isa;

macro_rules! polynomials {
    ($($fma:ident $horner:ident of $type:ident;)*) => { $(
        /// `a·b + c`, in one rounding where the instruction set has it and in two elsewhere.
        #[inline(always)]
        pub fn $fma<I: Isa>(a: $type, b: $type, c: $type) -> $type {
            if I::FMA { a.mul_add(b, c) } else { a * b + c }
        }

        /// `c₀ + c₁x + c₂x² + …`
        #[inline(always)]
        pub fn $horner<I: Isa, const N: usize>(x: $type, coefficients: [$type; N]) -> $type {
            let mut sum = coefficients[N - 1];
            for i in (0..N - 1).rev() {
                sum = $fma::<I>(sum, x, coefficients[i]);
            }
            sum
        }
    )* };
}
polynomials! {
    fma horner of f32;
    fma_f64 horner_f64 of f64;
}
