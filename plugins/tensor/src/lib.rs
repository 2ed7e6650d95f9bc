//! Shape and linear-algebra ops.

mod broadcast_to;
mod concat;
mod factories;
mod gemm;
mod linear;
mod matmul;
mod permute;
mod reshape;
mod ring;
mod slice;
mod weighted_sum;

pub use broadcast_to::broadcast_to;
pub use concat::{concat, stack};
pub use factories::{arange, full, ones, zeros};
pub use gemm::{addmm, gemm};
pub use linear::linear;
pub use matmul::{matmul, mm};
pub use permute::{permute, transpose};
pub use reshape::{flatten, reshape};
pub use ring::ring_push;
pub use slice::{select, slice};
pub use weighted_sum::weighted_sum;

use engine_core::op::{OpForm, Plugin};

/// Shape and linear-algebra ops.
pub struct Tensor;

impl Plugin for Tensor {
    fn name(&self) -> &str {
        "tensor"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            zeros(),
            ones(),
            full(),
            arange(),
            reshape(),
            reshape().alias("view", "view(a, shape=[2, 3])"),
            flatten(),
            transpose(),
            permute(),
            broadcast_to(),
            slice(),
            select(),
            concat(),
            stack(),
            ring_push(),
            matmul(),
            mm(),
            gemm(),
            addmm(),
            linear(),
            weighted_sum(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        testing::assert_families(&[&Tensor], include_str!("../../../tests/examples/tensor.json"));
    }
}
