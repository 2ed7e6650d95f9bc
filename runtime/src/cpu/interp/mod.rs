//! The interpreter: kernel bodies compiled to programs, and programs run over blocks of points.
//!
//! [`compile()`] turns a body into instructions. A [`Frame`] runs them on a [`Worker`]: each instruction is one vectorised
//! loop over a block.

mod address;
mod check;
mod compile;
mod flat;
mod frame;
mod generate;
mod load;
mod program;
mod reduce;
mod scalar;
mod span;
mod spread;
mod store;
pub mod view;
mod worker;

pub use address::Address;
pub use check::AssertionRecord;
pub use compile::compile;
pub use compile::parts::{checks_only, folds_only, plain_store, stores_only, value_only};
pub use frame::Frame;
pub use program::{Arg, Dest, Inst, Layout, Op, Pass, Program, Sharing, Spread, Superinstruction};
pub use reduce::Accumulators;
pub use scalar::cast;
pub use span::Span;
pub(super) use view::{Buffer, View, slice_mut, with_size, with_type};
pub use worker::{ScratchSize, Worker, row_pitch};
