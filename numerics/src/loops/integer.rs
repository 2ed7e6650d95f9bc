//! The loops of integers.

use super::elementwise::{Element, Operand, undefined};
use super::macros::{map, zip};
use crate::simd::prefetch::Prefetch;
use engine_core::ir::{Binary, Unary};
use engine_core::op::simd::Isa;

macro_rules! integer_element {
    ($($type:ident: $abs:expr, $sign:expr, $pow:expr;)*) => { $(
        impl Element for $type {
            #[inline(always)]
            fn unary_loops<I: Isa>(op: Unary, x: &[$type], out: &mut [$type], _prefetch: Prefetch) {
                match op {
                    Unary::Neg => map!(x, out, v => v.wrapping_neg()),
                    Unary::Abs => map!(x, out, v => $abs(v)),
                    Unary::Sign => map!(x, out, v => $sign(v)),
                    Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => out.copy_from_slice(x),
                    Unary::Not => map!(x, out, v => !v),
                    Unary::Popcount => map!(x, out, v => v.count_ones() as $type),
                    other => undefined(other, "integers"),
                }
            }

            #[inline(always)]
            fn binary_loops<I: Isa>(op: Binary, a: Operand<$type>, b: Operand<$type>, out: &mut [$type], _prefetch: Prefetch) {
                match op {
                    Binary::Add => zip!(a, b, out, (u, v) => u.wrapping_add(v)),
                    Binary::Sub => zip!(a, b, out, (u, v) => u.wrapping_sub(v)),
                    Binary::Mul => zip!(a, b, out, (u, v) => u.wrapping_mul(v)),
                    Binary::Div => zip!(a, b, out, (u, v) => if v == 0 { 0 } else { u.wrapping_div(v) }),
                    Binary::Rem => zip!(a, b, out, (u, v) => if v == 0 { 0 } else { u.wrapping_rem(v) }),
                    Binary::Pow => zip!(a, b, out, (u, v) => $pow(u, v)),
                    Binary::Min => zip!(a, b, out, (u, v) => u.min(v)),
                    Binary::Max => zip!(a, b, out, (u, v) => u.max(v)),
                    Binary::And => zip!(a, b, out, (u, v) => u & v),
                    Binary::Or => zip!(a, b, out, (u, v) => u | v),
                    Binary::Xor => zip!(a, b, out, (u, v) => u ^ v),
                    Binary::Shl => zip!(a, b, out, (u, v) => if is_shift::<$type>(v as i64) { u.wrapping_shl(v as u32) } else { 0 }),
                    Binary::Shr => zip!(a, b, out, (u, v) => {
                        let last = <$type>::BITS - 1;
                        let (inside, sign) = (u.wrapping_shr(v as u32), u.wrapping_shr(last).wrapping_shr(1));
                        // A full shift leaves 0 of an unsigned number, and 0 or -1 of a signed one.
                        let sign = if <$type>::MIN == 0 { 0 } else { sign };
                        if is_shift::<$type>(v as i64) { inside } else { sign }
                    }),
                    other => undefined(other, "integers"),
                }
            }

            #[inline(always)]
            fn mul_add<I: Isa>(a: $type, b: $type, c: $type) -> $type {
                a.wrapping_mul(b).wrapping_add(c)
            }
        }
    )* };
}

integer_element! {
    i32: i32::wrapping_abs, i32::signum, pow_i32;
    i64: i64::wrapping_abs, i64::signum, pow_i64;
    u32: |v| v, |v: u32| v.min(1), |u: u32, v| u.wrapping_pow(v);
    u8: |v| v, |v: u8| v.min(1), |u: u8, v| u.wrapping_pow(v as u32);
    i8: i8::wrapping_abs, i8::signum, |u, v| pow_i32(u as i32, v as i32) as i8;
    i16: i16::wrapping_abs, i16::signum, |u, v| pow_i32(u as i32, v as i32) as i16;
    u16: |v| v, |v: u16| v.min(1), |u: u16, v| u.wrapping_pow(v as u32);
}

fn pow_i32(base: i32, exponent: i32) -> i32 {
    if exponent >= 0 {
        base.wrapping_pow(exponent as u32)
    } else {
        truncated_reciprocal(base as i64, exponent as i64) as i32
    }
}

fn pow_i64(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return truncated_reciprocal(base, exponent);
    }
    let (mut power, mut square, mut left) = (1i64, base, exponent as u64);
    while left > 0 {
        if left & 1 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    power
}

/// A negative power, truncated: only those of ±1 are whole; that of 0 is 0.
fn truncated_reciprocal(base: i64, exponent: i64) -> i64 {
    match base {
        1 => 1,
        -1 => 1 - 2 * (exponent & 1),
        _ => 0,
    }
}

/// Whether an integer can be shifted by so many bits.
#[inline(always)]
fn is_shift<T>(by: i64) -> bool {
    (0..8 * size_of::<T>() as i64).contains(&by)
}
