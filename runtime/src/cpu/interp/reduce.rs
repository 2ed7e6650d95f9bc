//! Reductions along rows, and the row values that come from them.

use super::program::{Dest, Op, Pass};
use super::span::Span;
use super::view::{View, slice_mut, with_type};
use super::worker::Worker;
use engine_core::fusion::Reg;
use engine_core::ir::{DType, Monoid};
use engine_numerics::loops::reduce::{Fold, Foldable, combine};
use engine_numerics::loops::{Number, Prefetch, argmax, argmin, fold_rows, fold_with_prefetch};
use engine_numerics::math::is_nan;

/// A reduction of a pass.
struct Reduction {
    reg: Reg,
    monoid: Monoid,
    dtype: DType,
    /// The place of its accumulators.
    place: usize,
    /// The place of the extreme values of an index reduction.
    best: usize,
}

fn reductions(pass: &Pass) -> impl Iterator<Item = Reduction> {
    pass.element.iter().filter_map(|inst| match (&inst.op, inst.dest) {
        (&Op::Reduce { monoid, dtype, best, .. }, Dest::Row(place)) => {
            Some(Reduction { reg: inst.reg, monoid, dtype, place, best })
        }
        _ => None,
    })
}

/// The accumulators of some rows, among their row values.
#[derive(Clone, Copy)]
pub struct Accumulators {
    /// The memory of row values.
    pub base: *mut u8,
    /// The bytes from one place of row values to the next.
    pub row_pitch: usize,
    /// The number of rows.
    pub n_rows: usize,
}

impl Accumulators {
    unsafe fn values<'a, T>(self, place: usize) -> &'a mut [T] {
        // SAFETY: the caller's: as many values of this type at the place.
        unsafe { slice_mut(self.base.wrapping_add(place * self.row_pitch), self.n_rows) }
    }

    /// Sets the accumulators of a pass to the neutral element, and its registers to the accumulators.
    ///
    /// # Safety
    /// There must be memory for all row values, and this worker must be its only user.
    pub unsafe fn begin(self, worker: &mut Worker, pass: &Pass) {
        for Reduction { monoid, dtype, place, best, .. } in reductions(pass) {
            let values = if monoid.is_index() { best } else { place };
            // SAFETY: the caller's; index -1 marks an empty reduction.
            unsafe {
                with_type!(dtype, T => self.values::<T>(values).fill(T::neutral(Fold::of(monoid))));
                if monoid.is_index() {
                    self.values::<i32>(place).fill(-1);
                }
            }
        }
        self.show(worker, pass);
    }

    /// Sets the registers of the reductions of a pass to their accumulators.
    pub fn show(self, worker: &mut Worker, pass: &Pass) {
        for Reduction { reg, place, .. } in reductions(pass) {
            worker.set(reg, View::block(self.base.wrapping_add(place * self.row_pitch), self.n_rows));
        }
    }

    /// Merges the accumulators of a later part of the rows.
    ///
    /// # Safety
    /// Both must have the accumulators of this pass, and this worker must be their only user.
    pub unsafe fn merge(self, pass: &Pass, later: Accumulators) {
        for Reduction { monoid, dtype, place, best, .. } in reductions(pass) {
            let fold = Fold::of(monoid);
            // SAFETY: the caller's.
            with_type!(dtype, T => unsafe {
                if monoid.is_index() {
                    let own = self.values::<i32>(place).iter_mut().zip(self.values::<T>(best));
                    let later = later.values::<i32>(place).iter().zip(later.values::<T>(best));
                    for ((index, best), (&later, &mut value)) in own.zip(later) {
                        if later >= 0 {
                            take_better(fold, index, best, later, value);
                        }
                    }
                } else {
                    let values = self.values::<T>(place).iter_mut().zip(later.values::<T>(place));
                    values.for_each(|(value, later)| *value = combine(fold, *value, *later));
                }
            });
        }
    }
}

