//! Prefetching, numbers below the normal range, and operations on the vectors of `engine_core::op::simd`.

pub mod operation;
pub mod prefetch;
pub mod subnormals;
