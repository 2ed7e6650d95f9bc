//! The layer over CubeCL's instructions.

pub mod builder;
pub mod control;
pub mod intrinsics;
pub mod memory;
pub mod ptx;
pub mod types;
pub mod words;
