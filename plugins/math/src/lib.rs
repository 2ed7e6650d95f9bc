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
        let elementwise = elementwise::ops().into_iter().map(|op| op.family("elementwise"));
        let activations = activation::ops().into_iter().map(|op| op.family("activation"));
        elementwise.chain(activations).collect()
    }
}
