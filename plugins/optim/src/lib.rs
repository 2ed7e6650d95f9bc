//! Optimizers.

mod adagrad;
mod adam;
mod lamb;
mod lion;
mod muon;
mod newton_schulz;
mod parts;
mod rmsprop;
mod sgd;

pub use adagrad::adagrad;
pub use adam::{adam, adamw};
pub use lamb::lamb;
pub use lion::lion;
pub use muon::muon;
pub use newton_schulz::newton_schulz;
pub use rmsprop::rmsprop;
pub use sgd::{momentum, sgd};

use engine_core::op::{OpForm, Plugin};

/// Optimizers.
pub struct Optim;

impl Plugin for Optim {
    fn name(&self) -> &str {
        "optim"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            sgd(),
            momentum(),
            adagrad(),
            rmsprop(),
            adam(),
            adamw(),
            lamb(),
            lion(),
            muon(),
            newton_schulz(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        testing::assert_families(&[&Optim], include_str!("../../../tests/examples/muon.json"));
    }
}
