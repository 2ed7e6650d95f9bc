//! How the threads of a block sort entries that they hold in registers, by a bitonic network (Batcher, 1968).
//!
//! Each thread holds neighbours of the order. It exchanges entries with itself in registers, with threads of its warp by
//! shuffles, and with others through shared memory.

// The macro of the kernel language makes an undocumented module of each function.
#![allow(missing_docs)]

use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::op::gpu::before;

/// The entries of a block, and who holds them.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Threads, and entries of each, a power of two.
    pub threads: usize,
    pub each: usize,
    /// Entries of a run, a power of two. Runs are sorted apart.
    pub run: usize,
    /// Whether ranks take two words.
    pub is_wide: bool,
    /// Threads that exchange values without memory.
    pub plane: usize,
}

impl Block {
    /// Words of an entry.
    pub fn n_planes(self) -> usize {
        if self.is_wide { 3 } else { 2 }
    }

    /// The distance in shared memory between the entries of a thread. Two words more than threads avoid bank conflicts.
    fn pitch(self) -> usize {
        self.threads + 2
    }

    /// Words of an array of all entries.
    fn plane_words(self) -> usize {
        self.each * self.pitch()
    }

    /// Words of shared memory.
    pub fn n_words(self) -> usize {
        self.n_planes() * self.plane_words()
    }
}

/// The entries of a thread: ranks of one or two words, and indices.
#[derive(CubeType)]
pub struct Entries {
    pub high: Array<u32>,
    pub low: Array<u32>,
    pub index: Array<u32>,
}

#[cube]
impl Entries {
    /// Entries without a value.
    pub fn new(#[comptime] block: Block) -> Entries {
        Entries {
            high: Array::new(block.each),
            low: Array::new(comptime!(if block.is_wide { block.each } else { 1 })),
            index: Array::new(block.each),
        }
    }

    pub fn put(&mut self, own: usize, high: u32, low: u32, index: u32, #[comptime] block: Block) {
        self.high[own] = high;
        if comptime!(block.is_wide) {
            self.low[own] = low;
        }
        self.index[own] = index;
    }

    /// Puts an entry that comes behind those of all elements.
    pub fn put_last(&mut self, own: usize, #[comptime] block: Block) {
        let last = u32::new(comptime!(i64::from(u32::MAX)));
        self.put(own, last, last, last, block);
    }

    fn low_at(&self, own: usize, #[comptime] block: Block) -> u32 {
        if comptime!(block.is_wide) { self.low[own] } else { u32::new(0) }
    }

    /// Takes another entry in place of an own one, if it belongs there: the smaller one of both, or the larger one.
    fn keep(
        &mut self,
        own: usize,
        high: u32,
        low: u32,
        index: u32,
        is_smaller: bool,
        #[comptime] block: Block,
    ) {
        let own_low = self.low_at(own, block);
        let comes_first =
            before(high, low, index, self.high[own], own_low, self.index[own], comptime!(block.is_wide));
        let is_taken = comes_first == is_smaller;
        self.high[own] = select(is_taken, high, self.high[own]);
        if comptime!(block.is_wide) {
            self.low[own] = select(is_taken, low, own_low);
        }
        self.index[own] = select(is_taken, index, self.index[own]);
    }

    /// Puts the entries of this thread in shared memory, for [`first_at`] and its neighbours.
    pub fn share(&self, words: &mut SharedMemory<u32>, #[comptime] block: Block) {
        let unit = UNIT_POS_X as usize;
        #[unroll]
        for own in 0..comptime!(block.each) {
            let place = unit + comptime!(own * block.pitch());
            words[place] = self.high[own];
            if comptime!(block.is_wide) {
                words[place + comptime!(block.plane_words())] = self.low[own];
            }
            words[place + comptime!((block.n_planes() - 1) * block.plane_words())] = self.index[own];
        }
    }

    /// Sorts the runs of the block. All threads take part.
    pub fn sort(&mut self, words: &mut SharedMemory<u32>, #[comptime] block: Block) {
        let mut size = 2usize.runtime();
        while size <= comptime!(block.run) {
            let mut distance = size / 2usize;
            while distance >= comptime!(block.each * block.plane) {
                self.exchange_in_memory(words, distance, size, block);
                distance /= 2usize;
            }
            if comptime!(block.plane > 1) {
                while distance >= comptime!(block.each) {
                    self.exchange_in_plane(distance, size, block);
                    distance /= 2usize;
                }
            }
            self.exchange_own(distance, size, block);
            size *= 2usize;
        }
    }

