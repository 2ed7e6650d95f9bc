//! The fusion passes, in order.
//!
//! A new pass is one file here, its `mod` line and its row in [`PASSES`].

mod attention;
mod attention_gradients;
mod edges;
mod epilogues;
mod pass;
mod row_folds;
mod row_writes;
mod scatters;
mod segments;
mod siblings;
mod side_sums;
mod sums;

pub use pass::{Example, FusionPass};

/// All passes in the order in which they run. A kernel kind that depends more on its neighbours comes first: matmuls
/// before rows and maps.
pub const PASSES: &[&dyn FusionPass] = &[
    // Attention absorbs nodes that would be epilogues, rows and maps.
    &attention::Attentions,
    // So does its gradient. The weights of an attention would look like those of a gradient.
    &attention_gradients::AttentionGradients,
    // A bias and an activation belong to their matmul rather than to a reader of the result.
    &epilogues::Epilogues,
    &row_folds::RowFolds,
    // A matmul reads the summed tensor anyway. A row kernel would read it again.
    &side_sums::SideSums,
    // Updates of a scatter are large, so their producers join it before they join other kernels.
    &scatters::Scatters,
    &edges::Edges,
    &siblings::Siblings,
    // What reads a common tensor has been joined.
    &sums::Sums,
    // Kernels are finished here: a row is written by one that has it anyway.
    &row_writes::RowWrites,
    &segments::Segments,
];
