//! Single numbers: rounding, wrapping and the combining operations.

use crate::ir::{DType, Monoid};

/// A float rounded to its type.
pub(super) fn round(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f64(x).to_f64(),
        DType::BF16 => half::bf16::from_f64(x).to_f64(),
        DType::F32 => x as f32 as f64,
        _ => x,
    }
}

/// Flushes a number that is subnormal in GPU arithmetic to a zero of the same sign. That arithmetic is f64 for f64 and
/// f32 for all other types.
pub(super) fn flushed(x: f64, dtype: DType) -> f64 {
    let is_subnormal = dtype != DType::F64 && x.abs() < f64::from(f32::MIN_POSITIVE);
    if is_subnormal { 0f64.copysign(x) } else { x }
}

pub(super) fn combine_floats(monoid: Monoid, a: f64, b: f64) -> f64 {
    match monoid {
        Monoid::Sum => a + b,
        Monoid::Prod => a * b,
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        Monoid::Max => a.max(b),
        Monoid::Min => a.min(b),
        Monoid::ArgMax | Monoid::ArgMin => crate::bug!("`{}` combines indices", monoid.name()),
    }
}

pub(super) fn combine_ints(monoid: Monoid, a: i64, b: i64) -> i64 {
    match monoid {
        Monoid::Sum => a.wrapping_add(b),
        Monoid::Prod => a.wrapping_mul(b),
        Monoid::Max => a.max(b),
        Monoid::Min => a.min(b),
        Monoid::ArgMax | Monoid::ArgMin => crate::bug!("`{}` combines indices", monoid.name()),
    }
}
