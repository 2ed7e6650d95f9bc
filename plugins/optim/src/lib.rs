//! Optimizers.

mod adam;
mod parts;
mod sgd;

pub use adam::{adam, adamw};
pub use sgd::{momentum, sgd};

use engine_core::op::{OpForm, Plugin};

/// Optimizers.
pub struct Optim;

impl Plugin for Optim {
    fn name(&self) -> &str {
        "optim"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![sgd(), momentum(), adam(), adamw()]
    }
}
