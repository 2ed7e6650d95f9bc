//! Loops over vector registers, compiled for every instruction set: for the kernels of the CPU and for those of ops.

mod isa;
mod lanes;

pub use isa::{
    Baseline, Float, Isa, Kernel, Level, dispatch, dispatch_on, dispatch_pairs, dispatch_pairs_on, has_pairs,
};
pub use lanes::{Aligned, Lanes};
