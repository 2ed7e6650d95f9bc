//! Ops as forms: one value says all there is to say about an op.

mod alias;
mod elementwise;
mod extreme;
mod form;
mod forms;
pub mod gpu;
pub mod kernel;
mod parts;
mod range;
mod registry;
pub mod rows;
pub mod testing;

pub use elementwise::{Binary, Unary};
pub use extreme::extreme_fold;
pub use form::{
    AttrKind, AttrRange, AttrSpec, Example, Grad, GradCall, GradCheck, InputSpec, Lower, Lowering, OpForm,
    Role, TypeIssue, TypeRule,
};
pub use forms::Form;
pub use kernel::{GpuForm, HostKernel, KernelCall, KernelForm};
pub use parts::checked;
pub use range::Range;
pub use registry::{Plugin, Registry};
pub use rows::{RowFold, RowReduction, Selected, Selection};
