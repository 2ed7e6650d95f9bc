//! Handles of the steps of a scalar body.

/// Index of an instruction within its body.
pub type Reg = usize;

/// An expression under construction inside [`Body::new`](super::Body::new). It is a handle, hence `Copy`.
#[derive(Clone, Copy, Debug)]
pub struct E(pub(super) Reg);
