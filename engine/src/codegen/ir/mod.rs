//! The layer over CubeCL's instructions.

pub mod builder;
pub mod intrinsics;
pub mod types;
