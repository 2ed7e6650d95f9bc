//! The CPU device: vectorised slice kernels, a fork/join pool and a matrix product.
//!
//! Everything here works on plain slices and shapes; what a graph is, these modules do not know.
//! Results never depend on the number of threads: work is cut by shape, and sums have an order that depends on
//! the length alone.

pub mod gemm;
pub mod isa;
pub mod math;
pub mod philox;
pub mod pool;
pub mod reduce;
pub mod slice;
