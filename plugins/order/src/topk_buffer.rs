//! The top-k buffer of a block: its entries, then its control words.

// The macro of the kernel language makes a module of each function, and leaves its documentation behind.
#![allow(missing_docs)]

use crate::rank_words::{Order, high_of};
use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::op::gpu::{Shape, before, put, put_last, sort};

/// The control word, after the two flags of the rounds, with the number of entries.
pub const COUNT: usize = 2;
/// The number of entries of the initial state.
pub const STORED: usize = 3;
/// Whether the entries of the initial state are loaded.
pub const LOADED: usize = 4;
/// The threshold that an entry must precede: first word, second word, index.
pub const THRESHOLD: usize = 5;
/// The first word of the threshold's element.
pub const BOUND: usize = 8;
pub const N_CONTROLS: usize = 9;

/// Starts with an empty state: every entry precedes the threshold.
#[cube]
pub fn start(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    if UNIT_POS_X == 0u32 {
        clear(words, counter, 0u32, order, shape);
    }
    sync_cube();
}

/// Starts from the state of the row, or from an empty one if `is_first` is not 0.
#[cube]
pub fn resume(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    states: &Array<u32>,
    first: usize,
    is_first: usize,
    #[comptime] k: usize,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    if UNIT_POS_X == 0u32 {
        if is_first == 0usize {
            let stored = states[first];
            clear(words, counter, stored, order, shape);
            if stored == comptime!(k as u32) {
                let high = states[first + comptime!(k)];
                let index = states[first + comptime!(if shape.is_wide { 3 * k } else { 2 * k })];
                let low =
                    if comptime!(shape.is_wide) { states[first + comptime!(2 * k)] } else { u32::new(0) };
                set_threshold(words, high, low, index, order, shape);
            }
        } else {
            clear(words, counter, 0u32, order, shape);
        }
    }
    sync_cube();
}

/// Starts a look at the first elements: no group of threads has any.
#[cube]
pub fn start_look(least: &mut SharedMemory<Atomic<u32>>, #[comptime] n_groups: usize) {
    if UNIT_POS_X < comptime!(n_groups as u32) {
        let last = u32::new(comptime!(i64::from(u32::MAX)));
        least[UNIT_POS_X as usize].store(last);
    }
}

/// Keeps the least rank of the thread's group.
#[cube]
pub fn look(
    least: &mut SharedMemory<Atomic<u32>>,
    rank: u32,
    #[comptime] n_groups: usize,
    #[comptime] shape: Shape,
) {
    let group = UNIT_POS_X / comptime!((shape.threads / n_groups) as u32);
    least[group as usize].fetch_min(rank);
}

/// Sets the threshold right behind the k-th of the groups' least ranks: k elements at least come before it.
#[cube]
pub fn end_look(
    words: &mut SharedMemory<u32>,
    least: &mut SharedMemory<Atomic<u32>>,
    #[comptime] k: usize,
    #[comptime] n_groups: usize,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    sync_cube();
    if UNIT_POS_X < comptime!(n_groups as u32) {
        let own = least[UNIT_POS_X as usize].load();
        let mut n_before = 0u32;
        let mut group = 0usize.runtime();
        while group < n_groups {
            let other = least[group].load();
            if other < own || (other == own && (group as u32) < UNIT_POS_X) {
                n_before += 1u32;
            }
            group += 1usize;
        }
        if n_before == comptime!(k as u32 - 1) && own < u32::new(comptime!(i64::from(u32::MAX - 1))) {
            set_threshold(words, own + 1u32, 0u32, 0u32, order, shape);
        }
    }
    sync_cube();
}

#[cube]
fn clear(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    stored: u32,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    let control = comptime!(shape.n_words());
    let last = u32::new(comptime!(i64::from(u32::MAX)));
    counter[0].store(stored);
    words[comptime!(control)] = 0u32;
    words[comptime!(control + 1)] = 0u32;
    words[comptime!(control + COUNT)] = stored;
    words[comptime!(control + STORED)] = stored;
    words[comptime!(control + LOADED)] = 0u32;
    set_threshold(words, last, last, last, order, shape);
}

