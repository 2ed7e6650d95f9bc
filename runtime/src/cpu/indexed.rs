//! Launches of scatters and scans.

use super::block::Buffer;
use super::pool::Pool;
use super::reduce::{Fold, Foldable, combine};
use super::scalar::{View, cast, slice_mut, with_size, with_type};
use engine_core::fuse::{Domain, ScatterBody};
use engine_core::ir::{Combine, DType, Monoid};
use std::ops::Range;

/// Elements after the indexed axis that one chunk takes.
const COLUMNS: usize = 256;
/// Parts of the indexed axis, where nothing else is independent.
const N_RANGES: usize = 8;

/// Runs a scatter: copies the base, then combines the updates in the order of their indices. An index that is out of
/// range is skipped.
///
/// # Safety
/// The buffers must be those of the kernel, of these types, and nobody else may use what it writes.
pub unsafe fn run_scatter<S: Send>(
    body: &ScatterBody,
    dtype: DType,
    index_dtype: DType,
    pool: &mut Pool,
    scratch: &mut [S],
    buffers: &[Buffer],
) {
    let [n_batch, n_before, n_indexed, n_indices, n_after] = body.extents;
    let n_column_chunks = n_after.div_ceil(COLUMNS);
    let n_independent = n_batch * n_before * n_column_chunks;
    let n_ranges = if n_independent < N_RANGES && n_indexed >= N_RANGES { N_RANGES } else { 1 };
    let [base, indices, updates, out] = body.operands.map(|operand| buffers[operand]);
    pool.run_with(n_independent * n_ranges, scratch, |chunk, _| {
        let (lead, rest) = (chunk / (n_column_chunks * n_ranges), chunk % (n_column_chunks * n_ranges));
        let (column, range) = (rest / n_ranges * COLUMNS, rest % n_ranges);
        let bound = |range: usize| n_indexed * range / n_ranges;
        let slab = Slab {
            rows: bound(range)..bound(range + 1),
            columns: column..(column + COLUMNS).min(n_after),
            n_after,
            first_out: lead * n_indexed * n_after,
            first_update: lead * n_indices * n_after,
            first_index: lead / n_before * n_indices,
            n_indices,
        };
        // SAFETY: the caller's; slabs are disjoint.
        unsafe {
            with_size!(dtype.size(), T => slab.copy_base::<T>(base, out));
            match (body.combine, dtype) {
                (Combine::Set, _) => with_size!(dtype.size(), T => {
                    slab.combine::<T>(indices, index_dtype, updates, out, |_, update| update)
                }),
                (Combine::Add, DType::F16 | DType::BF16) => {
                    slab.combine::<u16>(indices, index_dtype, updates, out, |a, b| add_halves(dtype, a, b))
                }
                (Combine::Add, _) => with_type!(dtype, T => {
                    slab.combine::<T>(indices, index_dtype, updates, out, T::plus)
                }),
            }
        }
    });
}

/// A part of the output: some rows along the indexed axis, some columns after it, at one place before it.
struct Slab {
    rows: Range<usize>,
    columns: Range<usize>,
    n_after: usize,
    first_out: usize,
    first_update: usize,
    first_index: usize,
    n_indices: usize,
}

impl Slab {
    unsafe fn copy_base<T: Copy>(&self, base: Buffer, out: Buffer) {
        if base.start == out.start {
            return;
        }
        for row in self.rows.clone() {
            let first = self.first_out + row * self.n_after + self.columns.start;
            // SAFETY: the caller's; the row is inside both.
            unsafe {
                let from = std::slice::from_raw_parts(base.start.cast::<T>().add(first), self.columns.len());
                slice_mut::<T>(out.start.cast::<T>().add(first).cast(), self.columns.len())
                    .copy_from_slice(from);
            }
        }
    }

    unsafe fn combine<T: Copy>(
        &self,
        indices: Buffer,
        index_dtype: DType,
        updates: Buffer,
        out: Buffer,
        with: impl Fn(T, T) -> T,
    ) {
        for i in 0..self.n_indices {
            // SAFETY: the caller's.
            let row = unsafe { index_at(indices, index_dtype, self.first_index + i) };
            let Ok(row) = usize::try_from(row) else { continue };
            if !self.rows.contains(&row) {
                continue;
            }
            let to = self.first_out + row * self.n_after + self.columns.start;
            let from = self.first_update + i * self.n_after + self.columns.start;
            // SAFETY: as above; both rows are inside.
            unsafe {
                let out = slice_mut::<T>(out.start.cast::<T>().add(to).cast(), self.columns.len());
                let updates =
                    std::slice::from_raw_parts(updates.start.cast::<T>().add(from), self.columns.len());
                out.iter_mut().zip(updates).for_each(|(out, &update)| *out = with(*out, update));
            }
        }
    }
}

