//! Conversions of slices.

use super::super::simd::isa::{Isa, Kernel, dispatch};
use super::elementwise::Element;
use super::macros::map;
use half::{bf16, f16, slice::HalfFloatSliceExt};

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
    i32 => i32 f32 f64 i64 u32 u8;
    i64 => i64 f32 f64 i32 u32 u8;
    u32 => u32 f32 f64 i32 i64 u8;
    u8 => u8 f32 f64 i32 i64 u32;
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
