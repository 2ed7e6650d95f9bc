//! exp and log of whole chunks.

use super::super::simd::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::super::simd::isa::Level;
use super::super::simd::prefetch::CHUNK;
#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::{exponential, logarithm};

macro_rules! chunk_functions {
    ($($(#[$doc:meta])* $name:ident by $module:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<I: Isa>(values: &mut [f32; CHUNK]) {
            #[cfg(target_arch = "x86_64")]
            if matches!(I::LEVEL, Level::Avx512) {
                // SAFETY: loops for this level run only where the machine has it.
                return unsafe { avx512::$name(values) };
            }
            for value in values {
                *value = $module::$name::<I>(*value);
            }
        }
    )* };
}
chunk_functions! {
    /// [`exponential::exp`] of each value.
    exp by exponential;
    /// [`logarithm::log`] of each value.
    log by logarithm;
}
