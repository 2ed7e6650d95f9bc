//! Ops as forms: one value is the complete definition of an op.

mod alias;
mod attr;
mod call;
mod constructors;
mod extreme;
mod form;
mod forms;
pub mod gpu;
mod host;
mod interface;
pub mod kernel;
mod parts;
mod range;
pub mod reference;
mod registry;
mod rounding;
pub mod rows;
mod scalars;
pub mod simd;

pub use crate::ir::{AttrKind, AttrRange, AttrSpec, TypeIssue};
pub use extreme::extreme_fold;
pub use form::{Example, Grad, GradCall, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, TypeRule};
pub use forms::Form;
pub use kernel::{GpuForm, HostKernel, KernelCall, KernelForm};
pub use parts::checked;
pub use range::Range;
pub use registry::{Plugin, Registry};
pub use rounding::Rounding;
pub use rows::{RowFold, RowReduction};
