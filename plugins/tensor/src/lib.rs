//! Shape and linear-algebra ops, recurrent cells.

mod broadcast_to;
mod concat;
mod einsum;
mod factories;
mod gates;
mod gemm;
mod gru_cell;
mod linear;
mod lstm_cell;
mod matmul;
mod permute;
mod repeat;
mod repeat_interleave;
mod require;
mod reshape;
mod ring;
mod slice;
mod triangles;
mod weighted_sum;

pub use broadcast_to::broadcast_to;
pub use concat::{concat, stack};
pub use einsum::einsum;
pub use factories::{arange, full, iota, ones, zeros};
pub use gemm::{addmm, gemm};
pub use gru_cell::gru_cell;
pub use linear::linear;
pub use lstm_cell::lstm_cell;
pub use matmul::{matmul, mm};
pub use permute::{permute, transpose};
pub use repeat::{meshgrid, repeat, roll, tile};
pub use repeat_interleave::repeat_interleave;
pub use require::require;
pub use reshape::{flatten, reshape, reshape_as};
pub use ring::ring_push;
pub use slice::{select, slice};
pub use triangles::{diag, eye, tril, triu};
pub use weighted_sum::weighted_sum;

use engine_core::op::{OpForm, Plugin};

/// Shape and linear-algebra ops, recurrent cells.
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
            iota(),
            eye(),
            meshgrid(),
            reshape(),
            reshape().alias("view", "view(a, shape=[2, 3])"),
            reshape_as(),
            flatten(),
            transpose(),
            permute(),
            broadcast_to(),
            repeat(),
            tile(),
            repeat_interleave(),
            roll(),
            tril(),
            triu(),
            diag(),
            slice(),
            select(),
            concat(),
            stack(),
            ring_push(),
            require(),
            matmul(),
            mm(),
            gemm(),
            addmm(),
            linear(),
            weighted_sum(),
            einsum(),
            gru_cell(),
            lstm_cell(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;
    use engine_math::Math;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        testing::assert_families(&[&Math, &Tensor], include_str!("../../../tests/examples/tensor.json"));
    }
}
