//! Memory that kernels share: buffers, arenas, scratch.

use crate::device::DeviceError;
use crate::tensor::HostTensor;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// Bytes at an address that is a multiple of 64, zeroed or those of a tensor. Threads write disjoint parts through raw
/// pointers, in the order of plans.
pub struct Memory {
    start: *mut u8,
    bytes: usize,
    /// The tensor whose memory it is, if any; such memory is only read.
    owner: Option<HostTensor>,
}

// SAFETY: it is plain memory, and all access through the pointer is `unsafe` with its own argument.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// The bytes that the current thread has allocated since it began.
    pub fn taken_by_this_thread() -> usize {
        TAKEN.get()
    }

    /// New memory, all zeros.
    ///
    /// # Errors
    /// If the system lacks the memory.
    pub fn new(bytes: usize) -> Result<Memory, DeviceError> {
        let refused = || DeviceError::out_of_memory("cpu", bytes, None);
        let layout = Memory::layout(bytes).ok_or_else(refused)?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(refused());
        }
        TAKEN.set(TAKEN.get() + bytes);
        Ok(Memory { start, bytes, owner: None })
    }

    /// The memory of a tensor, for reading.
    pub fn of(tensor: HostTensor) -> Memory {
        let start = tensor.bytes().as_ptr().cast_mut();
        Memory { start, bytes: tensor.bytes().len(), owner: Some(tensor) }
    }

    /// The first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.max(1), 64).ok()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let (None, Some(layout)) = (&self.owner, Memory::layout(self.bytes)) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.start, layout) }
        }
    }
}

/// Sizes of scratch, as structs that have a maximum: the sizes that suffice for both of two.
macro_rules! sizes {
    ($($(#[$doc:meta])* pub struct $name:ident { $($(#[$of:meta])* pub $field:ident: $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name {
            $($(#[$of])* pub $field: $type,)*
        }

        impl $name {
            /// The sizes that suffice for both.
            pub fn max(self, other: $name) -> $name {
                $name { $($field: self.$field.max(other.$field),)* }
            }
        }
    )* };
}
pub(super) use sizes;
