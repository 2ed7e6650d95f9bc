//! Sorting rows on a GPU.
//!
//! A row that fits into shared memory is sorted there. A block sorts several short rows. A longer row is cut into runs
//! that fit, and sorted runs are merged pairwise. The place of an entry is its own place plus the number of entries of
//! the other run that come before it.

use crate::axis::dtype;
use crate::rank_words::{Order, high_of, high_rank, low_of, low_rank};
use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::KernelCall;
use engine_core::op::gpu::{
    CubeBody, GpuArgument, GpuKernel, GpuLaunch, Shape, View, WORKSPACE_ALIGNMENT, put, put_last, sort,
};
use std::sync::Arc;

/// Entries per block, and its threads.
const CAPACITY: usize = 4096;
const WIDE_CAPACITY: usize = 2048;
const SHORT_CAPACITY: usize = 1024;
const THREADS: usize = 256;
/// Entries in the workspace: enough to keep a device busy, and few enough for its cache.
const ENTRIES: usize = 1 << 22;

/// The parameters of a sort. The first `count` of each row are written. In a shorter row, the rest is the number that
/// comes last and the index -1.
#[derive(Clone, Copy, Debug)]
struct Sort {
    order: Order,
    n: usize,
    count: usize,
    shape: Shape,
    /// Bytes of the integers that represent elements.
    size: usize,
    /// Entries per run, a power of two.
    run: usize,
}

/// The launches that sort the rows of a call's operand and write the first `count` of each, with their indices.
pub fn sorted(call: &KernelCall, is_descending: bool, count: usize, device: &DeviceModel) -> GpuKernel {
    let (n_rows, n) = call.rows();
    let order = Order { dtype: dtype(call), is_descending };
    let is_wide = order.is_wide();
    let longest = if is_wide { WIDE_CAPACITY } else { CAPACITY };
    let longest = fitting(longest, if is_wide { 12 } else { 8 }, device);
    let run = n.max(count).next_power_of_two().clamp(2, longest);
    let threads = THREADS.min(device.most_threads);
    let shape = Shape { capacity: run.max(SHORT_CAPACITY), is_wide, threads };
    let sort = Sort { order, n, count, shape, size: device.bits_size(order.dtype), run };
    if n.max(count) <= run { sort.whole_rows(n_rows) } else { sort.long_rows(n_rows) }
}

/// The maximum number of entries of `bytes` bytes that fit into a block's shared memory with its other variables. It is
/// `longest`, or a half, a quarter … of it.
fn fitting(longest: usize, bytes: usize, device: &DeviceModel) -> usize {
    let mut longest = longest;
    while longest > SHORT_CAPACITY && longest * bytes + 1024 > device.shared_bytes {
        longest /= 2;
    }
    longest
}

const INPUT: GpuArgument = GpuArgument::Input(0, View::Bits);
const RESULTS: [GpuArgument; 2] = [GpuArgument::Output(0, View::Bits), GpuArgument::Output(1, View::Bits)];

impl Sort {
    fn whole_rows(self, n_rows: usize) -> GpuKernel {
        let rows = self.shape.capacity / self.run;
        let body: CubeBody = Arc::new(move |scope, given| {
            let n_rows = given.scalar(0);
            match self.size {
                1 => sort_rows::expand::<u8>(
                    scope,
                    given.array(0),
                    given.array(1),
                    given.array(2),
                    n_rows,
                    self,
                ),
                2 => sort_rows::expand::<u16>(
                    scope,
                    given.array(0),
                    given.array(1),
                    given.array(2),
                    n_rows,
                    self,
                ),
                _ => sort_rows::expand::<u32>(
                    scope,
                    given.array(0),
                    given.array(1),
                    given.array(2),
                    n_rows,
                    self,
                ),
            }
        });
        let launch = GpuLaunch {
            name: "sort_rows",
            cubes: n_rows.div_ceil(rows),
            threads: self.shape.threads,
            arguments: [INPUT].into_iter().chain(RESULTS).collect(),
            scalars: vec![n_rows],
            body,
        };
        GpuKernel { workspace_bytes: 0, launches: vec![launch] }
    }

