//! Launches of scatters.
//!
//! The result is cut into slabs. One worker fills a slab: it writes the base, then walks all indices in their order and
//! combines the updates that fall into the slab. So the order of each sum does not depend on the number of threads. Long rows
//! of updates are computed by the worker whose slab they fall into. Shorter ones are computed many at a time, by each worker:
//! to start a body costs more than their elements.

use super::super::interp::{ScratchSize, Sharing, slice_mut, value_only, with_size, with_type};
use super::super::pool::Pool;
use super::body_run::BodyRun;
use super::call::{Call, KernelLaunch};
use super::matrix_source::{NONE, Reader, offset};
use super::scratch::{LaunchSize, MatrixSourceSize, WorkerScratch};
use crate::device::DeviceError;
use engine_core::fusion::{ScatterBody, Source, Window};
use engine_core::ir::{Combine, DType};
use engine_numerics::loops::reduce::Foldable;
use half::{bf16, f16};
use std::ops::Range;

/// The elements after the indexed axis that one slab takes of read updates.
const COLUMNS: usize = 256;
/// The parts of the indexed axis, if there are too few other slabs.
const N_RANGES: usize = 8;
/// Rows shorter than this are computed by a single worker, wherever they fall.
const SHORT_ROW: usize = 16;
/// Rows shorter than this are computed by each worker, wherever they fall, and by so many workers at most.
const LONG_ROW: usize = 256;
const MOST_WORKERS: usize = 4;
/// The indices that are computed at a time.
const N_INDICES: usize = 1024;
/// The elements of updates that are computed at a time, if they are not one row.
const N_COMPUTED: usize = 4096;

/// A scatter, ready to run. An index that is out of range is skipped.
pub struct ScatterLaunch {
    body: ScatterBody,
    dtype: DType,
    /// The result before the first update. Computed rows are written by their body.
    base: Rows<usize>,
    indices: BodyRun,
    updates: Rows<Window>,
    n_operands: usize,
}

/// Rows that are read from an operand, or computed by a body.
enum Rows<R> {
    Read(R),
    Computed(Box<BodyRun>),
}

impl<R> Rows<R> {
    fn body_run(&self) -> Option<&BodyRun> {
        match self {
            Rows::Read(_) => None,
            Rows::Computed(run) => Some(run),
        }
    }
}

impl KernelLaunch for ScatterLaunch {
    fn size(&self) -> LaunchSize {
        let computed = match self.updates {
            Rows::Read(_) => 0,
            Rows::Computed(_) => self.rows_at_once() * self.n_after() * self.dtype.size(),
        };
        LaunchSize {
            programs: self.body_runs().map(BodyRun::size).fold(ScratchSize::default(), ScratchSize::max),
            source: MatrixSourceSize { row: 0, n_rows: N_INDICES, n_operands: self.n_operands, computed },
            ..LaunchSize::default()
        }
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        let [n_batch, n_before, ..] = self.body.extents;
        let n_ranges = self.ranges(workers.len());
        let n_slabs = n_batch * n_before * self.column_chunks() * n_ranges;
        // SAFETY: the caller's; slabs are disjoint.
        unsafe {
            for run in self.body_runs() {
                run.begin(call, &mut workers[0].worker);
            }
            pool.run_with(n_slabs, workers, |number, scratch| {
                let WorkerScratch { worker, source, .. } = scratch;
                let reader = Reader { call, worker, scratch: source };
                self.fill(&self.slab(number, n_ranges), reader);
            });
        }
    }
}

