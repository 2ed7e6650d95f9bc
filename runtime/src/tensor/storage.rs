//! The memory of host tensors: aligned bytes.

use super::element::Element;
use std::alloc::{self, Layout};

/// Tensors start at a multiple of this.
pub(super) const ALIGNMENT: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

#[derive(Clone)]
pub(super) struct AlignedBytes {
    lines: Vec<Line>,
    pub(super) len: usize,
}

impl AlignedBytes {
    /// Zeros, in pages that the system allocates on the first write. `None` if there is no memory.
    pub(super) fn zeroed(len: usize) -> Option<Self> {
        let n_lines = len.div_ceil(ALIGNMENT);
        if n_lines == 0 {
            return Some(AlignedBytes { lines: vec![], len });
        }
        let layout = Layout::array::<Line>(n_lines).ok()?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc::alloc_zeroed(layout) }.cast::<Line>();
        if start.is_null() {
            return None;
        }
        // SAFETY: the memory comes from the global allocator with the layout of `n_lines` lines, and zeros are valid
        // lines.
        let lines = unsafe { Vec::from_raw_parts(start, n_lines, n_lines) };
        Some(AlignedBytes { lines, len })
    }

    /// At most 64 zeros.
    pub(super) fn one_line(len: usize) -> Self {
        AlignedBytes { lines: vec![Line([0; ALIGNMENT])], len }
    }

    /// Drops all bytes except the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.lines.truncate(self.len.div_ceil(ALIGNMENT));
        self.lines.shrink_to_fit();
    }

    pub(super) fn as_slice<T: Element>(&self) -> &[T] {
        // SAFETY: `lines` owns at least `len` initialised bytes at a 64-byte boundary; `T` is an `Element`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len / size_of::<T>()) }
    }

    pub(super) fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len / size_of::<T>()) }
    }
}

impl PartialEq for AlignedBytes {
    /// Equality of bits: a NaN equals itself, and the two zeros differ.
    fn eq(&self, other: &Self) -> bool {
        self.as_slice::<u8>() == other.as_slice::<u8>()
    }
}
