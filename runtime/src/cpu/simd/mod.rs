//! Vectors, instruction sets and prefetching: the ground on which all loops of the device stand.

pub mod isa;
pub mod lanes;
pub mod operation;
pub mod prefetch;
pub mod subnormals;