    /// Rows in groups that fit into the workspace: runs first, then merges from one half of the workspace to the other.
    fn long_rows(self, n_rows: usize) -> GpuKernel {
        let group = (ENTRIES / self.n).clamp(1, n_rows.max(1));
        let n_words = group * self.n * self.n_planes();
        let half = |number: usize| GpuArgument::Workspace {
            start: number * (4 * n_words).next_multiple_of(WORKSPACE_ALIGNMENT),
            n_elements: n_words,
            dtype: DType::U32,
        };
        let mut launches = vec![];
        for first in (0..n_rows).step_by(group) {
            let n_rows = group.min(n_rows - first);
            launches.push(self.runs(first, n_rows, half(0)));
            let (mut run, mut from) = (self.run, 0);
            while 2 * run < self.n {
                launches.push(self.merge(n_rows, run, [half(from), half(1 - from)]));
                (run, from) = (2 * run, 1 - from);
            }
            launches.push(self.last_merge(first, n_rows, run, half(from)));
        }
        GpuKernel { workspace_bytes: 2 * (4 * n_words).next_multiple_of(WORKSPACE_ALIGNMENT), launches }
    }

    fn n_planes(self) -> usize {
        if self.shape.is_wide { 3 } else { 2 }
    }

    fn n_runs(self) -> usize {
        self.n.div_ceil(self.run)
    }

    fn runs(self, first: usize, n_rows: usize, to: GpuArgument) -> GpuLaunch {
        let body: CubeBody = Arc::new(move |scope, given| {
            let [first, n_rows] = [given.scalar(0), given.scalar(1)];
            match self.size {
                1 => sort_runs::expand::<u8>(scope, given.array(0), given.array(1), first, n_rows, self),
                2 => sort_runs::expand::<u16>(scope, given.array(0), given.array(1), first, n_rows, self),
                _ => sort_runs::expand::<u32>(scope, given.array(0), given.array(1), first, n_rows, self),
            }
        });
        GpuLaunch {
            name: "sort_runs",
            cubes: n_rows * self.n_runs(),
            threads: self.shape.threads,
            arguments: vec![INPUT, to],
            scalars: vec![first, n_rows],
            body,
        }
    }

    fn merge(self, n_rows: usize, run: usize, [from, to]: [GpuArgument; 2]) -> GpuLaunch {
        let body: CubeBody = Arc::new(move |scope, given| {
            let [n_rows, run] = [given.scalar(0), given.scalar(1)];
            merge_runs::expand(scope, given.array(0), given.array(1), n_rows, run, self);
        });
        GpuLaunch {
            name: "merge_runs",
            cubes: (n_rows * self.n).div_ceil(self.shape.threads),
            threads: self.shape.threads,
            arguments: vec![from, to],
            scalars: vec![n_rows, run],
            body,
        }
    }

    fn last_merge(self, first: usize, n_rows: usize, run: usize, from: GpuArgument) -> GpuLaunch {
        let body: CubeBody = Arc::new(move |scope, given| {
            let [first, n_rows, run] = [0, 1, 2].map(|number| given.scalar(number));
            match self.size {
                1 => merge_rows::expand::<u8>(
                    scope,
                    given.array(0),
                    given.array(1),
                    given.array(2),
                    first,
                    n_rows,
                    run,
                    self,
                ),
                2 => merge_rows::expand::<u16>(
                    scope,
                    given.array(0),
                    given.array(1),
                    given.array(2),
                    first,
                    n_rows,
                    run,
                    self,
                ),
                _ => merge_rows::expand::<u32>(
                    scope,
                    given.array(0),
                    given.array(1),
                    given.array(2),
                    first,
                    n_rows,
                    run,
                    self,
                ),
            }
        });
        GpuLaunch {
            name: "merge_rows",
            cubes: (n_rows * self.n.max(self.count)).div_ceil(self.shape.threads),
            threads: self.shape.threads,
            arguments: [from].into_iter().chain(RESULTS).collect(),
            scalars: vec![first, n_rows, run],
            body,
        }
    }
}

