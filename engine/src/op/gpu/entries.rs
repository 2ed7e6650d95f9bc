//! Entries, and how the threads of a block put them in order.
//!
//! An entry is the rank of an element, a number that is smaller where the element comes first, and its index, which
//! decides among equals: so no two entries are equal, and any sort is a stable one. Ranks are one word, or two for types of
//! 64 bits. A block keeps entries in shared memory, first words, second words and indices apart.

// The macro of the kernel language makes a module of each function, and leaves its documentation behind.
#![allow(missing_docs)]

use crate::ir::DType;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;

/// How elements are ordered. -0 and 0 are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Their type.
    pub dtype: DType,
    /// Whether the largest number comes first.
    pub is_descending: bool,
    /// Whether NaN comes before all numbers rather than behind them.
    pub is_nan_first: bool,
}

impl Order {
    /// Whether ranks take two words.
    pub fn is_wide(self) -> bool {
        self.dtype.size() == 8
    }

    /// The bits that the first word of a rank has.
    fn mask(self) -> u32 {
        u32::MAX >> (32 - (8 * self.dtype.size() as u32).min(32))
    }

    fn sign(self) -> u32 {
        self.mask() ^ (self.mask() >> 1)
    }

    /// What makes integers compare as their bits do.
    fn flip(self) -> u32 {
        if matches!(self.dtype, DType::I32 | DType::I64) { self.sign() } else { 0 }
    }

    /// The bits of infinity, of which only the first word has any.
    fn infinity(self) -> u32 {
        match self.dtype {
            DType::F16 => 0x7c00,
            DType::BF16 => 0x7f80,
            DType::F32 => 0x7f80_0000,
            DType::F64 => 0x7ff0_0000,
            _ => 0,
        }
    }

    /// The bits of NaN: infinity and the highest bit behind it.
    fn nan(self) -> u32 {
        let fraction = self.infinity() & self.infinity().wrapping_neg();
        self.infinity() | (fraction >> 1)
    }

    fn nan_rank(self) -> u32 {
        if self.is_nan_first { 0 } else { self.mask() }
    }

    /// The words of what stands where there is no element: the number that comes last.
    pub fn last(self) -> [u32; 2] {
        if self.dtype.is_float() {
            let sign = if self.is_descending { self.sign() } else { 0 };
            return [sign | self.infinity(), 0];
        }
        let last = if self.is_descending { 0 } else { u32::MAX };
        [(last & self.mask()) ^ self.flip(), last]
    }
}

/// The first word of the rank of an element, of which `high` is the only word or the higher one.
#[cube]
pub fn high_rank(high: u32, low: u32, #[comptime] order: Order) -> u32 {
    let mask = comptime!(order.mask());
    let ascending = if comptime!(order.dtype.is_float()) {
        let sign = comptime!(order.sign());
        let is_positive = (high & sign) == 0u32 || is_zero(high, low, order);
        // Flips the sign of what is positive and all bits of what is negative: then bits compare as numbers do.
        select(is_positive, high | sign, high ^ mask)
    } else {
        high ^ comptime!(order.flip())
    };
    let ordered = if comptime!(order.is_descending) { ascending ^ mask } else { ascending };
    if comptime!(order.dtype.is_float()) {
        select(is_nan(high, low, order), u32::new(comptime!(order.nan_rank() as i64)), ordered)
    } else {
        ordered
    }
}

/// The second word of the rank of an element of 64 bits.
#[cube]
pub fn low_rank(high: u32, low: u32, #[comptime] order: Order) -> u32 {
    let all = comptime!(u32::MAX);
    if comptime!(!order.is_wide()) {
        u32::new(0)
    } else if comptime!(order.dtype.is_float()) {
        let sign = comptime!(order.sign());
        let is_positive = (high & sign) == 0u32 || is_zero(high, low, order);
        let ascending = select(is_positive, low, low ^ all);
        let ordered = if comptime!(order.is_descending) { ascending ^ all } else { ascending };
        select(
            is_nan(high, low, order),
            u32::new(comptime!(if order.is_nan_first { 0i64 } else { i64::from(u32::MAX) })),
            ordered,
        )
    } else if comptime!(order.is_descending) {
        low ^ all
    } else {
        low
    }
}

/// The only word, or the higher one, of the element of a rank.
#[cube]
pub fn high_of(high: u32, #[comptime] order: Order) -> u32 {
    let mask = comptime!(order.mask());
    let ascending = if comptime!(order.is_descending) { high ^ mask } else { high };
    if comptime!(order.dtype.is_float()) {
        let sign = comptime!(order.sign());
        let number = select((ascending & sign) == 0u32, ascending ^ mask, ascending ^ sign);
        let is_nan = high == comptime!(order.nan_rank());
        select(is_nan, u32::new(comptime!(order.nan() as i64)), number)
    } else {
        ascending ^ comptime!(order.flip())
    }
}

/// The lower word of the element of a rank of two words.
#[cube]
pub fn low_of(high: u32, low: u32, #[comptime] order: Order) -> u32 {
    let all = comptime!(u32::MAX);
    let ascending = if comptime!(order.is_descending) { low ^ all } else { low };
    if comptime!(order.dtype.is_float()) {
        let ascending_high = if comptime!(order.is_descending) { high ^ all } else { high };
        let is_negative = (ascending_high & comptime!(order.sign())) == 0u32;
        let number = select(is_negative, ascending ^ all, ascending);
        select(high == comptime!(order.nan_rank()), u32::new(0), number)
    } else {
        ascending
    }
}

#[cube]
fn is_nan(high: u32, low: u32, #[comptime] order: Order) -> bool {
    let magnitude = high & comptime!(order.sign() - 1);
    let infinity = comptime!(order.infinity());
    if comptime!(order.is_wide()) {
        magnitude > infinity || (magnitude == infinity && low != 0u32)
    } else {
        magnitude > infinity
    }
}

#[cube]
fn is_zero(high: u32, low: u32, #[comptime] order: Order) -> bool {
    let magnitude = high & comptime!(order.sign() - 1);
    if comptime!(order.is_wide()) { (magnitude | low) == 0u32 } else { magnitude == 0u32 }
}

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
