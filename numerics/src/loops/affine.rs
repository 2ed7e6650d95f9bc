//! A slow function of a scaled and shifted argument in one loop.

use super::elementwise::undefined;
use super::macros::{map, map_chunks, map_with_prefetch};
use crate::math::{self, chunks};
use crate::simd::prefetch::{CHUNK, Prefetch};
use engine_core::ir::Unary;
use engine_core::op::simd::Aligned;
use engine_core::op::simd::{Isa, Kernel, dispatch};

/// Whether [`affine`] has a loop for a function.
pub fn has_affine_loop(op: Unary) -> bool {
    matches!(op, Unary::Exp | Unary::Expm1 | Unary::Log | Unary::Log1p | Unary::Tanh | Unary::Erf)
}

/// `out[i] = op(x[i]·scale + shift)`, the product and the sum each rounded; requests the memory in `ahead`.
///
/// # Panics
/// If the lengths differ, or if there is no such loop.
pub fn affine(op: Unary, x: &[f32], [scale, shift]: [f32; 2], out: &mut [f32], ahead: Prefetch) {
    assert_eq!(x.len(), out.len());
    dispatch(AffineKernel { op, x, scale, shift, out, ahead });
}

struct AffineKernel<'a> {
    op: Unary,
    x: &'a [f32],
    scale: f32,
    shift: f32,
    out: &'a mut [f32],
    ahead: Prefetch,
}
impl Kernel for AffineKernel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let AffineKernel { op, x, scale, shift, out, ahead } = self;
        macro_rules! affine {
            ($function:path) => {
                map_with_prefetch!(x, out, ahead, v => $function(v * scale + shift))
            };
        }
        match op {
            Unary::Exp => map_chunks!(x, out, ahead, v => chunks::exp::<I>, v * scale + shift),
            Unary::Expm1 => affine!(math::expm1::<I>),
            Unary::Log => map_chunks!(x, out, ahead, v => chunks::log::<I>, v * scale + shift),
            Unary::Log1p => affine!(math::log1p::<I>),
            Unary::Tanh => affine!(math::tanh::<I>),
            Unary::Erf => affine!(math::erf::<I>),
            other => undefined(other, "functions of a scaled argument"),
        }
    }
}
