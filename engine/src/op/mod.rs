//! Ops as forms: one value says all there is to say about an op.

mod elementwise;
mod extreme;
mod form;
pub mod kernel;
mod parts;
mod registry;
pub mod rows;
pub mod testing;

pub use elementwise::{Binary, Unary};
pub use extreme::extreme_fold;
pub use form::{
    AttrKind, AttrSpec, Example, Grad, GradCall, GradCheck, InputSpec, Lower, Lowering, OpForm, Role,
    TypeIssue, TypeRule,
};
pub use kernel::{GpuForm, HostKernel, KernelCall, KernelForm};
pub use registry::{Plugin, Registry};
pub use rows::{RowFold, RowMonoid};
