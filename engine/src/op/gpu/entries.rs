//! Entries, and how the threads of a block put them in order.
//!
//! An entry is the rank of an element, a number that is smaller where the element comes first, and its index, which
//! decides among equals: so no two entries are equal, and any sort is a stable one. Ranks are one word, or two for types of
//! 64 bits. A block keeps entries in shared memory, first words, second words and indices apart.

// The macro of the kernel language makes a module of each function, and leaves its documentation behind.
#![allow(missing_docs)]

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

/// Whether one entry comes before another.
#[cube]
pub fn before(
    high: u32,
    low: u32,
    index: u32,
    other_high: u32,
    other_low: u32,
    other_index: u32,
    #[comptime] is_wide: bool,
) -> bool {
    let is_earlier = index < other_index;
    let is_lower =
        if comptime!(is_wide) { low < other_low || (low == other_low && is_earlier) } else { is_earlier };
    high < other_high || (high == other_high && is_lower)
}

/// How entries lie in the shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Entries that there is room for, a power of two.
    pub capacity: usize,
    /// Whether ranks take two words.
    pub is_wide: bool,
    /// Threads of the block.
    pub threads: usize,
}

impl Shape {
    /// Words that all entries take.
    pub fn n_words(self) -> usize {
        self.indices() + self.capacity
    }

    /// The place of the first index.
    pub fn indices(self) -> usize {
        if self.is_wide { 2 * self.capacity } else { self.capacity }
    }
}

/// Writes an entry.
#[cube]
pub fn put(
    words: &mut SharedMemory<u32>,
    place: usize,
    high: u32,
    low: u32,
    index: u32,
    #[comptime] shape: Shape,
) {
    words[place] = high;
    if comptime!(shape.is_wide) {
        words[place + comptime!(shape.capacity)] = low;
    }
    words[place + comptime!(shape.indices())] = index;
}

/// Writes an entry that comes behind those of all elements.
#[cube]
pub fn put_last(words: &mut SharedMemory<u32>, place: usize, #[comptime] shape: Shape) {
    let last = u32::new(comptime!(i64::from(u32::MAX)));
    put(words, place, last, last, last, shape);
}

/// Sorts the first `n` entries in runs of `run`, both powers of two, by a bitonic network (Batcher, 1968). All threads of
/// the block take part; all have written their entries, and see them sorted.
#[cube]
pub fn sort(words: &mut SharedMemory<u32>, n: usize, run: usize, #[comptime] shape: Shape) {
    let mut size = 2usize.runtime();
    while size <= run {
        let mut distance = size / 2usize;
        while distance > 0usize {
            let mut pair = UNIT_POS_X as usize;
            while pair < n / 2usize {
                let first = 2usize * pair - (pair & (distance - 1usize));
                // The last size leaves whole runs in order, so its direction is the same for all.
                let is_rising = (first & (run - 1usize) & size) == 0usize;
                exchange(words, first, first + distance, is_rising, shape);
                pair += comptime!(shape.threads);
            }
            sync_cube();
            distance /= 2usize;
        }
        size *= 2usize;
    }
}

/// Puts two entries in order, or in the opposite one.
#[cube]
fn exchange(
    words: &mut SharedMemory<u32>,
    first: usize,
    second: usize,
    is_rising: bool,
    #[comptime] shape: Shape,
) {
    let indices = comptime!(shape.indices());
    let high = words[first];
    let other_high = words[second];
    let index = words[first + indices];
    let other_index = words[second + indices];
    if comptime!(shape.is_wide) {
        let capacity = comptime!(shape.capacity);
        let low = words[first + capacity];
        let other_low = words[second + capacity];
        if before(other_high, other_low, other_index, high, low, index, true) == is_rising {
            put(words, first, other_high, other_low, other_index, shape);
            put(words, second, high, low, index, shape);
        }
    } else if before(other_high, 0u32, other_index, high, 0u32, index, false) == is_rising {
        put(words, first, other_high, 0u32, other_index, shape);
        put(words, second, high, 0u32, index, shape);
    }
}
