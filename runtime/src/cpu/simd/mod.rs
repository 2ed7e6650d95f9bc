//! Vectors, instruction sets and prefetching, which all loops of the device use.

pub mod isa;
pub mod lanes;
pub mod operation;
pub mod prefetch;
pub mod subnormals;
