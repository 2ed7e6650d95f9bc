//! The order of elements, and ranks, which compare as elements are ordered.
//!
//! A rank is one word, or two for types of 64 bits, and is smaller where its element comes first.

// The macro of the kernel language makes a module of each function, and leaves its documentation behind.
#![allow(missing_docs)]

use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::ir::DType;

/// How elements are ordered. -0 and 0 are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Their type.
    pub dtype: DType,
    /// Whether the largest number comes first.
    pub is_descending: bool,
    /// Whether NaN comes before all numbers. If not, it comes last.
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
        if self.dtype.is_signed_int() { self.sign() } else { 0 }
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

    /// The first word of the rank of NaN, which no number has.
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
        // A register may hold more bits than the element: its sign repeated.
        high_bits(high, order) ^ comptime!(order.flip())
    };
    let ordered = if comptime!(order.is_descending) { ascending ^ mask } else { ascending };
    if comptime!(order.dtype.is_float()) {
        select(is_nan(high, low, order), u32::new(comptime!(order.nan_rank() as i64)), ordered)
    } else {
        ordered
    }
}

/// The bits of an integer that the rank has.
#[cube]
fn high_bits(high: u32, #[comptime] order: Order) -> u32 {
    if comptime!(order.flip() != 0 && order.mask() != u32::MAX) {
        high & comptime!(order.mask())
    } else {
        high
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
        select(is_nan(high, low, order), u32::new(comptime!(i64::from(u32::MAX))), ordered)
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