/// Sorts whole rows. A block sorts several short rows.
#[cube]
fn sort_rows<T: Int>(
    x: &Array<T>,
    values: &mut Array<T>,
    indices: &mut Array<u32>,
    n_rows: usize,
    #[comptime] spec: Sort,
) {
    let run = comptime!(spec.run);
    let n = comptime!(spec.n);
    let count = comptime!(spec.count);
    let capacity = comptime!(spec.shape.capacity);
    let first = CUBE_POS * comptime!(spec.shape.capacity / spec.run);
    let mut words = SharedMemory::<u32>::new(comptime!(spec.shape.n_words()));
    let mut place = UNIT_POS_X as usize;
    while place < capacity {
        let row = first + place / run;
        let column = place % run;
        if row < n_rows && column < n {
            fetch::<T>(&mut words, place, x, row * n + column, column, spec);
        } else {
            put_last(&mut words, place, comptime!(spec.shape));
        }
        place += comptime!(spec.shape.threads);
    }
    sync_cube();
    sort(&mut words, capacity.runtime(), run.runtime(), comptime!(spec.shape));
    let mut place = UNIT_POS_X as usize;
    while place < capacity {
        let row = first + place / run;
        let column = place % run;
        if row < n_rows && column < count {
            let to = row * count + column;
            if column < n {
                let low = if comptime!(spec.shape.is_wide) { words[place + capacity] } else { u32::new(0) };
                let index = words[place + comptime!(spec.shape.indices())];
                write::<T>(values, indices, to, words[place], low, index, spec);
            } else {
                write_none::<T>(values, indices, to, spec);
            }
        }
        place += comptime!(spec.shape.threads);
    }
}

/// Sorts one run of a row per block, into the workspace.
#[cube]
fn sort_runs<T: Int>(
    x: &Array<T>,
    entries: &mut Array<u32>,
    first: usize,
    n_rows: usize,
    #[comptime] spec: Sort,
) {
    let run = comptime!(spec.run);
    let n = comptime!(spec.n);
    let row = CUBE_POS / comptime!(spec.n_runs());
    let start = CUBE_POS % comptime!(spec.n_runs()) * run;
    let mut words = SharedMemory::<u32>::new(comptime!(spec.shape.n_words()));
    let mut place = UNIT_POS_X as usize;
    while place < run {
        let column = start + place;
        if column < n {
            fetch::<T>(&mut words, place, x, (first + row) * n + column, column, spec);
        } else {
            put_last(&mut words, place, comptime!(spec.shape));
        }
        place += comptime!(spec.shape.threads);
    }
    sync_cube();
    sort(&mut words, run.runtime(), run.runtime(), comptime!(spec.shape));
    let plane = n_rows * n;
    let mut place = UNIT_POS_X as usize;
    while place < run {
        let column = start + place;
        if column < n {
            let to = row * n + column;
            entries[to] = words[place];
            entries[to + plane] = words[place + comptime!(spec.shape.capacity)];
            if comptime!(spec.shape.is_wide) {
                entries[to + 2usize * plane] = words[place + comptime!(spec.shape.indices())];
            }
        }
        place += comptime!(spec.shape.threads);
    }
}

/// Merges runs pairwise, one entry per thread.
#[cube]
fn merge_runs(from: &Array<u32>, to: &mut Array<u32>, n_rows: usize, run: usize, #[comptime] spec: Sort) {
    let n = comptime!(spec.n);
    let plane = n_rows * n;
    let point = ABSOLUTE_POS;
    if point < plane {
        let row = point / n;
        let place = row * n + merged_place(from, row, point % n, plane, run, spec);
        to[place] = from[point];
        to[place + plane] = from[point + plane];
        if comptime!(spec.shape.is_wide) {
            to[place + 2usize * plane] = from[point + 2usize * plane];
        }
    }
}

