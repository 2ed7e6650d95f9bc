//! The trim of a top-k buffer: it drops entries that cannot be among the first k, without a sort.
//!
//! A histogram of the ranks shows the bin of the k-th entry, and finer histograms of that bin follow until it has few entries.
//! The upper edge of the bin is the new threshold. If equal ranks fill the bin, only a sort can tell which entries stay.

// The macro of the kernel language makes a module of each function, and leaves its documentation behind.
#![allow(missing_docs)]

use crate::rank_words::Order;
use crate::topk_buffer::{COUNT, LOADED, N_CONTROLS, set_threshold, sort_and_trim};
use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::op::gpu::{Shape, put};

/// Bits of a rank that a histogram tells apart.
const BIN_BITS: u32 = 10;
/// Bins of a histogram.
pub const BINS: usize = 1 << BIN_BITS;
/// Words behind the sums of the threads: the bin, the entries before it, and the entries up to its end.
const N_FOUND: usize = 3;

/// Words of shared memory, behind the control words.
pub fn n_words(threads: usize) -> usize {
    threads + N_FOUND
}

/// The place of the sum of the first thread.
fn sums(shape: Shape) -> usize {
    shape.n_words() + N_CONTROLS
}

/// The place of what a histogram has found.
fn found(shape: Shape) -> usize {
    sums(shape) + shape.threads
}

/// The shift of the first histogram, whose bins cover all ranks.
fn first_shift(order: Order) -> i64 {
    let n_bits = (8 * order.dtype.size() as u32).min(u32::BITS);
    i64::from(n_bits.saturating_sub(BIN_BITS))
}

/// The most entries after a trim that is worth the time.
fn most_kept(k: usize, trigger: usize) -> u32 {
    (k + (trigger - k) / 4) as u32
}

/// Drops entries until few more than k are left. The count of entries is published.
#[cube]
pub fn trim(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    bins: &mut SharedMemory<Atomic<u32>>,
    #[comptime] k: usize,
    #[comptime] trigger: usize,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    let most = u32::new(comptime!(i64::from(most_kept(k, trigger))));
    let mut first = 0u32.runtime();
    let mut shift = u32::new(comptime!(first_shift(order)));
    let mut n_before = 0u32.runtime();
    let mut n_kept = narrow(words, bins, first, shift, n_before, k, shape);
    let mut is_done = n_kept <= most || shift == 0u32;
    while !is_done {
        n_before = words[comptime!(found(shape) + 1)];
        first += words[comptime!(found(shape))] << shift;
        let finer = u32::new(comptime!(i64::from(BIN_BITS)));
        shift = select(shift > finer, shift - finer, u32::new(0));
        n_kept = narrow(words, bins, first, shift, n_before, k, shape);
        is_done = n_kept <= most || shift == 0u32;
    }
    // The edge of the last bin of all is 0: no rank is at or above it.
    let edge = first + ((words[comptime!(found(shape))] + 1u32) << shift);
    if n_kept <= most && edge != 0u32 {
        keep(words, counter, edge, n_kept, order, shape);
    } else {
        sort_and_trim(words, counter, k, order, shape);
    }
}

/// Counts the entries of each bin from `first` on, and finds that of the k-th entry, given the entries before the first bin.
/// Returns the number of entries up to its end.
#[cube]
fn narrow(
    words: &mut SharedMemory<u32>,
    bins: &mut SharedMemory<Atomic<u32>>,
    first: u32,
    shift: u32,
    n_before: u32,
    #[comptime] k: usize,
    #[comptime] shape: Shape,
) -> u32 {
    let unit = UNIT_POS_X as usize;
    let each = comptime!(BINS / shape.threads);
    #[unroll]
    for bin in 0..each {
        bins[unit + comptime!(bin * shape.threads)].store(0u32);
    }
    sync_cube();
    let count = words[comptime!(shape.n_words() + COUNT)] as usize;
    let mut place = unit;
    while place < count {
        let rank = words[place];
        let bin = (rank - first) >> shift;
        if rank >= first && bin < comptime!(BINS as u32) {
            bins[bin as usize].fetch_add(1u32);
        }
        place += comptime!(shape.threads);
    }
    sync_cube();
    let mut own = 0u32.runtime();
    #[unroll]
    for bin in 0..each {
        own += bins[unit * each + bin].load();
    }
    let n_above = n_before + prefix(words, own, shape);
    // The thread whose bins hold the k-th entry looks for it.
    let wanted = comptime!(k as u32);
    if n_above < wanted && wanted <= n_above + own {
        let mut n = n_above;
        let mut bin = unit * each;
        let mut here = bins[bin].load();
        while n + here < wanted {
            n += here;
            bin += 1usize;
            here = bins[bin].load();
        }
        words[comptime!(found(shape))] = bin as u32;
        words[comptime!(found(shape) + 1)] = n;
        words[comptime!(found(shape) + 2)] = n + here;
    }
    sync_cube();
    words[comptime!(found(shape) + 2)]
}

/// The sum of the values of all threads before this one (W. D. Hillis and G. L. Steele, 1986).
#[cube]
fn prefix(words: &mut SharedMemory<u32>, own: u32, #[comptime] shape: Shape) -> u32 {
    let unit = UNIT_POS_X as usize;
    let place = unit + comptime!(sums(shape));
    words[place] = own;
    sync_cube();
    let mut distance = 1usize.runtime();
    while distance < comptime!(shape.threads) {
        let is_behind = unit >= distance;
        let before = words[select(is_behind, place - distance, place)];
        let sum = words[place] + select(is_behind, before, u32::new(0));
        sync_cube();
        words[place] = sum;
        sync_cube();
        distance *= 2usize;
    }
    words[place] - own
}

/// Keeps the entries whose rank is below `edge`.
#[cube]
fn keep(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    edge: u32,
    n_kept: u32,
    #[comptime] order: Order,
    #[comptime] shape: Shape,
) {
    let unit = UNIT_POS_X as usize;
    let control = comptime!(shape.n_words());
    let count = words[comptime!(control + COUNT)] as usize;
    if unit == 0usize {
        counter[0].store(0u32);
    }
    let mut start = 0usize.runtime();
    while start < count {
        let place = start + unit;
        let is_there = place < count;
        let from = select(is_there, place, 0usize);
        let high = words[from];
        let low =
            if comptime!(shape.is_wide) { words[from + comptime!(shape.capacity)] } else { u32::new(0) };
        let index = words[from + comptime!(shape.indices())];
        // All entries that this round may overwrite have been read.
        sync_cube();
        if is_there && high < edge {
            let to = counter[0].fetch_add(1u32);
            put(words, to as usize, high, low, index, shape);
        }
        start += comptime!(shape.threads);
    }
    if unit == 0usize {
        words[comptime!(control + COUNT)] = n_kept;
        words[comptime!(control + LOADED)] = 1u32;
        set_threshold(words, edge, 0u32, 0u32, order, shape);
    }
    sync_cube();
}
