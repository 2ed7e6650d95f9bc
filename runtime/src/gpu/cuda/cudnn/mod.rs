//! cuDNN, NVIDIA's library of convolutions, which need not be there: its handle, how it describes convolutions, and its
//! algorithms.

mod algorithm;
mod descriptor;

use super::error::no_room_for;
use super::graph::exclude_captures;
use crate::device::DeviceError;
use cudarc::cudnn::result::CudnnError;
use cudarc::cudnn::sys;
use cudarc::driver::sys::CUstream;
pub use descriptor::Descriptor;
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The first version with the interface that the bindings describe.
const OLDEST: usize = 90_000;

/// cuDNN. Its handle is made for the first convolution, which loads hundreds of megabytes.
#[derive(Default)]
pub struct Cudnn {
    handle: OnceLock<Result<Handle, CudnnError>>,
}

/// A handle, which one thread uses at a time.
struct Handle(Mutex<sys::cudnnHandle_t>);

// SAFETY: cuDNN permits the use of a handle by any thread, one at a time.
unsafe impl Send for Handle {}
// SAFETY: as above; the handle lies behind a lock.
unsafe impl Sync for Handle {}

impl Cudnn {
    /// `is_there` says whether the library is open. None also if it is too old.
    pub fn new(is_there: bool) -> Option<Cudnn> {
        (is_there && version() >= OLDEST).then(Cudnn::default)
    }

    /// `9.10.2`
    pub fn version_text(&self) -> String {
        let version = version();
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Makes the handle, unless it is there. The context of the GPU must be current, and no thread of the caller captures.
    ///
    /// # Errors
    /// If the library does not start.
    pub fn start(&self) -> Result<(), DeviceError> {
        let made = self.handle.get_or_init(|| {
            let _excluded = exclude_captures();
            let mut handle = null_mut();
            // SAFETY: the library is open, and the pointer refers to a live handle.
            unsafe { sys::cudnnCreate(&raw mut handle) }.result()?;
            Ok(Handle(Mutex::new(handle)))
        });
        made.as_ref().map(|_| ()).map_err(|&error| failed("starting cuDNN", error))
    }

    /// Runs a call with the handle, on a stream; the library must have started.
    ///
    /// # Errors
    /// If the call fails; `what` names it.
    pub fn call<T>(
        &self,
        what: &str,
        stream: CUstream,
        call: impl FnOnce(sys::cudnnHandle_t) -> Result<T, CudnnError>,
    ) -> Result<T, DeviceError> {
        let Some(Ok(Handle(handle))) = self.handle.get() else {
            return Err(DeviceError::Failed(format!("{what}: cuDNN has not started")));
        };
        let handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle and the stream live.
        let set = unsafe { sys::cudnnSetStream(*handle, stream.cast()) }.result();
        set.and_then(|()| call(*handle)).map_err(|error| failed(what, error))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let handle = *self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: created by `start`, destroyed once. `drop` cannot report an error.
        let _ = unsafe { sys::cudnnDestroy(handle) };
    }
}

fn version() -> usize {
    // SAFETY: the library is open.
    unsafe { sys::cudnnGetVersion() }
}

/// The error of a library call; `what` names the operation.
pub fn failed(what: &str, error: CudnnError) -> DeviceError {
    match error.0 {
        sys::cudnnStatus_t::CUDNN_STATUS_ALLOC_FAILED => no_room_for(what),
        _ => DeviceError::Failed(format!("{what}: cuDNN says {error}")),
    }
}
