//! Norms, normalisation and similarity.

mod affine;
mod batch_norm;
mod cosine;
mod embedding_rms_norm;
mod l2_normalize;
mod layer_norm;
mod length;
mod rms_norm;

pub use batch_norm::batch_norm;
pub use cosine::{cosine_matrix, cosine_similarity};
pub use embedding_rms_norm::embedding_rms_norm;
pub use l2_normalize::l2_normalize;
pub use layer_norm::layer_norm;
pub use rms_norm::{residual_rms_norm, rms_norm};

use engine_core::op::{OpForm, Plugin};

/// Norms, normalisation and similarity.
pub struct Norm;

impl Plugin for Norm {
    fn name(&self) -> &str {
        "norm"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            rms_norm(),
            residual_rms_norm(),
            layer_norm(),
            batch_norm(),
            l2_normalize(),
            cosine_similarity(),
            cosine_matrix(),
            embedding_rms_norm(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;
    use engine_index::Index;
    use engine_order::Order;
    use engine_reduce::Reduce;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        let cases = include_str!("../../../tests/examples/norm.json");
        testing::assert_families(&[&Index, &Order, &Reduce, &Norm], cases);
    }
}
