//! What is known of a kernel before its text is made.

pub mod nan;
