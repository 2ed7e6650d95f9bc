//! Kernel definitions as text.

pub mod ordered;
