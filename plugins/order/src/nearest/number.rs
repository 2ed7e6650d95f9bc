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
    fn sqrt(self) -> Self;
    fn inverse(self) -> Self;
    fn is_nan(self) -> bool;
}

macro_rules! number {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            const ZERO: $ty = 0.0;
            const HALF: $ty = 0.5;
            const ONE: $ty = 1.0;
            const NAN: $ty = <$ty>::NAN;

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
    )*};
}
number!(f32 f64);
