//! Elementwise arithmetic, comparison and activation ops

mod activation;
mod elementwise;
mod takes;
#[cfg(test)]
mod tests;

use engine_core::op::{OpForm, Plugin};

/// Elementwise arithmetic, comparison and activation ops.
pub struct Math;

impl Plugin for Math {
    fn name(&self) -> &str {
        "math"
    }

    fn ops(&self) -> Vec<OpForm> {
        let mut ops = elementwise::ops();
        ops.extend(activation::ops());
        ops
    }
}
