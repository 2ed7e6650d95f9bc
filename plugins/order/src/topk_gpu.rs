//! Top-k on GPUs: the first k elements of each row in some order, without sorting the row.
//!
//! A block reads a row and collects elements that precede the k-th best entry so far in its top-k buffer. Once
//! enough have been collected, the block sorts the buffer and keeps the best k. In a long row few elements pass
//! this threshold, so most cost one comparison. Before the first round, all elements would pass. So a block looks at them
//! first: the k-th of the least elements of at least 2k groups of threads is a threshold that k elements precede.

use crate::rank_words::Order;
use crate::topk_buffer::N_CONTROLS;
use crate::topk_code::TopKCode;
use crate::topk_ending::Ending;
use crate::topk_form::{TopKForm, can_select};
use crate::topk_trim;
use engine_core::cubecl::ir::Scope;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::gpu::{BlockFold, BlockFoldCode, BlockMemory};
use std::sync::Arc;

/// The block fold that selects the first `k` of rows of `n` elements, and ends with them.
///
/// # Errors
/// If a sort is faster, or the buffer exceeds the shared memory of a block.
pub fn selection(
    k: usize,
    order: Order,
    n: usize,
    ending: Arc<dyn Ending>,
    device: &DeviceModel,
) -> Result<Arc<dyn BlockFold>, &'static str> {
    match can_select([k, n], order, device) {
        true => Ok(Arc::new(TopKForm::new(k, order, [n, n], ending, device))),
        false => Err("it selects more elements than a block holds"),
    }
}

impl BlockFold for TopKForm {
    fn names(&self) -> [&'static str; 2] {
        [self.ending.name(), "select_pieces"]
    }

    fn threads(&self) -> usize {
        self.shape.threads
    }

    fn width(&self) -> usize {
        self.width
    }

    fn neighbours(&self) -> usize {
        if self.is_side_by_side { self.width } else { 1 }
    }

    fn shared_words(&self) -> usize {
        let trim = if self.trims { topk_trim::n_words(self.shape.threads) } else { 0 };
        self.shape.n_words() + N_CONTROLS + trim
    }

    fn state_words(&self) -> usize {
        TopKForm::state_words(self)
    }

    /// Entries.
    fn state_parts(&self) -> usize {
        self.k
    }

    fn vote_word(&self) -> Option<usize> {
        (self.order.dtype == DType::F32).then(|| self.shape.n_words())
    }

    fn looks_first(&self) -> bool {
        self.n_groups > 0
    }

    fn merging(&self, n_pieces: usize, device: &DeviceModel) -> Arc<dyn BlockFold> {
        let ending = Arc::clone(&self.ending);
        Arc::new(TopKForm::new(self.k, self.order, [self.k * n_pieces, 1], ending, device))
    }

    fn code(&self, scope: &mut Scope, memory: BlockMemory) -> Box<dyn BlockFoldCode + '_> {
        Box::new(TopKCode::new(self, scope, memory))
    }
}
