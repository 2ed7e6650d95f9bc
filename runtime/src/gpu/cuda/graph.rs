//! Graph capture: steps are captured once and replayed as one graph launch.

use super::error::failed;
use crate::device::DeviceError;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaStream};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// A capturing thread holds the write lock. A thread in which the driver or a library loads code holds a read lock.
static CAPTURES: RwLock<()> = RwLock::new(());

/// Keeps all threads from capturing until the guard is dropped. The first launch of a kernel and the opening of a GPU
/// synchronize the whole GPU, which fails during a capture.
pub fn exclude_captures() -> RwLockReadGuard<'static, ()> {
    CAPTURES.read().unwrap_or_else(PoisonError::into_inner)
}

/// Captures the work that `enqueue` puts on the stream as a graph. The work does not run yet.
pub fn capture(
    stream: &Arc<CudaStream>,
    enqueue: impl FnOnce() -> Result<(), DeviceError>,
) -> Result<CudaGraph, DeviceError> {
    let _alone = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
    // Other threads may allocate and copy during the capture.
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    stream.begin_capture(mode).map_err(|error| failed("starting to capture a step", &error))?;
    let queued = enqueue();
    let graph = stream.end_capture(CUgraphInstantiate_flags(0));
    queued?;
    let graph = graph.map_err(|error| failed("capturing a step", &error))?;
    graph.ok_or_else(|| DeviceError::Failed("capturing a step: the NVIDIA driver made no graph".to_string()))
}
