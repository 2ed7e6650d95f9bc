//! Merging sorted runs on a GPU, a tile of the merged run per block (merge path, Green et al. 2012).
//!
//! A tile has as many entries as a block sorts. It is a part of each run, whose ranks shared memory holds. The place of an entry is its own place plus the number
//! of entries of the other part that come before it.

// The macro of the kernel language makes an undocumented module of each function.
#![allow(missing_docs)]

use crate::sort_entry::{Sort, write, write_none};
use engine_core::cubecl;
use engine_core::cubecl::prelude::*;

/// Merges runs pairwise, a tile per block.
#[cube]
pub fn merge_runs(from: &Array<u32>, to: &mut Array<u32>, n_rows: usize, run: usize, #[comptime] spec: Sort) {
    let n = comptime!(spec.n);
    let plane = n_rows * n;
    let row = CUBE_POS / comptime!(spec.n.div_ceil(spec.run));
    let start = CUBE_POS % comptime!(spec.n.div_ceil(spec.run)) * comptime!(spec.run);
    let mut words = SharedMemory::<u32>::new(comptime!(spec.run * (spec.n_planes() - 1)));
    let parts = tile_of(from, &mut words, row * n, start, plane, run, spec);
    let mut place = UNIT_POS_X as usize;
    while place < parts.count {
        let point = parts.point(place);
        let merged = row * n + start + parts.merged(&words, place, spec);
        to[merged] = from[point];
        to[merged + plane] = from[point + plane];
        if comptime!(spec.shape.is_wide) {
            to[merged + 2usize * plane] = from[point + 2usize * plane];
        }
        place += comptime!(spec.shape.threads);
    }
}

/// Merges the last two runs into the results, a tile per block.
#[cube]
pub fn merge_rows<T: Int>(
    from: &Array<u32>,
    values: &mut Array<T>,
    indices: &mut Array<u32>,
    first: usize,
    n_rows: usize,
    run: usize,
    #[comptime] spec: Sort,
) {
    let n = comptime!(spec.n);
    let count = comptime!(spec.count);
    let plane = n_rows * n;
    let row = CUBE_POS / comptime!(spec.n.max(spec.count).div_ceil(spec.run));
    let start = CUBE_POS % comptime!(spec.n.max(spec.count).div_ceil(spec.run)) * comptime!(spec.run);
    let to = (first + row) * count;
    let mut words = SharedMemory::<u32>::new(comptime!(spec.run * (spec.n_planes() - 1)));
    let parts = tile_of(from, &mut words, row * n, start, plane, run, spec);
    let mut place = UNIT_POS_X as usize;
    while place < comptime!(spec.run) {
        if place < parts.count {
            let merged = start + parts.merged(&words, place, spec);
            if merged < count {
                let point = parts.point(place);
                let low = if comptime!(spec.shape.is_wide) { from[point + plane] } else { u32::new(0) };
                let index = from[point + comptime!(spec.n_planes() - 1) * plane];
                write::<T>(values, indices, to + merged, from[point], low, index, spec);
            }
        } else if start + place < count {
            write_none::<T>(values, indices, to + start + place, spec);
        }
        place += comptime!(spec.shape.threads);
    }
}

/// The parts of two runs that make up a tile of the merged one.
#[derive(CubeType)]
struct Parts {
    /// Entries of the tile.
    count: usize,
    /// Entries of the earlier run.
    n_earlier: usize,
    /// Where the parts start in the workspace.
    earlier: usize,
    later: usize,
}

#[cube]
impl Parts {
    /// The entry at a place of the tile's memory, in the workspace.
    fn point(&self, place: usize) -> usize {
        select(place < self.n_earlier, self.earlier + place, self.later + place - self.n_earlier)
    }

