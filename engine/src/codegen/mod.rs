//! From fused kernels to CubeCL kernel definitions, and from those to CUDA C++.
//!
//! [`KernelSpec`] is a kernel that CubeCL can compile for any of its devices; [`cuda_sources`] prints it as CUDA C++,
//! which needs no GPU.
//!
//! Most kernels are one launch; a scatter writes its base first, and may sort its indices ([`KernelSpec::launches`]).
//! A matmul is one launch that adds up its own products, or, where a library has multiplied the matrices, one that
//! runs the epilogue on the product ([`KernelSpec::epilogue`]); sums beside it are launches of their own
//! ([`KernelSpec::side_sums`]). [`absorbed`] says how much of an epilogue a library can run.
//!
//! The number of points or rows and the seed are arguments; strides and inner extents are part of the text, so one
//! text serves every batch size. Entry names are the kinds of kernels, so that equal kernels have equal texts.

mod analysis;
mod error;
mod ir;
mod kernel;
mod limits;
mod ops;
mod render;
mod schedule;
#[cfg(test)]
mod tests;
mod types;

pub use error::CodegenError;
pub use kernel::{Argument, KernelSpec};
pub use ops::assertion::{ASSERTION_WORDS, FailedAssertion, assertion_words, first_failure};
pub use render::cuda::{KernelSource, cuda_sources};
pub use schedule::matmul_fold::{PANEL_BYTES, Panel, PanelFold};
pub use schedule::row_plan::RowPlan;
pub use schedule::split_k::SplitK;
pub use schedule::topk::{can_select, most_selected, select_rows};
