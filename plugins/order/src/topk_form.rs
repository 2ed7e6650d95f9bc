//! The form of a top-k kernel: the shape of its buffer and its threads.

use crate::rank_words::Order;
use crate::topk_buffer::N_CONTROLS;
use crate::topk_ending::Ending;
use crate::topk_trim::{self, BINS};
use engine_core::device_model::DeviceModel;
use engine_core::op::gpu::Shape;
use std::sync::Arc;

/// The most selected elements of a row. More leave the buffer too little room for others.
const MOST_SELECTED: usize = 2560;
/// The most of them in a row of any length. For more, a sort is faster in a row of fewer elements than `FEWEST_EACH` for each.
const FEW_SELECTED: usize = 1024;
const FEWEST_EACH: usize = 4;

/// Whether top-k is faster than a sort of n elements, and its smallest buffer fits in shared memory.
pub fn can_select([k, n]: [usize; 2], order: Order, device: &DeviceModel) -> bool {
    let smallest = shape(k, order.is_wide(), FEWEST_THREADS, width_of(order.dtype.size().max(4)));
    let is_worth_it = k <= FEW_SELECTED || (k <= MOST_SELECTED && n >= FEWEST_EACH * k);
    is_worth_it && fits(smallest, device)
}

fn shape(k: usize, is_wide: bool, threads: usize, width: usize) -> Shape {
    Shape { capacity: (k + threads * width + k.min(NEWCOMERS)).next_power_of_two(), is_wide, threads }
}

fn width_of(element_bytes: usize) -> usize {
    (VECTOR_BYTES / element_bytes).min(MOST_NEIGHBOURS)
}

/// Whether the buffer and its control words fit in shared memory.
fn fits(shape: Shape, device: &DeviceModel) -> bool {
    fits_with(shape, 0, device)
}

/// The same with so many words more.
fn fits_with(shape: Shape, n_more: usize, device: &DeviceModel) -> bool {
    4 * (shape.n_words() + N_CONTROLS + 1 + n_more).next_multiple_of(4) <= device.shared_bytes
}

/// The form of a top-k kernel, independent of its input.
#[derive(Debug)]
pub struct TopKForm {
    pub k: usize,
    pub order: Order,
    pub shape: Shape,
    /// Elements that a thread offers between two barriers.
    pub width: usize,
    /// Whether these are neighbours, read as one vector.
    pub is_side_by_side: bool,
    /// The number of buffered entries from which a block sorts.
    pub trigger: usize,
    /// Groups of threads whose least elements bound the k-th, for a look at the first round; 0 if all of it is offered.
    pub n_groups: usize,
    /// Whether a full buffer is trimmed by histograms of its ranks. If not, it is sorted.
    pub trims: bool,
    /// The results that follow from the selected elements.
    pub ending: Arc<dyn Ending>,
}

/// The most threads of a block. Ranks of two words leave room for the entries of fewer threads.
const THREADS: usize = 256;
const WIDE_THREADS: usize = 128;
const FEWEST_THREADS: usize = 32;
/// Bytes that a thread reads as one vector, and its most elements.
const VECTOR_BYTES: usize = 16;
const MOST_NEIGHBOURS: usize = 4;
/// Fewest selected elements that are worth histograms.
const FEWEST_TRIMMED: usize = 256;
/// New entries that are worth a sort.
const NEWCOMERS: usize = 128;

impl TopKForm {
    /// The form for rows of `n` elements; a group of `aligned` neighbours never crosses the end of a row.
    pub fn new(
        k: usize,
        order: Order,
        [n, aligned]: [usize; 2],
        ending: Arc<dyn Ending>,
        device: &DeviceModel,
    ) -> TopKForm {
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
        let n_groups = (2 * k).next_power_of_two().max(FEWEST_THREADS);
        let has_round = n_groups <= threads && n >= threads * width;
        let looks = !is_wide && has_round && fits_with(shape, n_groups, device);
        let n_groups = if looks { n_groups } else { 0 };
        let n_more = n_groups + BINS + topk_trim::n_words(threads);
        let trims = k >= FEWEST_TRIMMED && fits_with(shape, n_more, device);
        TopKForm { k, order, shape, width, is_side_by_side, trigger, n_groups, trims, ending }
    }

    /// Words of an entry. They lie in planes: all first words, then all second words, and so on.
    pub fn n_planes(&self) -> usize {
        if self.order.is_wide() { 3 } else { 2 }
    }

    /// Words of the state of a piece of a row: the number of entries, and the entries in order.
    pub fn state_words(&self) -> usize {
        1 + self.k * self.n_planes()
    }
}
