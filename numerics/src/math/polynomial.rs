//! Fused multiply-add and polynomials.

use super::number::Number;
use engine_core::op::simd::Isa;

/// `a·b + c`, in one rounding where the instruction set has it and in two elsewhere.
#[inline(always)]
pub fn fma<I: Isa, V: Number>(a: V, b: V, c: V) -> V {
    a.fma::<I>(b, c)
}

/// `c₀ + c₁x + c₂x² + …`
#[inline(always)]
pub fn horner<I: Isa, V: Number, const N: usize>(x: V, coefficients: [V::Scalar; N]) -> V {
    let mut sum = V::of(coefficients[N - 1]);
    for i in (0..N - 1).rev() {
        sum = fma::<I, V>(sum, x, V::of(coefficients[i]));
    }
    sum
}
