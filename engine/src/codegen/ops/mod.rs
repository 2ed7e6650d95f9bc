//! The instructions of a fused body: accesses, scalar functions, random numbers, assertions, reductions.

pub mod access;
pub mod assertion;
pub mod body;
pub mod body_group;
pub mod buffers;
pub mod coordinates;
pub mod fast_math;
pub mod functions;
pub mod integers;
pub mod packed_types;
pub mod philox;
pub mod reduction;
pub mod scalar;
pub mod vector_group;
