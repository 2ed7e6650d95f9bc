//! Code generation: from fused kernels to CubeCL kernel definitions, and from those to CUDA C++.
//!
//! [`KernelSpec`] is a kernel that CubeCL can compile for any of its devices. [`cuda_sources`] prints it as CUDA
//! C++, which needs no GPU.
//!
//! Most kernels are one launch. Attention of few rows may be two. A scatter writes its base first and may sort its indices
//! ([`KernelSpec::launches`]). A matmul is one launch, or a library call and the epilogue on its product
//! ([`KernelSpec::epilogue`]). Side sums of a matmul are launches of their own ([`KernelSpec::side_sums`]).
//!
//! Points or rows and the seed are arguments; strides and inner extents are part of the text. One text serves
//! every batch size. Entry points are named by the kind of kernel, so equal kernels have equal texts.

mod analysis;
mod error;
mod ir;
mod kernel;
mod limits;
mod operand;
mod ops;
mod render;
mod schedule;
mod tensor_map;
#[cfg(test)]
mod tests;
mod types;

pub use analysis::online_softmax::{LastPart, OnlineSoftmax, Reference};
pub use analysis::operands::{operands, with_registers};
pub use analysis::visible_keys::VisibleKeys;
pub use analysis::visible_points::visible_points;
pub use error::CodegenError;
pub use ir::builder::Code;
pub use ir::types::native;
pub use kernel::KernelSpec;
pub use limits::SHARED_ATTENTION;
pub use operand::Argument;
pub use ops::assertion::{ASSERTION_WORDS, FailedAssertion, assertion_words, first_failure};
pub use render::cuda::{AWAIT, KernelSource, cuda_sources};
pub use render::ordered::with_declarations_in_order;
pub use schedule::matmul_fold::PanelFold;
pub use schedule::panel::{PANEL_BYTES, Panel, PanelCut};
pub use schedule::row_fold::fold_rows;
pub use schedule::row_plan::RowPlan;
pub use schedule::split_k::SplitK;
pub use schedule::tensor_core::ResultTile;
pub use schedule::thread_fold::thread_fold;
pub use tensor_map::{MAP_AXES, TensorMap};
