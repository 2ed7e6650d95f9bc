//! From text to fused kernels: the graph, its gradient, its rules, its fusion and its plan.
//!
//! This crate is pure: no device, no I/O, no clock, no thread. The modules stand in the order of a graph's life.

pub mod bind;
pub mod codegen;
pub mod compile;
pub mod device_model;
pub mod diag;
pub mod front;
pub mod fusion;
pub mod grad;
pub mod ir;
pub mod lower;
pub mod numerics;
pub mod op;
pub mod oracle;
pub mod pass;
pub mod pipeline;
pub mod plan;
pub mod program;
pub mod rules;
pub mod stage;
pub mod testing;
pub mod text;
mod work;

/// The kernel language, for the functions of plugins. They write `use engine_core::cubecl`, since the macro `#[cube]`
/// refers to it by that name.
pub use cubecl_core as cubecl;

/// Panics with a message that names a bug of the engine, as opposed to a mistake of the user.
#[macro_export]
macro_rules! bug {
    ($($arg:tt)*) => { panic!("bug in the engine: {}", format_args!($($arg)*)) };
}
