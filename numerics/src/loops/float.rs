//! The loops of floats.

use super::elementwise::{Element, Operand, undefined};
use super::macros::{map, map_chunks, map_with_prefetch, zip, zip_with_prefetch};
use crate::math::{self, chunks};
use crate::simd::prefetch::{CHUNK, Prefetch};
use engine_core::ir::{Binary, Unary};
use engine_core::op::simd::Aligned;
use engine_core::op::simd::{Isa, Kernel, dispatch};

impl Element for f32 {
    const IS_HOT: bool = true;

    #[inline(always)]
    fn unary_loops<I: Isa>(op: Unary, x: &[f32], out: &mut [f32], ahead: Prefetch) {
        match op {
            Unary::Neg => map_with_prefetch!(x, out, ahead, v => -v),
            Unary::Abs => map_with_prefetch!(x, out, ahead, v => v.abs()),
            Unary::Sign => map_with_prefetch!(x, out, ahead, v => math::sign(v)),
            Unary::Exp => map_chunks!(x, out, ahead, v => chunks::exp::<I>, v),
            Unary::Expm1 => map_with_prefetch!(x, out, ahead, v => math::expm1::<I>(v)),
            Unary::Log => map_chunks!(x, out, ahead, v => chunks::log::<I>, v),
            Unary::Log1p => map_with_prefetch!(x, out, ahead, v => math::log1p::<I>(v)),
            Unary::Sqrt => map_with_prefetch!(x, out, ahead, v => v.sqrt()),
            Unary::Rsqrt => map_with_prefetch!(x, out, ahead, v => math::rsqrt(v)),
            Unary::Sin => map_with_prefetch!(x, out, ahead, v => math::sin::<I>(v)),
            Unary::Cos => map_with_prefetch!(x, out, ahead, v => math::cos::<I>(v)),
            Unary::Tanh => map_with_prefetch!(x, out, ahead, v => math::tanh::<I>(v)),
            Unary::Erf => map_with_prefetch!(x, out, ahead, v => math::erf::<I>(v)),
            Unary::Floor => map!(x, out, v => v.floor()),
            Unary::Ceil => map!(x, out, v => v.ceil()),
            Unary::Trunc => map!(x, out, v => v.trunc()),
            Unary::Round => map!(x, out, v => v.round_ties_even()),
            Unary::Recip => map_with_prefetch!(x, out, ahead, v => 1.0 / v),
            Unary::Not | Unary::Popcount | Unary::IsNan => undefined(op, "floats"),
        }
    }

    #[inline(always)]
    fn binary_loops<I: Isa>(op: Binary, a: Operand<f32>, b: Operand<f32>, out: &mut [f32], ahead: Prefetch) {
        match op {
            Binary::Add => zip_with_prefetch!(a, b, out, ahead, (u, v) => u + v),
            Binary::Sub => zip_with_prefetch!(a, b, out, ahead, (u, v) => u - v),
            Binary::Mul => zip_with_prefetch!(a, b, out, ahead, (u, v) => u * v),
            Binary::Div => match (a, b) {
                (Operand::Slice(a), Operand::Scalar(v)) if I::FMA && math::has_plain_reciprocal(v) => {
                    divide_by::<I>(a, v, out, ahead);
                }
                _ => zip_with_prefetch!(a, b, out, ahead, (u, v) => u / v),
            },
            Binary::Rem => zip!(a, b, out, (u, v) => u % v),
            Binary::Pow => zip!(a, b, out, (u, v) => math::pow::<I>(u, v)),
            Binary::Min => zip_with_prefetch!(a, b, out, ahead, (u, v) => math::smaller(u, v)),
            Binary::Max => zip_with_prefetch!(a, b, out, ahead, (u, v) => math::larger(u, v)),
            other => undefined(other, "floats"),
        }
    }

    #[inline(always)]
    fn mul_add<I: Isa>(a: f32, b: f32, c: f32) -> f32 {
        math::fma::<I, _>(a, b, c)
    }

    fn finish_unary(op: Unary, x: &[f32], out: &mut [f32]) {
        match op {
            Unary::Sin => finish_trig(x, out, f32::sin),
            Unary::Cos => finish_trig(x, out, f32::cos),
            _ => {}
        }
    }
}

