//! How a function is called: once, several times in a row, or for each position of a sequence.

/// The manner of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// The number of copies, each with parameters of its own.
    pub(super) repeat: Option<usize>,
    /// The axis of the sequence whose positions are visited in turn.
    pub(super) over: Option<i64>,
    /// Whether the backward pass recomputes the activations.
    pub(super) recompute: bool,
}
