//! Ops as forms: one value says all there is to say about an op.

mod alias;
mod elementwise;
mod form;
mod parts;
mod range;
mod registry;
pub mod testing;

pub use elementwise::{Binary, Unary};
pub use form::{
    AttrKind, AttrSpec, Example, Grad, GradCall, GradCheck, InputSpec, Lower, Lowering, OpForm, Role,
    TypeIssue, TypeRule,
};
pub use parts::checked;
pub use range::Range;
pub use registry::{Plugin, Registry};
