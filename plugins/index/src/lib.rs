//! Indexed reads and writes, embeddings.

mod advanced;
mod batch_gather;
mod embedding;
mod gather;
mod index_select;
mod indices;
mod multi_index_gather;
mod one_hot;
mod pages;
mod ragged;
mod scatter;
mod scatter_reduce;
mod segments;
mod subscript;
mod subtract_at_indices;
#[cfg(test)]
mod tests;

pub use advanced::{index, index_put};
pub use batch_gather::batch_gather;
pub use embedding::{embedding, embedding_renorm};
pub use gather::gather;
pub use index_select::index_select;
pub use multi_index_gather::{batch_gather_with_k, multi_index_gather};
pub use one_hot::one_hot;
pub use pages::{paged_gather, paged_scatter};
pub use ragged::ragged_gather;
pub use scatter::{scatter, scatter_add};
pub use scatter_reduce::scatter_reduce;
pub use segments::{segment_mean, segment_sum};
pub use subtract_at_indices::subtract_at_indices;

use engine_core::op::{OpForm, Plugin};

/// Indexed reads and writes, embeddings.
pub struct Index;

impl Plugin for Index {
    fn name(&self) -> &str {
        "index"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            index_select(),
            index_select().alias("gather_with_grad", "gather_with_grad(a, b)"),
            gather(),
            batch_gather(),
            multi_index_gather(),
            batch_gather_with_k(),
            index(),
            scatter_add(),
            scatter(),
            scatter_reduce(),
            index_put(),
            subtract_at_indices(),
            one_hot(),
            embedding(),
            embedding_renorm(),
            paged_gather(),
            paged_scatter(),
            ragged_gather(),
            segment_sum(),
            segment_mean(),
        ]
    }
}