/// Sets the threshold.
#[cube]
pub fn set_threshold(
    words: &mut SharedMemory<u32>,
    high: u32,
    low: u32,
    index: u32,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    let control = comptime!(shape.n_words());
    words[comptime!(control + THRESHOLD)] = high;
    words[comptime!(control + THRESHOLD + 1)] = low;
    words[comptime!(control + THRESHOLD + 2)] = index;
    words[comptime!(control + BOUND)] = high_of(high, order);
}

/// Adds an entry if it precedes the threshold.
#[cube]
pub fn offer(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    flag: usize,
    high: u32,
    low: u32,
    index: u32,
    #[comptime] shape: Shape,
) {
    let control = comptime!(shape.n_words());
    let worst_high = words[comptime!(control + THRESHOLD)];
    let worst_low = words[comptime!(control + THRESHOLD + 1)];
    let worst_index = words[comptime!(control + THRESHOLD + 2)];
    if before(high, low, index, worst_high, worst_low, worst_index, comptime!(shape.is_wide)) {
        let place = counter[0].fetch_add(1u32);
        put(words, place as usize, high, low, index, shape);
        words[flag + control] = 1u32;
    }
}

/// Publishes the number of entries to all threads.
#[cube]
pub fn count(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    #[comptime] shape: Shape,
) {
    if UNIT_POS_X == 0u32 {
        words[comptime!(shape.n_words() + COUNT)] = counter[0].load();
    }
    sync_cube();
}

/// Clears a flag; the next round raises the other one.
#[cube]
pub fn clear_flag(words: &mut SharedMemory<u32>, flag: usize) {
    if UNIT_POS_X == 0u32 {
        words[flag] = 0u32;
    }
}

/// Loads the entries of the initial state, unless they are loaded.
#[cube]
pub fn load(
    words: &mut SharedMemory<u32>,
    states: &Array<u32>,
    first: usize,
    #[comptime] k: usize,
    #[comptime] shape: Shape,
) {
    let control = comptime!(shape.n_words());
    if words[comptime!(control + LOADED)] == 0u32 {
        let stored = words[comptime!(control + STORED)] as usize;
        let mut place = UNIT_POS_X as usize;
        while place < stored {
            let word = first + 1usize + place;
            words[place] = states[word];
            words[place + comptime!(shape.capacity)] = states[word + comptime!(k)];
            if comptime!(shape.is_wide) {
                words[place + comptime!(shape.indices())] = states[word + comptime!(2 * k)];
            }
            place += comptime!(shape.threads);
        }
    }
}

/// Sorts all entries and keeps the best k; the last of these becomes the threshold.
#[cube]
pub fn sort_and_trim(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    #[comptime] k: usize,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    let control = comptime!(shape.n_words());
    let count = words[comptime!(control + COUNT)] as usize;
    let mut n = 2usize.runtime();
    while n < count {
        n *= 2usize;
    }
    let mut place = count + UNIT_POS_X as usize;
    while place < n {
        put_last(words, place, shape);
        place += comptime!(shape.threads);
    }
    sync_cube();
    sort(words, n, n, shape);
    if UNIT_POS_X == 0u32 {
        if count >= comptime!(k) {
            let low =
                if comptime!(shape.is_wide) { words[comptime!(shape.capacity + k - 1)] } else { u32::new(0) };
            let high = words[comptime!(k - 1)];
            let index = words[comptime!(shape.indices() + k - 1)];
            set_threshold(words, high, low, index, order, shape);
            words[comptime!(control + COUNT)] = comptime!(k as u32);
            counter[0].store(comptime!(k as u32));
        }
        words[comptime!(control + LOADED)] = 1u32;
    }
    sync_cube();
}

/// Writes the entries to the state in memory.
#[cube]
pub fn save(
    words: &mut SharedMemory<u32>,
    states: &mut Array<u32>,
    first: usize,
    #[comptime] k: usize,
    #[comptime] shape: Shape,
) {
    let n_entries = words[comptime!(shape.n_words() + COUNT)];
    let mut place = UNIT_POS_X as usize;
    if place == 0usize {
        states[first] = n_entries;
    }
    while place < n_entries as usize {
        let word = first + 1usize + place;
        states[word] = words[place];
        states[word + comptime!(k)] = words[place + comptime!(shape.capacity)];
        if comptime!(shape.is_wide) {
            states[word + comptime!(2 * k)] = words[place + comptime!(shape.indices())];
        }
        place += comptime!(shape.threads);
    }
}
