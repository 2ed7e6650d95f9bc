//! Branch-free functions of f32 that the compiler vectorises when they are inlined into a loop.
//!
//! Range reductions are the usual ones: powers of two for exp and log, multiples of π/2 for sine. The coefficients were
//! fitted for these files by reweighted least squares on Chebyshev nodes, towards the least relative error. Each stated
//! error is against the exact value, in units in the last place (ULP) of the f32 result. Tests hold the errors on every
//! instruction set. ±0, ±inf and NaN follow IEEE 754 and C99.

mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod chunks;
mod exponential;
mod logarithm;
mod number;
mod polynomial;
mod power;
mod special;

#[cfg(test)]
mod tests;

pub use arithmetic::{
    has_plain_reciprocal, is_nan, is_plain_dividend, larger, quotient, rsqrt, sign, smaller,
};
pub use exponential::{expm1, tanh};
pub use logarithm::log1p;
pub use polynomial::fma;
pub use power::pow;
pub use special::{TRIG_LIMIT, cos, erf, sin};
