//! The numeric code of the CPU device, on slices and raw memory: nothing here knows kernels, plans or threads.
//!
//! A loop is compiled for each instruction set and each type, hundreds of versions in all. They are compiled in this
//! crate, once. Generic functions would be compiled in each crate that calls them, so they are called through the
//! traits [`loops::Number`] and [`gemm::GemmFloat`]. The modules, each of which uses those before it:
//!
//! - [`simd`]: instruction sets, prefetching, subnormal numbers.
//! - [`math`]: functions of floats.
//! - [`philox`]: random words.
//! - [`loops`]: loops over slices, the instructions of the interpreter.
//! - [`gemm`]: matrix products.

pub mod simd;

pub mod math;
pub mod philox;

pub mod loops;

pub mod gemm;

mod match_type;
