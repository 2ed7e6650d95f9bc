//! Sorting rows on a GPU.
//!
//! A block sorts a row that fits into it ([`crate::sort_block`]), or several short rows. A longer row is cut into runs
//! that fit, and sorted runs are merged pairwise ([`crate::sort_merge`]).

use crate::axis::dtype;
use crate::rank_words::Order;
use crate::sort_block::{Entries, first_at, index_at, loaded_place, second_at};
use crate::sort_entry::{Sort, fetch, write, write_none};
use crate::sort_merge::{merge_rows, merge_runs};
use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::KernelCall;
use engine_core::op::gpu::{CubeBody, GpuArgument, GpuKernel, GpuLaunch, Shape, View, WORKSPACE_ALIGNMENT};
use std::sync::Arc;

/// Entries per block, and its threads.
const CAPACITY: usize = 4096;
const WIDE_CAPACITY: usize = 2048;
const SHORT_CAPACITY: usize = 1024;
const THREADS: usize = 256;
/// Entries in the workspace: enough to keep a device busy, and few enough for its cache.
const ENTRIES: usize = 1 << 22;

/// The launches that sort the rows of a call's operand and write the first `count` of each, with their indices.
pub fn sorted(call: &KernelCall, is_descending: bool, count: usize, device: &DeviceModel) -> GpuKernel {
    let (n_rows, n) = call.rows();
    let order = Order { dtype: dtype(call), is_descending, is_nan_first: false };
    let is_wide = order.is_wide();
    let longest = if is_wide { WIDE_CAPACITY } else { CAPACITY };
    let longest = fitting(longest, if is_wide { 12 } else { 8 }, device);
    let run = n.max(count).next_power_of_two().clamp(2, longest);
    let threads = THREADS.min(device.most_threads);
    let shape = Shape { capacity: run.max(SHORT_CAPACITY), is_wide, threads };
    let sort = Sort { order, n, count, shape, size: device.bits_size(order.dtype), plane: device.plane, run };
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
            cubes: n_rows * self.n.div_ceil(self.run),
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
            cubes: n_rows * self.n.max(self.count).div_ceil(self.run),
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
    let block = comptime!(spec.block());
    let first = CUBE_POS * comptime!(spec.shape.capacity / spec.run);
    let mut entries = Entries::new(block);
    #[unroll]
    for own in 0..comptime!(block.each) {
        let place = loaded_place(own, block);
        let row = first + place / run;
        let column = place % run;
        fetch::<T>(&mut entries, own, x, row * n + column, column, row < n_rows && column < n, spec);
    }
    let mut words = SharedMemory::<u32>::new(comptime!(block.n_words()));
    entries.sort(&mut words, block);
    entries.share(&mut words, block);
    sync_cube();
    let mut place = UNIT_POS_X as usize;
    while place < comptime!(spec.shape.capacity) {
        let row = first + place / run;
        let column = place % run;
        if row < n_rows && column < count {
            let to = row * count + column;
            if column < n {
                let high = first_at(&words, place, block);
                let low = second_at(&words, place, block);
                write::<T>(values, indices, to, high, low, index_at(&words, place, block), spec);
            } else {
                write_none::<T>(values, indices, to, spec);
            }
        }
        place += comptime!(spec.shape.threads);
    }
}

/// Sorts one run of a row per block, into the workspace.
#[cube]
fn sort_runs<T: Int>(x: &Array<T>, to: &mut Array<u32>, first: usize, n_rows: usize, #[comptime] spec: Sort) {
    let n = comptime!(spec.n);
    let block = comptime!(spec.block());
    let row = CUBE_POS / comptime!(spec.n_runs());
    let start = CUBE_POS % comptime!(spec.n_runs()) * comptime!(spec.run);
    let mut entries = Entries::new(block);
    #[unroll]
    for own in 0..comptime!(block.each) {
        let column = start + loaded_place(own, block);
        fetch::<T>(&mut entries, own, x, (first + row) * n + column, column, column < n, spec);
    }
    let mut words = SharedMemory::<u32>::new(comptime!(block.n_words()));
    entries.sort(&mut words, block);
    entries.share(&mut words, block);
    sync_cube();
    let plane = n_rows * n;
    let mut place = UNIT_POS_X as usize;
    while place < comptime!(spec.run) {
        let column = start + place;
        if column < n {
            let point = row * n + column;
            to[point] = first_at(&words, place, block);
            if comptime!(spec.shape.is_wide) {
                to[point + plane] = second_at(&words, place, block);
            }
            to[point + comptime!(spec.n_planes() - 1) * plane] = index_at(&words, place, block);
        }
        place += comptime!(spec.shape.threads);
    }
}
