//! Attention, dense and over selected keys, with rotary positions and caches.

mod apply_rotary_embedding;
mod attention;
mod gather_attention;
mod heads;
mod kv_insert;
mod layout;
mod merge_state;
mod rotary;
mod rotation;
mod scores;

pub use apply_rotary_embedding::apply_rotary_embedding;
pub use attention::attention;
pub use gather_attention::gather_attention;
pub use kv_insert::kv_insert;
pub use merge_state::merge_state;
pub use rotary::rotary;

use engine_core::op::{OpForm, Plugin};

/// Attention, dense and over selected keys, with rotary positions and caches.
pub struct Attention;

impl Plugin for Attention {
    fn name(&self) -> &str {
        "attention"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![attention(), gather_attention(), merge_state(), rotary(), apply_rotary_embedding(), kv_insert()]
    }
}

#[cfg(test)]
mod tests;
