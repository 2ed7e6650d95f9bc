//! Device memory, and pinned host memory.

use super::context::Context;
use super::error::{failed, free_bytes};
use crate::bindings::check_range;
use crate::device::DeviceError;
use crate::gpu::api::GpuMemory;
use cudarc::driver::result;
use cudarc::driver::sys::{CUdeviceptr, CUresult, CUstream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Zero-initialized device memory, aligned to 256 bytes.
pub struct CudaMemory {
    start: CUdeviceptr,
    bytes: usize,
    context: Arc<Context>,
}

impl GpuMemory for CudaMemory {
    type Gpu = Context;

    fn new(context: &Arc<Context>, bytes: usize) -> Result<CudaMemory, DeviceError> {
        context.enter()?;
        // SAFETY: the context is entered; the memory is freed once, when it is dropped.
        let start = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                DeviceError::out_of_memory(&context.state.name, bytes, free_bytes())
            }
            _ => failed("allocating memory", &error),
        })?;
        let memory = CudaMemory { start, bytes, context: Arc::clone(context) };
        memory.clear()?;
        Ok(memory)
    }

    fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.copy("copying to the GPU", |stream| {
            // SAFETY: the range lies within the memory, and the bytes live until the copy is done.
            unsafe { result::memcpy_htod_async(self.start + offset as u64, bytes, stream) }
        })
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.copy("copying from the GPU", |stream| {
            // SAFETY: as above.
            unsafe { result::memcpy_dtoh_async(bytes, self.start + offset as u64, stream) }
        })
    }

    fn clear(&self) -> Result<(), DeviceError> {
        self.set(0)
    }
}

impl CudaMemory {
    /// The device address of its first byte.
    pub fn start(&self) -> CUdeviceptr {
        self.start
    }

    /// The range of its device addresses.
    pub fn range(&self) -> Range<CUdeviceptr> {
        self.start..self.start + self.bytes as u64
    }

    /// Sets every byte to `value`.
    pub fn set(&self, value: u8) -> Result<(), DeviceError> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.copy("setting memory", |stream| {
            // SAFETY: the range is all of this memory, and no kernel uses it.
            unsafe { result::memset_d8_async(self.start, value, self.bytes, stream) }
        })
    }

    /// Enqueues a copy from pinned memory, which must stay unchanged until the stream has executed the copy.
    pub fn fetch(&self, offset: usize, bytes: &[u8], stream: CUstream) -> Result<(), DeviceError> {
        check_range(offset, bytes.len(), self.bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        // SAFETY: the range lies within the memory, and the caller keeps the bytes.
        let started = unsafe { result::memcpy_htod_async(self.start + offset as u64, bytes, stream) };
        started.map_err(|error| failed("copying to the GPU", &error))
    }

    /// Starts a copy and waits for it.
    fn copy(
        &self,
        what: &str,
        start: impl FnOnce(CUstream) -> Result<(), result::DriverError>,
    ) -> Result<(), DeviceError> {
        self.context.enter()?;
        let stream = self.context.copies();
        // SAFETY: the stream lives as long as the context.
        let done = start(stream).and_then(|()| unsafe { result::stream::synchronize(stream) });
        done.map_err(|error| failed(what, &error))
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        // A context that cannot be entered any more has freed its memory itself. `drop` cannot report an error.
        if self.context.enter().is_ok() {
            // SAFETY: allocated by `new`, freed once.
            let _ = unsafe { result::free_sync(self.start) };
        }
    }
}

/// Pinned host memory, which the GPU copies from and to directly.
pub struct Pinned {
    start: *mut u32,
    n_words: usize,
    context: Arc<Context>,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: shared references read it, or its first word as an atomic one.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub fn new(context: &Arc<Context>, n_words: usize) -> Result<Pinned, DeviceError> {
        context.enter()?;
        // SAFETY: the context is entered; the memory is freed once, when it is dropped.
        let start = unsafe { result::malloc_host(4 * n_words, 0) };
        let start = start.map_err(|error| match error.0 {
            // The driver does not report the free memory of the host.
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                DeviceError::out_of_memory("the host (page-locked)", 4 * n_words, None)
            }
            _ => failed("pinning host memory", &error),
        })?;
        let start = start.cast::<u32>();
        // SAFETY: the allocation has that size.
        unsafe { start.write_bytes(0, n_words) };
        Ok(Pinned { start, n_words, context: Arc::clone(context) })
    }

    /// Its contents as words. No copy to it may be in flight.
    pub fn words(&mut self) -> &mut [u32] {
        // SAFETY: the allocation has that size and is owned by `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.n_words) }
    }

    /// Its first word, which kernels may read at any time.
    pub fn first(&self) -> &AtomicU32 {
        // SAFETY: the allocation has a word at least, aligned, and lives as long as the reference.
        unsafe { AtomicU32::from_ptr(self.start) }
    }

    /// Its contents as bytes. No copy to it may be in flight.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.start.cast(), 4 * self.n_words) }
    }

    /// Its contents as bytes to write. No copy from or to it may be in flight.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), 4 * self.n_words) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: allocated by `new`, freed once.
            let _ = unsafe { result::free_host(self.start.cast()) };
        }
    }
}