// The cast is none where the index is i64.
#[allow(clippy::unnecessary_cast)]
unsafe fn index_at(buffer: Buffer, dtype: DType, i: usize) -> i64 {
    // SAFETY: the caller's.
    unsafe { with_type!(dtype, T => buffer.start.cast::<T>().add(i).read() as i64) }
}

/// Adds in f32 and rounds.
fn add_halves(dtype: DType, a: u16, b: u16) -> u16 {
    let widened = |half: u16| {
        let mut wide = 0f32;
        let view = View { start: (&raw const half).cast(), is_scalar: true };
        // SAFETY: one value each.
        unsafe { cast(dtype, DType::F32, view, (&raw mut wide).cast(), 1) };
        wide
    };
    let (sum, mut half) = (widened(a) + widened(b), 0u16);
    let view = View { start: (&raw const sum).cast(), is_scalar: true };
    // SAFETY: one value.
    unsafe { cast(DType::F32, dtype, view, (&raw mut half).cast(), 1) };
    half
}

/// Runs an inclusive scan along the rows of a domain, from operand 0 to operand 1. Half precision is combined in f32
/// and each result rounded.
///
/// # Safety
/// As for [`run_scatter`].
pub unsafe fn run_scan<S: Send>(
    monoid: Monoid,
    domain: Domain,
    dtype: DType,
    pool: &mut Pool,
    scratch: &mut [S],
    buffers: &[Buffer],
) {
    let fold = match monoid {
        Monoid::Sum => Fold::Sum,
        Monoid::Prod => Fold::Product,
        Monoid::Max => Fold::Max,
        Monoid::Min => Fold::Min,
        Monoid::ArgMax | Monoid::ArgMin => panic!("bug: an index is not scanned for"),
    };
    let n_column_chunks = domain.inner.div_ceil(COLUMNS);
    let [from, to] = [buffers[0], buffers[1]];
    pool.run_with(domain.outer * n_column_chunks, scratch, |chunk, _| {
        let (outer, column) = (chunk / n_column_chunks, chunk % n_column_chunks * COLUMNS);
        let columns = column..(column + COLUMNS).min(domain.inner);
        // SAFETY: the caller's; chunks are disjoint.
        unsafe {
            match dtype {
                DType::F16 | DType::BF16 => scan_halves(fold, dtype, domain, outer, columns, from, to),
                _ => with_type!(dtype, T => scan::<T>(fold, domain, outer, columns, from, to)),
            }
        }
    });
}

unsafe fn scan<T: Foldable>(
    fold: Fold,
    domain: Domain,
    outer: usize,
    columns: Range<usize>,
    from: Buffer,
    to: Buffer,
) {
    let mut totals = [T::neutral(fold); COLUMNS];
    for row in 0..domain.row {
        let first = (outer * domain.row + row) * domain.inner + columns.start;
        for (i, total) in totals[..columns.len()].iter_mut().enumerate() {
            // SAFETY: the caller's; the element is inside both.
            unsafe {
                *total = combine(fold, *total, from.start.cast::<T>().add(first + i).read());
                to.start.cast::<T>().add(first + i).write(*total);
            }
        }
    }
}

unsafe fn scan_halves(
    fold: Fold,
    dtype: DType,
    domain: Domain,
    outer: usize,
    columns: Range<usize>,
    from: Buffer,
    to: Buffer,
) {
    let mut totals = [f32::neutral(fold); COLUMNS];
    let totals = &mut totals[..columns.len()];
    let mut row_values = [0f32; COLUMNS];
    for row in 0..domain.row {
        let first = 2 * ((outer * domain.row + row) * domain.inner + columns.start);
        let view = View { start: from.start.wrapping_add(first), is_scalar: false };
        // SAFETY: the caller's; the row is inside both.
        unsafe { cast(dtype, DType::F32, view, row_values.as_mut_ptr().cast(), totals.len()) };
        for (total, &value) in totals.iter_mut().zip(&row_values) {
            *total = combine(fold, *total, value);
        }
        let view = View { start: totals.as_ptr().cast(), is_scalar: false };
        // SAFETY: as above.
        unsafe { cast(DType::F32, dtype, view, to.start.wrapping_add(first), totals.len()) };
    }
}
