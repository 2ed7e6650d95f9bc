//! Attention, dense and over selected keys.

mod attention;
mod gather_attention;
mod heads;
mod layout;
mod merge_state;
mod scores;

pub use attention::attention;
pub use gather_attention::gather_attention;
pub use merge_state::merge_state;

use engine_core::op::{OpForm, Plugin};

/// Attention, dense and over selected keys.
pub struct Attention;

impl Plugin for Attention {
    fn name(&self) -> &str {
        "attention"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![attention(), gather_attention(), merge_state()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        testing::assert_families(&[&Attention], include_str!("../../../tests/examples/attention.json"));
    }
}
