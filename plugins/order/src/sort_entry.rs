//! What the kernels of a sort share: its parameters, and how elements become entries and back.

// The macro of the kernel language makes an undocumented module of each function.
#![allow(missing_docs)]

use crate::rank_words::{Order, high_of, high_rank, low_of, low_rank};
use crate::sort_block::{Block, Entries};
use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::op::gpu::Shape;

/// The parameters of a sort. The first `count` of each row are written. In a shorter row, the rest is the number that
/// comes last and the index -1.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    /// What comes first.
    pub order: Order,
    /// Elements of a row, and those that are written.
    pub n: usize,
    pub count: usize,
    /// The entries of a block.
    pub shape: Shape,
    /// Bytes of the integers that represent elements.
    pub size: usize,
    /// Threads of a warp.
    pub plane: usize,
    /// Entries per run, a power of two.
    pub run: usize,
}

impl Sort {
    /// The entries of a block.
    pub fn block(self) -> Block {
        let Shape { capacity, is_wide, threads } = self.shape;
        Block { threads, each: capacity / threads, run: self.run, is_wide, plane: self.plane }
    }

    /// Words of an entry in the workspace.
    pub fn n_planes(self) -> usize {
        if self.shape.is_wide { 3 } else { 2 }
    }

    /// Runs of a row.
    pub fn n_runs(self) -> usize {
        self.n.div_ceil(self.run)
    }
}

/// Loads an element into an entry of this thread; an entry without an element comes last.
#[cube]
pub fn fetch<T: Int>(
    entries: &mut Entries,
    #[comptime] own: usize,
    x: &Array<T>,
    point: usize,
    index: usize,
    is_element: bool,
    #[comptime] spec: Sort,
) {
    let order = comptime!(spec.order);
    let is_wide = comptime!(spec.shape.is_wide);
    let block = comptime!(spec.block());
    entries.put_last(own, block);
    if is_element {
        let low = if comptime!(is_wide) { u32::cast_from(x[2usize * point]) } else { u32::new(0) };
        let high = if comptime!(is_wide) {
            u32::cast_from(x[2usize * point + 1usize])
        } else {
            u32::cast_from(x[point])
        };
        let first = high_rank(high, low, order);
        entries.put(own, first, low_rank(high, low, order), index as u32, block);
    }
}

/// Writes the element of an entry, and its index.
#[cube]
pub fn write<T: Int>(
    values: &mut Array<T>,
    indices: &mut Array<u32>,
    to: usize,
    high: u32,
    low: u32,
    index: u32,
    #[comptime] spec: Sort,
) {
    let order = comptime!(spec.order);
    if comptime!(spec.shape.is_wide) {
        values[2usize * to] = T::cast_from(low_of(high, low, order));
        values[2usize * to + 1usize] = T::cast_from(high_of(high, order));
    } else {
        values[to] = T::cast_from(high_of(high, order));
    }
    indices[to] = index;
}

/// Writes the values for a missing element.
#[cube]
pub fn write_none<T: Int>(
    values: &mut Array<T>,
    indices: &mut Array<u32>,
    to: usize,
    #[comptime] spec: Sort,
) {
    let last = comptime!(spec.order.last());
    if comptime!(spec.shape.is_wide) {
        values[2usize * to] = T::cast_from(u32::new(comptime!(last[1] as i64)));
        values[2usize * to + 1usize] = T::cast_from(u32::new(comptime!(last[0] as i64)));
    } else {
        values[to] = T::cast_from(u32::new(comptime!(last[0] as i64)));
    }
    indices[to] = u32::new(comptime!(i64::from(u32::MAX)));
}
