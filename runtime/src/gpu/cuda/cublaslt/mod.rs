//! cuBLASLt, NVIDIA's library of matmuls: its handle, how it describes matmuls, and its algorithms.

mod algorithm;
mod descriptor;

use super::error::no_room_for;
use crate::device::DeviceError;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
pub use descriptor::Descriptor;

/// An open handle of cuBLASLt.
pub struct Library {
    pub handle: sys::cublasLtHandle_t,
}

// SAFETY: cuBLASLt permits the use of a handle by any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The context of the GPU must be current. `is_there` says whether the library is open.
    pub fn new(is_there: bool) -> Result<Library, DeviceError> {
        if !is_there {
            return Err(DeviceError::Failed(
                "NVIDIA's library of matrix products is missing: libcublasLt.so is not on the library path; install the \
                 CUDA toolkit, or add its folder to LD_LIBRARY_PATH"
                    .to_string(),
            ));
        }
        let handle = result::create_handle().map_err(|error| failed("starting cuBLASLt", error))?;
        Ok(Library { handle })
    }

    /// `13.0.2`
    pub fn version_text(&self) -> String {
        // SAFETY: the library is open.
        let version = unsafe { sys::cublasLtGetVersion() };
        // The version has five or six digits, as in 120805 and 130002.
        format!("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once. `drop` cannot report an error.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// The error of a library call; `what` names the operation.
pub fn failed(what: &str, error: CublasError) -> DeviceError {
    match error.0 {
        sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => no_room_for(what),
        _ => DeviceError::Failed(format!("{what}: cuBLASLt says {error}")),
    }
}
