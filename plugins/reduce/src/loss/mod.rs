//! Losses.

mod bce_with_logits;
mod contrastive_loss;
mod cross_entropy;
mod distance;
mod hinge_loss;
mod huber_loss;
mod kl_div;
mod l1_loss;
mod linear_cross_entropy;
mod mse_loss;
mod nll_loss;
mod reduction;
mod rows;
mod triplet_loss;

pub use bce_with_logits::bce_with_logits;
pub use contrastive_loss::contrastive_loss;
pub use cross_entropy::{cross_entropy, cross_entropy_rows};
pub use hinge_loss::hinge_loss;
pub use huber_loss::huber_loss;
pub use kl_div::kl_div;
pub use l1_loss::l1_loss;
pub use linear_cross_entropy::{linear_cross_entropy, linear_cross_entropy_rows};
pub use mse_loss::mse_loss;
pub use nll_loss::nll_loss;
pub use triplet_loss::triplet_loss;

use engine_core::op::OpForm;

/// All losses.
pub(crate) fn ops() -> Vec<OpForm> {
    vec![
        nll_loss(),
        cross_entropy_rows(),
        cross_entropy(),
        linear_cross_entropy_rows(),
        linear_cross_entropy(),
        bce_with_logits(),
        mse_loss(),
        l1_loss(),
        huber_loss(),
        hinge_loss(),
        kl_div(),
        triplet_loss(),
        contrastive_loss(),
    ]
}
