//! GPUs: one executor of programs, and the APIs under it.
//!
//! The modules, from the lowest layer to the highest:
//!
//! - `parallel` works on all processors, `source` holds kernels as text and caches compiled ones, `wgsl` makes them.
//!   `wgsl_probes` are kernels that show how a GPU behaves.
//! - `prepared` holds programs with compiled kernels, and `api` the traits of an API: its memory and its compiler.
//! - `translate` compiles programs, `arena` lays out intermediate values, `plan_memory` holds all memory of a plan.
//! - `autotune` times variants by turns, `bench` runs them on operands from `noise`.
//! - `queue` is the interface of streams and submissions, `executable` runs a plan by it.
//! - `graph_lengths` and `submission` decide how many steps one graph replays, and one submission runs.
//! - `graph_loops` decides how a graph holds a loop, and `events` which steps of a program record an event.
//! - `kernel_list` lists programs for APIs whose queues take nothing but kernels.
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
mod candidates;
mod device;
#[cfg(feature = "cuda")]
mod events;
mod executable;
#[cfg(feature = "cuda")]
mod graph_lengths;
#[cfg(feature = "cuda")]
mod graph_loops;
#[cfg(feature = "wgpu")]
mod kernel_list;
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
#[cfg(feature = "wgpu")]
mod wgsl_probes;

pub use device::GpuDevice;
