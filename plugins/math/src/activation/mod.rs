//! Activations.

mod relu;

use engine_core::op::OpForm;

/// All ops of this family.
pub(crate) fn ops() -> Vec<OpForm> {
    vec![relu::relu()]
}
