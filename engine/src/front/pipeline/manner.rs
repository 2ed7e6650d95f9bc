//! How a function is called: once, several times in a row, for each position of a sequence, or until a condition holds.

use crate::ir::Keep;

/// The manner of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// The number of copies, each with parameters of its own.
    pub(super) repeat: Option<usize>,
    /// The axis of the sequence whose positions are visited in turn.
    pub(super) over: Option<i64>,
    /// The result that ends the calls when it is true, and the most calls.
    pub(super) until: Option<Until>,
    /// Whether calls for all positions are written out, however many there are.
    pub(super) unroll: bool,
    /// Whether the backward pass recomputes the activations.
    pub(super) recompute: bool,
    /// What the backward pass keeps of the calls for all positions.
    pub(super) keep: Keep,
}

/// The end of calls whose number only a run knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    /// The number of the result that ends them.
    pub(super) port: usize,
    /// The most calls.
    pub(super) most: usize,
}
