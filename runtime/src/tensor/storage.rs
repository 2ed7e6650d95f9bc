//! The memory of host tensors: aligned bytes of their own, or a part of a file that is mapped into memory.

use super::element::Element;
use memmap2::Mmap;
use std::alloc::{self, Layout};
use std::sync::Arc;

/// Tensors start at a multiple of this.
pub(super) const ALIGNMENT: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

/// The bytes of a tensor, from a multiple of [`ALIGNMENT`] on.
pub(super) enum Storage {
    Own(AlignedBytes),
    /// Bytes of a file, which are only read. The system may drop such pages and read them again.
    Mapped {
        map: Arc<Mmap>,
        offset: usize,
        len: usize,
    },
}

impl Storage {
    /// A part of a mapped file; none if it does not start at a multiple of [`ALIGNMENT`], or is not inside the file.
    pub(super) fn mapped(map: &Arc<Mmap>, offset: usize, len: usize) -> Option<Storage> {
        let start = map.get(offset..)?.get(..len)?.as_ptr();
        let is_aligned = start.addr().is_multiple_of(ALIGNMENT);
        is_aligned.then(|| Storage::Mapped { map: map.clone(), offset, len })
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Storage::Own(bytes) => bytes.len,
            Storage::Mapped { len, .. } => *len,
        }
    }

    pub(super) fn as_slice<T: Element>(&self) -> &[T] {
        match self {
            Storage::Own(bytes) => bytes.as_slice(),
            Storage::Mapped { map, offset, len } => {
                let start = map[*offset..*offset + *len].as_ptr();
                // SAFETY: the map has these bytes, which start at a multiple of 64; `T` is an `Element`.
                unsafe { std::slice::from_raw_parts(start.cast(), len / size_of::<T>()) }
            }
        }
    }

    /// The bytes for writing. Those of a file are copied first.
    pub(super) fn own(&mut self) -> &mut AlignedBytes {
        if let Storage::Mapped { .. } = self {
            *self = self.clone();
        }
        match self {
            Storage::Own(bytes) => bytes,
            Storage::Mapped { .. } => engine_core::bug!("a copy of a mapped file is mapped"),
        }
    }
}

impl Clone for Storage {
    /// A copy in memory of its own.
    fn clone(&self) -> Storage {
        let from = self.as_slice::<u8>();
        let mut bytes = AlignedBytes::zeroed(from.len())
            .unwrap_or_else(|| alloc::handle_alloc_error(Layout::for_value(from)));
        bytes.as_mut_slice::<u8>().copy_from_slice(from);
        Storage::Own(bytes)
    }
}

impl PartialEq for Storage {
    /// Equality of bits: a NaN equals itself, and the two zeros differ.
    fn eq(&self, other: &Self) -> bool {
        self.as_slice::<u8>() == other.as_slice::<u8>()
    }
}

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
