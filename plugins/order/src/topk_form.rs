//! Top-k on GPUs: the first k elements of each row in some order, without sorting the row.
//!
//! A block reads a row and collects elements that precede the k-th best entry so far in its top-k buffer. Once
//! enough have been collected, the block sorts the buffer and keeps the best k. In a long row few elements pass
//! this threshold, so most cost one comparison.

use crate::rank_words::Order;
use crate::topk_buffer::N_CONTROLS;
use crate::topk_code::TopKCode;
use engine_core::cubecl::ir::Scope;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::gpu::{BlockFold, BlockFoldCode, BlockMemory, Shape};
use std::sync::Arc;

/// The most selected elements of a row; for more, a sort is faster.
const MOST_SELECTED: usize = 1024;

/// The block fold that selects the first `k` of rows of `n` elements.
///
/// # Errors
/// If a sort is faster, or the buffer exceeds the shared memory of a block.
pub fn selection(
    k: usize,
    order: Order,
    n: usize,
    device: &DeviceModel,
) -> Result<Arc<dyn BlockFold>, &'static str> {
    let smallest = shape(k, order.is_wide(), FEWEST_THREADS, width_of(order.dtype.size().max(4)));
    match k <= MOST_SELECTED && fits(smallest, device) {
        true => Ok(Arc::new(TopKForm::new(k, order, n, n, device))),
        false => Err("it selects more elements than a block holds"),
    }
}

fn shape(k: usize, is_wide: bool, threads: usize, width: usize) -> Shape {
    Shape { capacity: (k + threads * width + k.min(NEWCOMERS)).next_power_of_two(), is_wide, threads }
}

fn width_of(element_bytes: usize) -> usize {
    (VECTOR_BYTES / element_bytes).min(MOST_NEIGHBOURS)
}

/// Whether the buffer and its control words fit in shared memory.
fn fits(shape: Shape, device: &DeviceModel) -> bool {
    4 * (shape.n_words() + N_CONTROLS + 1).next_multiple_of(4) <= device.shared_bytes
}

/// The form of a top-k kernel, independent of its input.
#[derive(Debug)]
pub struct TopKForm {
    pub k: usize,
    pub order: Order,
    pub shape: Shape,
    /// Elements that a thread offers between two barriers.
    width: usize,
    /// Whether these are neighbours, read as one vector.
    is_side_by_side: bool,
    /// The number of buffered entries from which a block sorts.
    pub trigger: usize,
}

/// The most threads of a block. Ranks of two words leave room for the entries of fewer threads.
const THREADS: usize = 256;
const WIDE_THREADS: usize = 128;
const FEWEST_THREADS: usize = 32;
/// Bytes that a thread reads as one vector, and its most elements.
const VECTOR_BYTES: usize = 16;
const MOST_NEIGHBOURS: usize = 4;
/// New entries that are worth a sort.
const NEWCOMERS: usize = 128;

impl TopKForm {
    /// The form for rows of `n` elements; a group of `aligned` neighbours never crosses the end of a row.
    fn new(k: usize, order: Order, n: usize, aligned: usize, device: &DeviceModel) -> TopKForm {
        let is_wide = order.is_wide();
        let most = if is_wide { WIDE_THREADS } else { THREADS };
        let width = width_of(order.dtype.size());
        let mut threads = n.div_ceil(width).next_power_of_two().clamp(FEWEST_THREADS, most);
        while threads > FEWEST_THREADS && !fits(shape(k, is_wide, threads, width), device) {
            threads /= 2;
        }
        let shape = shape(k, is_wide, threads, width);
        let trigger = (k + k.max(NEWCOMERS)).min(shape.capacity - threads * width);
        let is_side_by_side = aligned.is_multiple_of(width);
        TopKForm { k, order, shape, width, is_side_by_side, trigger }
    }

    /// Words of an entry. They lie in planes: all first words, then all second words, and so on.
    pub fn n_planes(&self) -> usize {
        if self.order.is_wide() { 3 } else { 2 }
    }
}

impl BlockFold for TopKForm {
    fn names(&self) -> [&'static str; 2] {
        ["select_rows", "select_pieces"]
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
        self.shape.n_words() + N_CONTROLS
    }

    /// The number of entries, and the entries in order.
    fn state_words(&self) -> usize {
        1 + self.k * self.n_planes()
    }

    /// Entries.
    fn state_parts(&self) -> usize {
        self.k
    }

    fn vote_word(&self) -> Option<usize> {
        (self.order.dtype == DType::F32).then(|| self.shape.n_words())
    }

    fn merging(&self, n_pieces: usize, device: &DeviceModel) -> Arc<dyn BlockFold> {
        Arc::new(TopKForm::new(self.k, self.order, self.k * n_pieces, 1, device))
    }

    fn code(&self, scope: &mut Scope, memory: BlockMemory) -> Box<dyn BlockFoldCode + '_> {
        Box::new(TopKCode::new(self, scope, memory))
    }
}