impl ScatterLaunch {
    /// Compiles a scatter into elements of type `dtype`; `sharing` is the memory that each operand shares.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &ScatterBody, dtype: DType, sharing: &[Sharing]) -> Result<ScatterLaunch, DeviceError> {
        let base = match body.copied_base() {
            Some(operand) => Rows::Read(operand),
            None => Rows::Computed(Box::new(BodyRun::new(&body.base, sharing, dtype)?)),
        };
        let (update, value) = value_only(&body.updates, body.update);
        let window = Source { body: update, value }.window(body.extents[3]);
        let updates = match window.filter(|window| window.index.is_none() && window.strides[1] == 1) {
            Some(window) => Rows::Read(window),
            None => Rows::Computed(Box::new(BodyRun::of_value(&body.updates, body.update, sharing)?)),
        };
        let indices = BodyRun::of_indices(&body.updates, body.index, sharing)?;
        Ok(ScatterLaunch { body: body.clone(), dtype, base, indices, updates, n_operands: sharing.len() })
    }

    fn body_runs(&self) -> impl Iterator<Item = &BodyRun> {
        [&self.indices].into_iter().chain(self.base.body_run()).chain(self.updates.body_run())
    }

    fn n_after(&self) -> usize {
        self.body.extents[4]
    }

    /// The rows of updates that are computed at a time.
    fn rows_at_once(&self) -> usize {
        (N_COMPUTED / self.n_after()).clamp(1, N_INDICES)
    }

    /// The parts of a row; a body computes and writes whole rows.
    fn column_chunks(&self) -> usize {
        match (&self.base, &self.updates) {
            (Rows::Read(_), Rows::Read(_)) => self.n_after().div_ceil(COLUMNS),
            _ => 1,
        }
    }

    /// Whether rows of updates are computed by each worker, wherever they fall.
    fn computes_all(&self) -> bool {
        matches!(self.updates, Rows::Computed(_)) && self.n_after() < LONG_ROW
    }

    /// The parts of the indexed axis for so many workers.
    fn ranges(&self, n_workers: usize) -> usize {
        let [n_batch, n_before, n_indexed, _, n_after] = self.body.extents;
        let most = match self.computes_all() {
            true if n_after < SHORT_ROW => 1,
            true => n_workers.min(MOST_WORKERS),
            false => N_RANGES,
        };
        let is_few = n_batch * n_before * self.column_chunks() < N_RANGES;
        if is_few { most.min(n_indexed).max(1) } else { 1 }
    }

    fn slab(&self, number: usize, n_ranges: usize) -> Slab {
        let [_, _, n_indexed, _, n_after] = self.body.extents;
        let n_chunks = self.column_chunks();
        let (lead, rest) = (number / (n_chunks * n_ranges), number % (n_chunks * n_ranges));
        let (chunk, range) = (rest / n_ranges, rest % n_ranges);
        let bound = |range: usize| n_indexed * range / n_ranges;
        let columns = match n_chunks {
            1 => 0..n_after,
            _ => chunk * COLUMNS..((chunk + 1) * COLUMNS).min(n_after),
        };
        Slab { lead, rows: bound(range)..bound(range + 1), columns }
    }

    unsafe fn fill(&self, slab: &Slab, mut reader: Reader) {
        // SAFETY: the caller's.
        unsafe {
            self.write_base(slab, &mut reader);
            for first in (0..self.body.extents[3]).step_by(N_INDICES) {
                self.add_updates(slab, &mut reader, first);
            }
        }
    }

    unsafe fn write_base(&self, slab: &Slab, reader: &mut Reader) {
        let [_, _, n_indexed, _, n_after] = self.body.extents;
        let first_row = slab.lead * n_indexed + slab.rows.start;
        match &self.base {
            // SAFETY: the caller's: these rows are the slab's.
            Rows::Computed(run) => unsafe {
                reader.run(run, first_row..first_row + slab.rows.len(), NONE, NONE);
            },
            Rows::Read(operand) => {
                let (from, to) = (reader.call.buffers[*operand], reader.call.buffers[self.body.result]);
                if from.start == to.start {
                    return;
                }
                for row in first_row..first_row + slab.rows.len() {
                    let start = row * n_after + slab.columns.start;
                    let [from, to] = [from, to].map(|buffer| buffer.start.wrapping_add(start * buffer.size));
                    // SAFETY: as above; the row is inside both.
                    unsafe {
                        std::ptr::copy_nonoverlapping(from, to, slab.columns.len() * self.dtype.size())
                    };
                }
            }
        }
    }

    /// Adds the updates of the next few indices, in runs of neighbours that fall into the slab.
    unsafe fn add_updates(&self, slab: &Slab, reader: &mut Reader, first: usize) {
        let n_indices = self.body.extents[3];
        let n = N_INDICES.min(n_indices - first);
        let first_row = slab.lead * n_indices + first;
        let indices = reader.scratch.indices.start();
        // SAFETY: the caller's; there is room for as many indices.
        let indices = unsafe {
            reader.run(&self.indices, first_row..first_row + n, NONE, indices);
            std::slice::from_raw_parts(indices.cast::<i64>(), n)
        };
        let is_own = |index: &i64| usize::try_from(*index).is_ok_and(|row| slab.rows.contains(&row));
        let most = match self.updates {
            Rows::Read(_) => N_INDICES,
            Rows::Computed(_) => self.rows_at_once(),
        };
        let mut at = 0;
        while at < n {
            let next = indices[at..].iter().take(most);
            let own =
                if self.computes_all() { next.len() } else { next.take_while(|index| is_own(index)).count() };
            if own > 0 {
                // SAFETY: as above.
                unsafe { self.combine(slab, reader, first_row + at, &indices[at..at + own]) };
            }
            at += own.max(1);
        }
    }

    /// Combines the rows of updates from `first_row` on, one for each index, as far as they fall into the slab.
    unsafe fn combine(&self, slab: &Slab, reader: &mut Reader, first_row: usize, indices: &[i64]) {
        let [_, _, n_indexed, n_indices, n_after] = self.body.extents;
        let size = self.dtype.size();
        // SAFETY: the caller's; scratch has room for so many rows.
        let (updates, stride) = unsafe {
            match &self.updates {
                Rows::Read(window) => {
                    let buffer = reader.call.buffers[window.operand];
                    let row = (first_row % n_indices.max(1)) as i64;
                    let start = offset(window, slab.lead * n_indices * n_after) + row * window.strides[0];
                    (buffer.start.wrapping_offset(start as isize * size as isize), window.strides[0] as isize)
                }
                Rows::Computed(run) => {
                    let target = reader.scratch.computed.start();
                    reader.run(run, first_row..first_row + indices.len(), NONE, target);
                    (target, n_after as isize)
                }
            }
        };
        let out = reader.call.buffers[self.body.result].start;
        let rows = Combined {
            updates: updates.wrapping_add(slab.columns.start * size),
            stride,
            out: out.wrapping_add((slab.lead * n_indexed * n_after + slab.columns.start) * size),
            pitch: n_after,
            width: slab.columns.len(),
            rows: slab.rows.clone(),
        };
        // SAFETY: as above; all rows are inside.
        unsafe {
            match (self.body.combine, self.dtype) {
                (Combine::Set, dtype) => {
                    with_size!(dtype.size(), T => rows.run::<T>(indices, |_, update| update));
                }
                // Half precision is added in f32.
                (Combine::Add, DType::F16) => {
                    rows.run::<f16>(indices, |a, b| f16::from_f32(a.to_f32() + b.to_f32()));
                }
                (Combine::Add, DType::BF16) => {
                    rows.run::<bf16>(indices, |a, b| bf16::from_f32(a.to_f32() + b.to_f32()));
                }
                (Combine::Add, dtype) => with_type!(dtype, T => rows.run::<T>(indices, T::plus)),
            }
        }
    }
}

/// A part of the result: rows along the indexed axis and columns after it, at one place before it.
struct Slab {
    lead: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// Updates and their targets; distances are in elements.
struct Combined {
    updates: *const u8,
    stride: isize,
    out: *mut u8,
    pitch: usize,
    width: usize,
    /// The targets that count.
    rows: Range<usize>,
}

impl Combined {
    unsafe fn run<T: Copy>(&self, indices: &[i64], with: impl Fn(T, T) -> T) {
        let targets = indices.iter().map(|&row| usize::try_from(row).unwrap_or(usize::MAX)).enumerate();
        for (i, row) in targets.filter(|(_, row)| self.rows.contains(row)) {
            let from = self.updates.cast::<T>().wrapping_offset(i as isize * self.stride);
            let to = self.out.cast::<T>().wrapping_add(row * self.pitch);
            // SAFETY: the caller's; both rows are inside.
            unsafe {
                let (out, updates) =
                    (slice_mut::<T>(to.cast(), self.width), std::slice::from_raw_parts(from, self.width));
                out.iter_mut().zip(updates).for_each(|(out, &update)| *out = with(*out, update));
            }
        }
    }
}
