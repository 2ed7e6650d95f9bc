//! The parts that use a machine: devices, memory, sessions, data and checkpoints.

pub mod session;

pub mod device;
pub mod tensor;

mod bindings;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod cache;
pub mod checkpoint;
pub mod data;
mod hoisted;
pub mod init;

pub mod autotune;
pub mod diagnostic;
pub mod files;
#[cfg(test)]
mod fuzz;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
pub mod gpu;
pub mod panics;
pub mod plan_runner;
mod sampling;

pub mod cpu;

pub use engine_numerics::philox;
