//! Convolution, pooling, padding, cropping and resizing of signals, images and volumes.
//!
//! Operands are `[N, C, …]`: items, channels, then one to three spatial axes, whose extents are known.

mod adaptive;
mod conv;
mod conv_transpose;
mod crop;
mod flip;
mod pad;
mod pool;
mod resize;
mod windows;

pub use adaptive::{adaptive_avg_pool, adaptive_max_pool};
pub use conv::conv;
pub use conv_transpose::conv_transpose;
pub use crop::{center_crop, crop};
pub use flip::flip;
pub use pad::pad;
pub use pool::{avg_pool, max_pool};
pub use resize::resize;

use engine_core::op::{OpForm, Plugin};

/// Convolution, pooling, padding, cropping and resizing.
pub struct Vision;

impl Plugin for Vision {
    fn name(&self) -> &str {
        "vision"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            conv(),
            conv_transpose(),
            max_pool(),
            avg_pool(),
            adaptive_avg_pool(),
            adaptive_max_pool(),
            pad(),
            crop(),
            center_crop(),
            flip(),
            resize(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        let cases = include_str!("../../../tests/examples/vision.json");
        testing::assert_families(&[&Vision], cases);
    }
}