/// Merges the last two runs into the results.
#[cube]
fn merge_rows<T: Int>(
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
    let most = comptime!(spec.n.max(spec.count));
    let row = ABSOLUTE_POS / most;
    let column = ABSOLUTE_POS % most;
    if row < n_rows {
        let to = (first + row) * count;
        if column < n {
            let plane = n_rows * n;
            let place = merged_place(from, row, column, plane, run, spec);
            if place < count {
                let point = row * n + column;
                let low = if comptime!(spec.shape.is_wide) { from[point + plane] } else { u32::new(0) };
                let index = from[point + comptime!(spec.n_planes() - 1) * plane];
                write::<T>(values, indices, to + place, from[point], low, index, spec);
            }
        } else {
            write_none::<T>(values, indices, to + column, spec);
        }
    }
}

/// The place of a column's entry after the merge of its run with the other run of the pair.
#[cube]
fn merged_place(
    from: &Array<u32>,
    row: usize,
    column: usize,
    plane: usize,
    run: usize,
    #[comptime] spec: Sort,
) -> usize {
    let n = comptime!(spec.n);
    let row_start = row * n;
    let number = column / run;
    let other = (number ^ 1usize) * run;
    let start = (number & (number ^ 1usize)) * run;
    let own = row_start + column;
    let high = from[own];
    let second = if comptime!(spec.shape.is_wide) { from[own + plane] } else { u32::new(0) };
    // Among equal elements, those of the earlier run come first.
    let is_earlier = other < column;
    let other_start = select(other < n, other, n);
    let end = other_start + run;
    let mut least = other_start;
    let mut most = select(end < n, end, n);
    while least < most {
        let middle = (least + most) / 2usize;
        let there = row_start + middle;
        let other_high = from[there];
        let is_lower = if comptime!(spec.shape.is_wide) {
            let other_second = from[there + plane];
            other_second < second || (other_second == second && is_earlier)
        } else {
            is_earlier
        };
        if other_high < high || (other_high == high && is_lower) {
            least = middle + 1usize;
        } else {
            most = middle;
        }
    }
    start + (column - number * run) + (least - other_start)
}

/// Loads an element into the entries of the block.
#[cube]
fn fetch<T: Int>(
    words: &mut SharedMemory<u32>,
    place: usize,
    x: &Array<T>,
    point: usize,
    index: usize,
    #[comptime] spec: Sort,
) {
    let order = comptime!(spec.order);
    let is_wide = comptime!(spec.shape.is_wide);
    let low = if comptime!(is_wide) { u32::cast_from(x[2usize * point]) } else { u32::new(0) };
    let high = if comptime!(is_wide) {
        u32::cast_from(x[2usize * point + 1usize])
    } else {
        u32::cast_from(x[point])
    };
    let first = high_rank(high, low, order);
    put(words, place, first, low_rank(high, low, order), index as u32, comptime!(spec.shape));
}

/// Writes the element of an entry, and its index.
#[cube]
fn write<T: Int>(
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
fn write_none<T: Int>(values: &mut Array<T>, indices: &mut Array<u32>, to: usize, #[comptime] spec: Sort) {
    let last = comptime!(spec.order.last());
    if comptime!(spec.shape.is_wide) {
        values[2usize * to] = T::cast_from(u32::new(comptime!(last[1] as i64)));
        values[2usize * to + 1usize] = T::cast_from(u32::new(comptime!(last[0] as i64)));
    } else {
        values[to] = T::cast_from(u32::new(comptime!(last[0] as i64)));
    }
    indices[to] = u32::new(comptime!(i64::from(u32::MAX)));
}