    /// The place of an entry in the merged tile. Among equal elements, those of the earlier run come first.
    fn merged(&self, words: &SharedMemory<u32>, place: usize, #[comptime] spec: Sort) -> usize {
        let is_earlier = place < self.n_earlier;
        let high = words[place];
        let low =
            if comptime!(spec.shape.is_wide) { words[place + comptime!(spec.run)] } else { u32::new(0) };
        let start = select(is_earlier, self.n_earlier, 0usize);
        let mut least = start;
        let mut most = select(is_earlier, self.count, self.n_earlier);
        while least < most {
            let middle = (least + most) / 2usize;
            let other = words[middle];
            let other_low =
                if comptime!(spec.shape.is_wide) { words[middle + comptime!(spec.run)] } else { u32::new(0) };
            let is_equal = other == high && other_low == low;
            let is_lower = other < high || (other == high && other_low < low);
            if is_lower || (is_equal && !is_earlier) {
                least = middle + 1usize;
            } else {
                most = middle;
            }
        }
        let own = select(is_earlier, place, place - self.n_earlier);
        own + (least - start)
    }
}

/// Loads the ranks of a tile of the merged runs that begins at a column.
#[cube]
fn tile_of(
    from: &Array<u32>,
    words: &mut SharedMemory<u32>,
    row: usize,
    start: usize,
    plane: usize,
    run: usize,
    #[comptime] spec: Sort,
) -> Parts {
    let n = comptime!(spec.n);
    let begin = select(start < n, start, n);
    let earlier = begin / (2usize * run) * (2usize * run);
    let later = select(earlier + run < n, earlier + run, n);
    let end = select(later + run < n, later + run, n);
    let stop = select(begin + comptime!(spec.run) < end, begin + comptime!(spec.run), end);
    let ends =
        split(from, row + earlier, row + later, begin - earlier, stop - earlier, end - later, plane, spec);
    let earlier_begin = ends.0;
    let earlier_end = ends.1;
    let parts = Parts {
        count: stop - begin,
        n_earlier: earlier_end - earlier_begin,
        earlier: row + earlier + earlier_begin,
        later: row + later + (begin - earlier - earlier_begin),
    };
    let mut place = UNIT_POS_X as usize;
    while place < parts.count {
        let point = parts.point(place);
        words[place] = from[point];
        if comptime!(spec.shape.is_wide) {
            words[place + comptime!(spec.run)] = from[point + plane];
        }
        place += comptime!(spec.shape.threads);
    }
    sync_cube();
    parts
}

/// Entries of the earlier run among the first `begin` and the first `stop` of both. The later run has `n_later` entries,
/// and the earlier one ends where it begins. Both searches go on side by side, so their loads overlap.
#[cube]
fn split(
    from: &Array<u32>,
    earlier: usize,
    later: usize,
    begin: usize,
    stop: usize,
    n_later: usize,
    plane: usize,
    #[comptime] spec: Sort,
) -> (usize, usize) {
    let mut first_least = select(begin > n_later, begin - n_later, 0usize);
    let mut first_most = select(begin < later - earlier, begin, later - earlier);
    let mut last_least = select(stop > n_later, stop - n_later, 0usize);
    let mut last_most = select(stop < later - earlier, stop, later - earlier);
    while first_least < first_most || last_least < last_most {
        let first = (first_least + first_most) / 2usize;
        let last = (last_least + last_most) / 2usize;
        let is_first = first_least < first_most;
        let is_last = last_least < last_most;
        // A search that is done compares an entry with itself.
        let first_other = select(is_first, later + begin - first - 1usize, earlier);
        let last_other = select(is_last, later + stop - last - 1usize, earlier);
        let first_own = select(is_first, earlier + first, earlier);
        let last_own = select(is_last, earlier + last, earlier);
        let first_comes = is_lower(from, first_other, first_own, plane, spec);
        let last_comes = is_lower(from, last_other, last_own, plane, spec);
        first_most = select(is_first && first_comes, first, first_most);
        first_least = select(is_first && !first_comes, first + 1usize, first_least);
        last_most = select(is_last && last_comes, last, last_most);
        last_least = select(is_last && !last_comes, last + 1usize, last_least);
    }
    (first_least, last_least)
}

/// Whether the element of one entry of the workspace comes before that of another one.
#[cube]
fn is_lower(from: &Array<u32>, entry: usize, other: usize, plane: usize, #[comptime] spec: Sort) -> bool {
    let high = from[entry];
    let other_high = from[other];
    let is_lower = if comptime!(spec.shape.is_wide) {
        high == other_high && from[entry + plane] < from[other + plane]
    } else {
        false.runtime()
    };
    high < other_high || is_lower
}
