//! From text to fused kernels: the graph, its gradient, its rules, its fusion and its plan.
//!
//! This crate is pure: no device, no I/O, no clock, no thread. The groups of modules stand in the order of a graph's life.

// Terms that all stages share.
pub mod device_model;
pub mod diag;
pub mod numerics;
pub mod text;
mod work;

// The graph and its ops.
pub mod ir;
pub mod op;

// From a source text to a graph, and from a pipeline to its stages.
pub mod front;
pub mod pipeline;
pub mod stage;

// From a graph to a simpler graph.
pub mod bind;
pub mod decode;
pub mod grad;
mod last_rows;
pub mod lower;
pub mod pass;
pub mod precision;
pub mod rules;

// From a graph to fused kernels, their code, programs and a plan.
pub mod fusion;

pub mod codegen;

pub mod program;

pub mod plan;

// All of these in one call.
pub mod compile;

// What results are checked against.
pub mod oracle;
pub mod testing;

/// The kernel language, for the functions of plugins. They write `use engine_core::cubecl`, since the macro `#[cube]`
/// refers to it by that name.
pub use cubecl_core as cubecl;

/// Panics with a message that names a bug of the engine, as opposed to a mistake of the user.
#[macro_export]
macro_rules! bug {
    ($($arg:tt)*) => { panic!("bug in the engine: {}", format_args!($($arg)*)) };
}
