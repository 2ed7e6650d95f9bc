//! Analyses of a kernel's body that run before its text is emitted.

pub mod cost;
pub mod nan;
pub mod operands;
pub mod range;
