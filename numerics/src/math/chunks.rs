//! exp and log of whole chunks.

#[cfg(target_arch = "x86_64")]
use super::avx512::F32x16;
use super::{exponential, logarithm};
use crate::simd::prefetch::CHUNK;
use engine_core::op::simd::Isa;
#[cfg(target_arch = "x86_64")]
use engine_core::op::simd::Level;

macro_rules! chunk_functions {
    ($($(#[$doc:meta])* $name:ident by $module:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<I: Isa>(values: &mut [f32; CHUNK]) {
            #[cfg(target_arch = "x86_64")]
            if matches!(I::LEVEL, Level::Avx512) {
                for vector in values.as_chunks_mut::<16>().0 {
                    $module::$name::<I, _>(F32x16::load(vector)).store(vector);
                }
                return;
            }
            for value in values {
                *value = $module::$name::<I, f32>(*value);
            }
        }
    )* };
}
chunk_functions! {
    /// The exponential of each value.
    exp by exponential;
    /// The logarithm of each value.
    log by logarithm;
}
