//! Conversions of slices.

use super::elementwise::Element;
use super::macros::map;
use engine_core::op::simd::{Isa, Kernel, dispatch};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use std::ops::RangeInclusive;

/// `out[i] = x[i]` in another type: floats to integers truncate and saturate (NaN is 0), integers wrap, floats round
/// to nearest even.
///
/// # Panics
/// If the lengths differ.
pub fn cast<S: CastTo<D>, D>(x: &[S], out: &mut [D]) {
    assert_eq!(x.len(), out.len());
    S::cast_slice(x, out);
}

/// A type whose slices convert to slices of `D`.
pub trait CastTo<D>: Sized {
    /// The loop of [`cast`].
    fn cast_slice(x: &[Self], out: &mut [D]);
}

macro_rules! plain_casts {
    ($($from:ident => $($to:ident)*;)*) => { $($(
        impl CastTo<$to> for $from {
            fn cast_slice(x: &[$from], out: &mut [$to]) {
                struct Loop<'a>(&'a [$from], &'a mut [$to]);
                impl Kernel for Loop<'_> {
                    type Output = ();
                    const IS_HOT: bool = <$from as Element>::IS_HOT || <$to as Element>::IS_HOT;
                    #[inline(always)]
                    fn run<I: Isa>(self) {
                        map!(self.0, self.1, v => v as $to);
                    }
                }
                dispatch(Loop(x, out));
            }
        }
    )*)* };
}

plain_casts! {
    f32 => f32 f64 i32 i64 u32 u8;
    f64 => f64 f32 i32 i64 u32 u8;
    i32 => i32 f32 f64 i64 u32 u8 i8 i16 u16;
    i64 => i64 f32 f64 i32 u32 u8;
    u32 => u32 f32 f64 i32 i64 u8;
    u8 => u8 f32 f64 i32 i64 u32;
    i8 => i32;
    i16 => i32;
    u16 => i32;
}

/// Numbers converted at a time by way of `i32`.
const BLOCK: usize = 512;

/// Converts by way of `i32`, whose lowest bits both types have. Numbers in between stay within `range`.
fn by_i32<S: CastTo<i32>, D>(x: &[S], out: &mut [D], range: RangeInclusive<i32>)
where
    i32: CastTo<D>,
{
    let mut wide = [0; BLOCK];
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let wide = &mut wide[..x.len()];
        cast(x, wide);
        if range != (i32::MIN..=i32::MAX) {
            wide.iter_mut().for_each(|n| *n = (*n).clamp(*range.start(), *range.end()));
        }
        cast(wide, out);
    }
}

/// Small integers are converted by way of `i32`, so that not each pair of types has a loop.
macro_rules! casts_by_i32 {
    ($($from:ident => ($($to:ident)*), $range:expr;)*) => { $($(
        impl CastTo<$to> for $from {
            fn cast_slice(x: &[$from], out: &mut [$to]) {
                by_i32(x, out, $range);
            }
        }
    )*)* };
}

const ALL: RangeInclusive<i32> = i32::MIN..=i32::MAX;

casts_by_i32! {
    i8 => (f32 f64 i64 u32 u8 i8 i16 u16), ALL;
    i16 => (f32 f64 i64 u32 u8 i8 i16 u16), ALL;
    u16 => (f32 f64 i64 u32 u8 i8 i16 u16), ALL;
    i64 => (i8 i16 u16), ALL;
    u32 => (i8 i16 u16), ALL;
    u8 => (i8 i16 u16), ALL;
    f32 => (i8), i8::MIN.into()..=i8::MAX.into();
    f32 => (i16), i16::MIN.into()..=i16::MAX.into();
    f32 => (u16), u16::MIN.into()..=u16::MAX.into();
    f64 => (i8), i8::MIN.into()..=i8::MAX.into();
    f64 => (i16), i16::MIN.into()..=i16::MAX.into();
    f64 => (u16), u16::MIN.into()..=u16::MAX.into();
}

macro_rules! half_casts {
    ($($half:ident)*) => { $(
        impl CastTo<f32> for $half {
            fn cast_slice(x: &[$half], out: &mut [f32]) {
                x.convert_to_f32_slice(out);
            }
        }
        impl CastTo<$half> for f32 {
            fn cast_slice(x: &[f32], out: &mut [$half]) {
                out.convert_from_f32_slice(x);
            }
        }
    )* };
}
half_casts! { f16 bf16 }
