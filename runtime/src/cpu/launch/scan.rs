//! Launches of scans.

use super::super::interp::{Buffer, View, cast, with_type};
use super::super::pool::Pool;
use super::call::{Call, KernelLaunch};
use super::scratch::WorkerScratch;
use engine_core::fusion::{Domain, Operand, ScanBody};
use engine_core::ir::{DType, Monoid};
use engine_numerics::loops::Number;
use engine_numerics::loops::reduce::{Fold, Foldable, combine};
use std::ops::Range;

/// The elements after the scanned axis that one chunk takes.
const COLUMNS: usize = 256;
/// The rows that are scanned side by side where their elements are neighbours: a total waits for the one before it.
const LINES: usize = 8;

/// An inclusive scan along the rows of a domain, from operand 0 to operand 1. Floats are combined in f64 and each result
/// rounded.
pub struct ScanLaunch {
    /// The operation, which finds no index.
    monoid: Monoid,
    /// The rows.
    domain: Domain,
    /// The type of the elements.
    dtype: DType,
}

impl ScanLaunch {
    /// A scan, ready to run.
    pub fn new(body: &ScanBody, operands: &[Operand]) -> ScanLaunch {
        let ScanBody { monoid, domain } = *body;
        ScanLaunch { monoid, domain, dtype: operands[0].ty.dtype }
    }
}

impl KernelLaunch for ScanLaunch {
    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        let ScanLaunch { monoid, domain, dtype } = *self;
        assert!(!monoid.is_index(), "bug: a scan has no index monoid");
        let fold = Fold::of(monoid);
        let n_column_chunks = domain.inner.div_ceil(COLUMNS);
        let [from, to] = [call.buffers[0], call.buffers[1]];
        if domain.inner == 1 && !matches!(dtype, DType::F16 | DType::BF16) {
            return pool.run_with(domain.outer.div_ceil(LINES), workers, |chunk, _| {
                let lines = chunk * LINES..((chunk + 1) * LINES).min(domain.outer);
                // SAFETY: the caller's; chunks are disjoint.
                unsafe { with_type!(dtype, T => scan_lines::<T>(fold, domain.row, lines, from, to)) }
            });
        }
        pool.run_with(domain.outer * n_column_chunks, workers, |chunk, _| {
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
}

/// A scanned type and the type of its running total. Floats are added up in `f64`, so that the rounding error of a total
/// does not grow with the number of its terms.
trait Scanned: Copy {
    type Total: Number;
    fn wide(self) -> Self::Total;
    fn narrow(total: Self::Total) -> Self;
}

macro_rules! scanned_as {
    ($($type:ty as $total:ty),*) => { $(
        impl Scanned for $type {
            type Total = $total;
            #[inline(always)]
            fn wide(self) -> $total { self as $total }
            #[inline(always)]
            fn narrow(total: $total) -> $type { total as $type }
        }
    )* };
}
scanned_as! { u8 as u8, i8 as i8, i16 as i16, u16 as u16, i32 as i32, i64 as i64, u32 as u32, f32 as f64, f64 as f64 }

/// Scans rows whose elements are neighbours.
unsafe fn scan_lines<T: Scanned>(fold: Fold, len: usize, lines: Range<usize>, from: Buffer, to: Buffer) {
    // SAFETY: the caller's. One loop for each operation, without a choice within.
    unsafe {
        match fold {
            Fold::Sum => lines_by::<T>(|a, b| combine(Fold::Sum, a, b), fold, len, lines, from, to),
            Fold::Product => lines_by::<T>(|a, b| combine(Fold::Product, a, b), fold, len, lines, from, to),
            Fold::Max => lines_by::<T>(|a, b| combine(Fold::Max, a, b), fold, len, lines, from, to),
            Fold::Min => lines_by::<T>(|a, b| combine(Fold::Min, a, b), fold, len, lines, from, to),
        }
    }
}

#[inline(always)]
unsafe fn lines_by<T: Scanned>(
    combined: impl Fn(T::Total, T::Total) -> T::Total,
    fold: Fold,
    len: usize,
    lines: Range<usize>,
    from: Buffer,
    to: Buffer,
) {
    let [from, to] = [from, to].map(|buffer| buffer.start.cast::<T>());
    let step = |at: usize, total: &mut T::Total| {
        // SAFETY: the caller's; the element is inside both.
        unsafe {
            *total = combined(*total, from.add(at).read().wide());
            to.add(at).write(T::narrow(*total));
        }
    };
    if lines.len() == LINES {
        let mut totals = [T::Total::neutral(fold); LINES];
        for i in 0..len {
            totals.iter_mut().zip(lines.clone()).for_each(|(total, line)| step(line * len + i, total));
        }
        return;
    }
    for line in lines {
        let mut total = T::Total::neutral(fold);
        (0..len).for_each(|i| step(line * len + i, &mut total));
    }
}

unsafe fn scan<T: Scanned>(
    fold: Fold,
    domain: Domain,
    outer: usize,
    columns: Range<usize>,
    from: Buffer,
    to: Buffer,
) {
    let mut totals = [T::Total::neutral(fold); COLUMNS];
    for row in 0..domain.row {
        let first = (outer * domain.row + row) * domain.inner + columns.start;
        for (i, total) in totals[..columns.len()].iter_mut().enumerate() {
            // SAFETY: the caller's; the element is inside both.
            unsafe {
                *total = combine(fold, *total, from.start.cast::<T>().add(first + i).read().wide());
                to.start.cast::<T>().add(first + i).write(T::narrow(*total));
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
    let mut totals = [f64::neutral(fold); COLUMNS];
    let totals = &mut totals[..columns.len()];
    let mut values = [0f32; COLUMNS];
    for row in 0..domain.row {
        let first = 2 * ((outer * domain.row + row) * domain.inner + columns.start);
        let view = View { start: from.start.wrapping_add(first), is_scalar: false };
        // SAFETY: the caller's; the row is inside both.
        unsafe { cast(dtype, DType::F32, view, values.as_mut_ptr().cast(), totals.len()) };
        for (total, value) in totals.iter_mut().zip(&mut values) {
            *total = combine(fold, *total, f64::from(*value));
            *value = *total as f32;
        }
        let view = View { start: values.as_ptr().cast(), is_scalar: false };
        // SAFETY: as above.
        unsafe { cast(DType::F32, dtype, view, to.start.wrapping_add(first), totals.len()) };
    }
}
