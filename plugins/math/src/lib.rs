//! Elementwise arithmetic, comparison and activation ops
