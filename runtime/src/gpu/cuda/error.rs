//! The errors of CUDA's driver.

use crate::device::DeviceError;
use cudarc::driver::result::{DriverError, mem_get_info};
use cudarc::driver::sys::CUresult;

/// Free bytes of the GPU whose context is current.
pub fn free_bytes() -> Option<u64> {
    mem_get_info().ok().map(|(free, _)| free as u64)
}

/// The error of a driver call; `what` names the operation.
pub fn failed(what: &str, error: &DriverError) -> DeviceError {
    let text = error.error_string().ok().and_then(|text| text.to_str().ok()).unwrap_or("an unknown error");
    let why = format!("{what}: the NVIDIA driver says: {text}");
    match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => no_room_for(what),
        fatal if is_fatal(fatal) => DeviceError::Lost { device: "the GPU".to_string(), why },
        _ => DeviceError::Failed(why),
    }
}

/// The driver or a library has no memory for its own objects, such as code, graphs and streams.
pub fn no_room_for(what: &str) -> DeviceError {
    let largest = format!("; {what} takes some");
    DeviceError::OutOfMemory {
        device: "the GPU".to_string(),
        bytes: 0,
        free: free_bytes(),
        largest,
        span: None,
    }
}

/// Whether an error corrupts the context, so that every later call fails with it.
fn is_fatal(error: CUresult) -> bool {
    matches!(
        error,
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
    )
}
