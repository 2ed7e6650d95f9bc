//! Shape, indexing and linear-algebra ops.

mod batch_gather;
mod broadcast_to;
mod concat;
mod factories;
mod gather;
mod gemm;
mod index_select;
mod indices;
mod linear;
mod matmul;
mod one_hot;
mod permute;
mod reshape;
mod scatter_add;
mod slice;
mod weighted_sum;

pub use batch_gather::batch_gather;
pub use broadcast_to::broadcast_to;
pub use concat::{concat, stack};
pub use factories::{arange, full, ones, zeros};
pub use gather::gather;
pub use gemm::{addmm, gemm};
pub use index_select::index_select;
pub use linear::linear;
pub use matmul::{matmul, mm};
pub use one_hot::one_hot;
pub use permute::{permute, transpose};
pub use reshape::{flatten, reshape};
pub use scatter_add::scatter_add;
pub use slice::{select, slice};
pub use weighted_sum::weighted_sum;

use engine_core::op::{OpForm, Plugin, TypeIssue};

/// Shape, indexing and linear-algebra ops.
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
            flatten(),
            transpose(),
            permute(),
            broadcast_to(),
            slice(),
            select(),
            concat(),
            stack(),
            matmul(),
            mm(),
            gemm(),
            addmm(),
            linear(),
            weighted_sum(),
            index_select(),
            gather(),
            batch_gather(),
            scatter_add(),
            one_hot(),
        ]
    }
}

/// What a type rule has checked already cannot fail in the lowering.
fn checked<T>(found: Result<T, TypeIssue>) -> T {
    found.unwrap_or_else(|issue| engine_core::bug!("the type rule let this pass: {}", issue.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::op::{Registry, testing};

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.plugin(&Tensor);
        registry
    }

    #[test]
    fn examples_hold() {
        assert_eq!(testing::examples(&registry()), []);
    }

    #[test]
    fn gradients_agree_with_central_differences() {
        assert_eq!(testing::gradients(&registry()), []);
    }

    #[test]
    fn recorded_cases_hold() {
        let cases = include_str!("../../../tests/examples/tensor.json");
        assert_eq!(testing::recorded(&registry(), cases), []);
    }
}
