//! Kernel definitions as text.

pub mod cuda;
pub mod ordered;