/// `x / v`, bit for bit, by three multiplications where the elements are neither tiny nor huge. A vector division takes
/// several times as long. A chunk with a single tiny or huge element is divided.
#[inline(always)]
fn divide_by<I: Isa>(x: &[f32], v: f32, out: &mut [f32], ahead: Prefetch) {
    let reciprocal = 1.0 / v;
    let (chunks, rest) = x.as_chunks::<CHUNK>();
    let (out_chunks, out_rest) = out.as_chunks_mut::<CHUNK>();
    let mut requests = ahead.over(chunks.len());
    for (x, out) in chunks.iter().zip(out_chunks) {
        requests.step();
        let mut is_plain = true;
        for (out, &u) in out.iter_mut().zip(x) {
            is_plain &= math::is_plain_dividend(u);
            *out = math::quotient::<I>(u, v, reciprocal);
        }
        if !is_plain {
            map!(x, out, u => u / v);
        }
    }
    map!(rest, out_rest, u => u / v);
}

/// Replaces the sine or cosine of large arguments by that of the library.
fn finish_trig(x: &[f32], out: &mut [f32], function: fn(f32) -> f32) {
    if !dispatch(AnyLarge(x)) {
        return;
    }
    for (out, &v) in out.iter_mut().zip(x) {
        if v.abs() > math::TRIG_LIMIT {
            *out = function(v);
        }
    }
}

/// Whether an argument is too large for the loops of sine and cosine.
struct AnyLarge<'a>(&'a [f32]);
impl Kernel for AnyLarge<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<I: Isa>(self) -> bool {
        self.0.iter().fold(false, |any, v| any | (v.abs() > math::TRIG_LIMIT))
    }
}

impl Element for f64 {
    #[inline(always)]
    fn unary_loops<I: Isa>(op: Unary, x: &[f64], out: &mut [f64], _prefetch: Prefetch) {
        match op {
            Unary::Neg => map!(x, out, v => -v),
            Unary::Abs => map!(x, out, v => v.abs()),
            Unary::Sign => map!(x, out, v => if v > 0.0 { 1.0 } else if v < 0.0 { -1.0 } else { v }),
            Unary::Exp => map!(x, out, v => v.exp()),
            Unary::Expm1 => map!(x, out, v => v.exp_m1()),
            Unary::Log => map!(x, out, v => v.ln()),
            Unary::Log1p => map!(x, out, v => v.ln_1p()),
            Unary::Sqrt => map!(x, out, v => v.sqrt()),
            Unary::Rsqrt => map!(x, out, v => 1.0 / v.sqrt()),
            Unary::Sin => map!(x, out, v => v.sin()),
            Unary::Cos => map!(x, out, v => v.cos()),
            Unary::Tanh => map!(x, out, v => v.tanh()),
            Unary::Erf => map!(x, out, v => libm::erf(v)),
            Unary::Floor => map!(x, out, v => v.floor()),
            Unary::Ceil => map!(x, out, v => v.ceil()),
            Unary::Trunc => map!(x, out, v => v.trunc()),
            Unary::Round => map!(x, out, v => v.round_ties_even()),
            Unary::Recip => map!(x, out, v => 1.0 / v),
            Unary::Not | Unary::Popcount | Unary::IsNan => undefined(op, "floats"),
        }
    }

    #[inline(always)]
    fn binary_loops<I: Isa>(
        op: Binary,
        a: Operand<f64>,
        b: Operand<f64>,
        out: &mut [f64],
        _prefetch: Prefetch,
    ) {
        match op {
            Binary::Add => zip!(a, b, out, (u, v) => u + v),
            Binary::Sub => zip!(a, b, out, (u, v) => u - v),
            Binary::Mul => zip!(a, b, out, (u, v) => u * v),
            Binary::Div => zip!(a, b, out, (u, v) => u / v),
            Binary::Rem => zip!(a, b, out, (u, v) => u % v),
            Binary::Pow => zip!(a, b, out, (u, v) => u.powf(v)),
            Binary::Min => zip!(a, b, out, (u, v) => math::smaller(u, v)),
            Binary::Max => zip!(a, b, out, (u, v) => math::larger(u, v)),
            other => undefined(other, "floats"),
        }
    }

    #[inline(always)]
    fn mul_add<I: Isa>(a: f64, b: f64, c: f64) -> f64 {
        math::fma::<I, _>(a, b, c)
    }
}
