//! GPUs: one executor of programs, and the APIs under it.
//!
//! The modules, from the lowest layer to the highest:
//!
//! - `parallel` works on all processors, `source` holds kernels as text and caches compiled ones, `wgsl` makes them.
//! - `prepared` holds programs with compiled kernels, and `api` the traits of an API: its memory and its compiler.
//! - `translate` compiles programs, `arena` lays out intermediate values, `plan_memory` holds all memory of a plan.
//! - `autotune` times variants by turns, `bench` runs them on operands from `noise`.
//! - `queue` is the interface of streams and submissions, `executable` runs a plan by it.
//! - `graph_lengths` and `submission` decide how many steps one graph replays, and one submission runs.
//! - `device` implements [`crate::device::Device`].
//! - `cuda` and `wgpu` are the APIs.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "wgpu")]
pub mod wgpu;

mod api;
mod arena;
mod autotune;
mod bench;
mod device;
mod executable;
#[cfg(feature = "cuda")]
mod graph_lengths;
mod noise;
mod parallel;
mod plan_memory;
mod prepared;
mod queue;
mod source;
#[cfg(feature = "wgpu")]
mod submission;
mod translate;
#[cfg(feature = "wgpu")]
mod wgsl;

pub use device::GpuDevice;
