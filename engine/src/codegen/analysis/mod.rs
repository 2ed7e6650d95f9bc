//! Analyses of a kernel's body that run before its text is emitted.

pub mod cost;
pub mod nan;
pub mod online_softmax;
pub mod operands;
pub mod range;
pub mod visible_keys;
pub mod visible_points;