    /// Exchanges entries of this thread from a distance on down to neighbours.
    fn exchange_own(&mut self, distance: usize, size: usize, #[comptime] block: Block) {
        #[unroll]
        for step in 0..comptime!(block.each.ilog2()) {
            let near = comptime!(block.each >> (step + 1));
            if near <= distance {
                #[unroll]
                for own in 0..comptime!(block.each) {
                    if comptime!(own & near == 0) {
                        let is_rising = is_rising(own, size, block);
                        self.exchange(own, comptime!(own + near), is_rising, block);
                    }
                }
            }
        }
    }

    /// Puts two entries of this thread in order, or in the opposite one.
    fn exchange(
        &mut self,
        #[comptime] first: usize,
        #[comptime] second: usize,
        is_rising: bool,
        #[comptime] block: Block,
    ) {
        let high = self.high[first];
        let low = self.low_at(comptime!(if block.is_wide { first } else { 0 }), block);
        let index = self.index[first];
        let other_low = self.low_at(comptime!(if block.is_wide { second } else { 0 }), block);
        self.keep(first, self.high[second], other_low, self.index[second], is_rising, block);
        self.keep(second, high, low, index, !is_rising, block);
    }

    /// Exchanges entries with a thread of this warp.
    fn exchange_in_plane(&mut self, distance: usize, size: usize, #[comptime] block: Block) {
        let unit = UNIT_POS_X as usize;
        let mask = distance / comptime!(block.each);
        let is_first = unit & mask == 0usize;
        #[unroll]
        for own in 0..comptime!(block.each) {
            let high = plane_shuffle_xor(self.high[own], mask as u32);
            let low = if comptime!(block.is_wide) {
                plane_shuffle_xor(self.low[own], mask as u32)
            } else {
                u32::new(0)
            };
            let index = plane_shuffle_xor(self.index[own], mask as u32);
            let is_smaller = is_rising(own, size, block) == is_first;
            self.keep(own, high, low, index, is_smaller, block);
        }
    }

    /// Exchanges entries with a thread of another warp.
    fn exchange_in_memory(
        &mut self,
        words: &mut SharedMemory<u32>,
        distance: usize,
        size: usize,
        #[comptime] block: Block,
    ) {
        self.share(words, block);
        sync_cube();
        let unit = UNIT_POS_X as usize;
        let mask = distance / comptime!(block.each);
        let is_first = unit & mask == 0usize;
        #[unroll]
        for own in 0..comptime!(block.each) {
            let place = (unit ^ mask) + comptime!(own * block.pitch());
            let low = if comptime!(block.is_wide) {
                words[place + comptime!(block.plane_words())]
            } else {
                u32::new(0)
            };
            let index = words[place + comptime!((block.n_planes() - 1) * block.plane_words())];
            let is_smaller = is_rising(own, size, block) == is_first;
            self.keep(own, words[place], low, index, is_smaller, block);
        }
        sync_cube();
    }
}

/// Whether an entry of this thread belongs to a part that rises. The last size leaves whole runs in order, so its direction
/// is the same for all.
#[cube]
fn is_rising(#[comptime] own: usize, size: usize, #[comptime] block: Block) -> bool {
    let place = UNIT_POS_X as usize * comptime!(block.each) + own;
    place & size & comptime!(block.run - 1) == 0usize
}

/// The first word of the entry at a place of the block's order, once all threads have shared theirs.
#[cube]
pub fn first_at(words: &SharedMemory<u32>, place: usize, #[comptime] block: Block) -> u32 {
    words[place_of(place, block)]
}

/// Its second word.
#[cube]
pub fn second_at(words: &SharedMemory<u32>, place: usize, #[comptime] block: Block) -> u32 {
    if comptime!(block.is_wide) {
        words[place_of(place, block) + comptime!(block.plane_words())]
    } else {
        u32::new(0)
    }
}

/// Its index.
#[cube]
pub fn index_at(words: &SharedMemory<u32>, place: usize, #[comptime] block: Block) -> u32 {
    words[place_of(place, block) + comptime!((block.n_planes() - 1) * block.plane_words())]
}

#[cube]
fn place_of(place: usize, #[comptime] block: Block) -> usize {
    let each = comptime!(block.each);
    place % each * comptime!(block.pitch()) + place / each
}

/// The place that an entry of this thread is loaded from. All places of a run stay in it, and neighbouring threads load
/// neighbours.
#[cube]
pub fn loaded_place(#[comptime] own: usize, #[comptime] block: Block) -> usize {
    let unit = UNIT_POS_X as usize;
    if comptime!(block.run >= block.each) {
        let lanes = comptime!(block.run / block.each);
        unit / lanes * comptime!(block.run) + comptime!(own * lanes) + unit % lanes
    } else {
        unit * comptime!(block.each) + own
    }
}
