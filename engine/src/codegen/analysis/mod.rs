//! Facts about a kernel's body, known before its text is made.

pub mod cost;
pub mod nan;
pub mod operands;
pub mod range;
