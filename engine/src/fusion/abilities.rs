//! Limits of the kernels that a device has code for.

pub use crate::device_model::{KernelLimits as Abilities, MAX_OPERANDS, RowFolds};
