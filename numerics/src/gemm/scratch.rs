//! The scratch memory of products.

use super::tiles::{MAX_ROWS, STRIP};
use engine_core::op::simd::Float;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

/// Longest run along the contracted axis between two visits to the output.
pub(super) const RUN: usize = 256;

/// The columns of a panel.
pub(super) const PANEL: usize = 256;
/// The most blocks of rows of A that are packed at a time.
pub(super) const BLOCKS: usize = 32;

/// The packed strips of B, with room for a strip behind them, packed rows of A, and a register block at the edge; one for
/// each worker.
#[repr(align(64))]
pub struct Scratch<T> {
    pub(super) panel: [T; RUN * PANEL + STRIP],
    pub(super) blocks: [T; RUN * BLOCKS * MAX_ROWS],
    pub(super) edge: [T; MAX_ROWS * STRIP],
}

impl<T: Float> Scratch<T> {
    /// Scratch memory for one worker, whose pages are taken when they are used.
    pub fn new() -> Box<Scratch<T>> {
        let layout = Layout::new::<Scratch<T>>();
        // SAFETY: the layout is not empty; floats of zero bits are zeros; the box frees the memory with this layout.
        unsafe {
            let start = alloc_zeroed(layout).cast::<Scratch<T>>();
            if start.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(start)
        }
    }
}
