//! Assertions: checks of values and the record of their failures.

use super::address::Address;
use super::span::Span;
use super::view::{View, copy, slice_mut, with_type};
use engine_core::codegen::FailedAssertion;
use engine_core::ir::{DType, NodeId, Requirement};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The record of the first failed assertion, if any, and the flag that ends loops.
#[derive(Default)]
pub struct AssertionRecord {
    first: Mutex<Option<FailedAssertion>>,
    /// Whether the run is cancelled.
    pub cancel: Arc<AtomicBool>,
}

impl AssertionRecord {
    /// Takes the failed assertion of the lowest node at the lowest position, if any.
    pub fn take(&self) -> Option<FailedAssertion> {
        self.first().take()
    }

    /// Whether an assertion has failed.
    pub fn has_failure(&self) -> bool {
        self.first().is_some()
    }

    /// Whether the run is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    #[cold]
    fn record(&self, failure: FailedAssertion) {
        let mut first = self.first();
        *first = Some(first.map_or(failure, |first| first.min(failure)));
    }

    fn first(&self) -> MutexGuard<'_, Option<FailedAssertion>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A check of the points of a span.
pub struct Check<'a> {
    pub requirement: Requirement,
    pub site: NodeId,
    /// The positions that an error names.
    pub address: &'a Address,
    pub span: Span,
    pub record: &'a AssertionRecord,
}

impl Check<'_> {
    /// Copies values, with the fallback in place of those that violate the requirement.
    ///
    /// # Safety
    /// `values` must be of this type, and `out` valid for as many values.
    // The cast to i64 is none where the value is i64.
    #[allow(clippy::unnecessary_cast)]
    pub unsafe fn run(&self, values: View, dtype: DType, out: *mut u8) -> View {
        let n = if values.is_scalar { 1 } else { self.span.len() };
        // SAFETY: the caller's.
        unsafe {
            with_type!(dtype, T => {
                let out = slice_mut::<T>(out, n);
                copy(values.operand::<T>(n), out);
                for (at, value) in out.iter_mut().enumerate() {
                    let wide = *value as i64;
                    if !self.requirement.holds(wide) {
                        self.record(at, wide);
                        *value = self.requirement.fallback() as T;
                    }
                }
            })
        }
        View::block(out, n)
    }

    fn record(&self, at: usize, value: i64) {
        let Span { start, width, pitch, .. } = self.span;
        let point = start + at / width * pitch + at % width;
        // A point outside the checked tensor has a fill value and no position.
        if let Some(position) = self.address.element(point) {
            self.record.record(FailedAssertion { site: self.site, position, value });
        }
    }
}
