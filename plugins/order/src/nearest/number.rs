//! Numbers of vectors.

use crate::rank::Ranked;
use engine_core::op::simd::Float;
use std::ops::Sub;

/// Numbers of vectors.
pub trait Number: Ranked + Float + Sub<Output = Self> {
    const ZERO: Self;
    const HALF: Self;
    const ONE: Self;
    const NAN: Self;
    /// Squared norms that are far from the limits of the type: the least and the largest.
    const SQUARES: [Self; 2];
    /// A power of two that brings shorter vectors into that range.
    const ENLARGING: Self;
    /// A power of two that brings longer vectors into that range.
    const REDUCING: Self;
    fn sqrt(self) -> Self;
    fn inverse(self) -> Self;
    fn is_nan(self) -> bool;
}

macro_rules! number {
    ($ty:ident, $squares:expr, $enlarging:expr, $reducing:expr) => {
        impl Number for $ty {
            const ZERO: $ty = 0.0;
            const HALF: $ty = 0.5;
            const ONE: $ty = 1.0;
            const NAN: $ty = <$ty>::NAN;
            const SQUARES: [$ty; 2] = $squares;
            const ENLARGING: $ty = $enlarging;
            const REDUCING: $ty = $reducing;

            fn sqrt(self) -> $ty {
                self.sqrt()
            }

            fn inverse(self) -> $ty {
                1.0 / self
            }

            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    };
}
// 2⁹⁰ and 2⁻⁸⁰.
number!(f32, [1e-24, 1e24], f32::from_bits((127 + 90) << 23), f32::from_bits((127 - 80) << 23));
// 2⁶⁰⁰ and 2⁻⁶⁰⁰.
number!(f64, [1e-240, 1e240], f64::from_bits((1023 + 600) << 52), f64::from_bits((1023 - 600) << 52));