/// The reduction of a block into the accumulators of its rows.
pub struct BlockReduction {
    pub monoid: Monoid,
    pub span: Span,
    /// Whether rows run across the runs of the block, not along them.
    pub reduces_down: bool,
    pub accumulators: *mut u8,
    /// The extreme values of an index reduction.
    pub best: *mut u8,
    pub ahead: Prefetch,
}

impl BlockReduction {
    /// Reduces a block.
    ///
    /// # Safety
    /// There must be accumulators for each row of the span.
    pub unsafe fn run<T: Number>(self, block: &[T]) {
        // SAFETY: the caller's.
        unsafe { if self.monoid.is_index() { self.find(block) } else { self.fold(block) } }
    }

    unsafe fn fold<T: Number>(self, block: &[T]) {
        let (fold, Span { width, height, bundle, .. }) = (Fold::of(self.monoid), self.span);
        // SAFETY: the caller's.
        unsafe {
            if self.reduces_down {
                let accumulators = slice_mut(self.accumulators, height / bundle * width);
                let bundles = block.chunks_exact(bundle * width).zip(accumulators.chunks_exact_mut(width));
                return bundles.for_each(|(rows, out)| fold_rows(fold, rows, bundle, width, out));
            }
            // Only a row that fills the block is long enough for prefetching.
            let ahead = if height == 1 { self.ahead } else { Prefetch::NOTHING };
            let accumulators = slice_mut::<T>(self.accumulators, height).iter_mut();
            for (accumulator, row) in accumulators.zip(block.chunks_exact(width)) {
                *accumulator = combine(fold, *accumulator, fold_with_prefetch(fold, row, ahead));
            }
        }
    }

    unsafe fn find<T: Number>(self, block: &[T]) {
        let (fold, Span { width, height, along, bundle, .. }) = (Fold::of(self.monoid), self.span);
        let n_rows = if self.reduces_down { height / bundle * width } else { height };
        // SAFETY: the caller's.
        let (indices, bests) =
            unsafe { (slice_mut::<i32>(self.accumulators, n_rows), slice_mut::<T>(self.best, n_rows)) };
        let runs = block.chunks_exact(width);
        if self.reduces_down {
            for (i, run) in runs.enumerate() {
                let first = i / bundle * width;
                let kept = indices[first..].iter_mut().zip(&mut bests[first..]);
                for ((index, best), &value) in kept.zip(run) {
                    take_better(fold, index, best, (along + i % bundle) as i32, value);
                }
            }
            return;
        }
        for ((index, best), row) in indices.iter_mut().zip(bests).zip(runs) {
            let found = if fold == Fold::Max { argmax(row) } else { argmin(row) };
            if let Some(found) = found {
                take_better(fold, index, best, (along + found) as i32, row[found]);
            }
        }
    }
}

/// Keeps the first of equal values, and the first NaN.
fn take_better<T: Number>(fold: Fold, index: &mut i32, best: &mut T, found: i32, value: T) {
    let is_better = match fold {
        Fold::Max => value > *best,
        _ => value < *best,
    };
    let is_first_nan = is_nan(value) && !is_nan(*best);
    if *index < 0 || is_better || is_first_nan {
        (*index, *best) = (found, value);
    }
}

/// Repeats row values over the points of a block.
///
/// # Safety
/// There must be as many row values as the span has rows, and room for the span at `out`.
pub unsafe fn expand<T: Copy>(values: View, span: Span, reduces_down: bool, out: *mut u8) -> View {
    if values.is_scalar {
        return values;
    }
    // SAFETY: the caller's.
    unsafe {
        let runs = slice_mut::<T>(out, span.len()).chunks_exact_mut(span.width);
        match reduces_down {
            true => {
                let values = values.slice(span.height / span.bundle * span.width);
                let bundles = values.chunks_exact(span.width);
                let repeated = bundles.flat_map(|values| std::iter::repeat_n(values, span.bundle));
                runs.zip(repeated).for_each(|(run, values)| run.copy_from_slice(values));
            }
            false => runs.zip(values.slice(span.height)).for_each(|(run, &value)| run.fill(value)),
        }
    }
    View::block(out, span.len())
}
