//! The form of a top-k kernel: the shape of its buffer, its threads, and the pieces of a row.

use crate::codegen::schedule::topk_buffer::N_CONTROLS;
use crate::device_model::DeviceModel;
use crate::op::Selection;
use crate::op::gpu::{Order, Shape};

/// The most selected elements of a row; for more, a sort is faster.
const MOST_SELECTED: usize = 1024;

/// The most selected elements of a row for which every type's buffer fits in shared memory.
pub fn most_selected(device: &DeviceModel) -> usize {
    let fits = |k: &usize| [true, false].into_iter().all(|is_wide| smallest_shape(*k, is_wide).fits(device));
    (1..=MOST_SELECTED).rev().find(fits).unwrap_or(0)
}

/// Whether the buffer of a selection fits in shared memory.
pub fn can_select(selection: &Selection, device: &DeviceModel) -> bool {
    let Selection { k, order, .. } = selection;
    *k <= MOST_SELECTED && smallest_shape(*k, order.is_wide()).fits(device)
}

/// The buffer shape of a selection with the fewest threads.
fn smallest_shape(k: usize, is_wide: bool) -> Shape {
    shape(k, is_wide, FEWEST_THREADS, width_of(if is_wide { 8 } else { 4 }))
}

fn shape(k: usize, is_wide: bool, threads: usize, width: usize) -> Shape {
    Shape { capacity: (k + threads * width + k.min(NEWCOMERS)).next_power_of_two(), is_wide, threads }
}

fn width_of(element_bytes: usize) -> usize {
    (VECTOR_BYTES / element_bytes).min(MOST_NEIGHBOURS)
}

impl Shape {
    /// Whether the buffer and its control words fit in shared memory.
    fn fits(self, device: &DeviceModel) -> bool {
        4 * (self.n_words() + N_CONTROLS + 1).next_multiple_of(4) <= device.shared_bytes
    }
}

/// The form of a top-k kernel, independent of its input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopKForm {
    pub(super) k: usize,
    pub(super) order: Order,
    pub(super) shape: Shape,
    /// Elements that a thread offers between two barriers.
    pub(super) width: usize,
    /// Whether these are neighbours, read as one vector.
    pub(super) is_side_by_side: bool,
    /// The number of buffered entries from which a block sorts.
    pub(super) trigger: usize,
    /// Whether a block starts from a state in memory.
    pub(super) is_resumed: bool,
    /// Whether a block writes its state to memory, not results.
    pub(super) keeps_state: bool,
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
    pub fn new(k: usize, order: Order, n: usize, aligned: usize, device: &DeviceModel) -> TopKForm {
        let is_wide = order.is_wide();
        let most = if is_wide { WIDE_THREADS } else { THREADS };
        let width = width_of(order.dtype.size());
        let mut threads = n.div_ceil(width).next_power_of_two().clamp(FEWEST_THREADS, most);
        while threads > FEWEST_THREADS && !shape(k, is_wide, threads, width).fits(device) {
            threads /= 2;
        }
        let shape = shape(k, is_wide, threads, width);
        let trigger = (k + k.max(NEWCOMERS)).min(shape.capacity - threads * width);
        let is_side_by_side = aligned.is_multiple_of(width);
        let [is_resumed, keeps_state] = [false; 2];
        TopKForm { k, order, shape, width, is_side_by_side, trigger, is_resumed, keeps_state }
    }

    /// The form of a merge of the states of a row's pieces.
    pub fn merge(k: usize, order: Order, n_pieces: usize, device: &DeviceModel) -> TopKForm {
        TopKForm::new(k, order, k * n_pieces, 1, device)
    }

    /// The form that writes its state to memory if `keeps_state`.
    pub fn keeping_state(self, keeps_state: bool) -> TopKForm {
        TopKForm { keeps_state, ..self }
    }

    /// The form that starts from its state in memory if `is_resumed`.
    pub fn resuming(self, is_resumed: bool) -> TopKForm {
        TopKForm { is_resumed, ..self }
    }

    /// The number of selected elements, and their order.
    pub fn selected(&self) -> (usize, Order) {
        (self.k, self.order)
    }

    /// Threads of a block.
    pub fn threads(&self) -> usize {
        self.shape.threads
    }

    /// Neighbours that a thread reads as one vector.
    pub fn neighbours(&self) -> usize {
        if self.is_side_by_side { self.width } else { 1 }
    }

    /// Elements that a block reads between two barriers.
    pub fn round(&self) -> usize {
        self.shape.threads * self.width
    }

    /// Words of the state of a piece of a row: the number of entries, and the entries in order.
    pub fn state_words(&self) -> usize {
        1 + self.k * self.n_planes()
    }

    /// Words of an entry. They lie in planes: all first words, then all second words, and so on.
    pub(super) fn n_planes(&self) -> usize {
        if self.order.is_wide() { 3 } else { 2 }
    }
}

/// Pieces of each row, and elements of a piece: enough blocks for a large GPU, unless pieces would be short.
pub fn pieces(n_rows: usize, n: usize, round: usize) -> [usize; 2] {
    let wanted = BLOCKS.div_ceil(n_rows.max(1)).min(n / SHORTEST_PIECE).max(1);
    let length = n.div_ceil(wanted).next_multiple_of(round).max(round);
    [n.div_ceil(length).max(1), length]
}

/// Blocks that fill a large GPU.
const BLOCKS: usize = 512;
const SHORTEST_PIECE: usize = 1 << 14;
