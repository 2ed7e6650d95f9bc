//! Steps captured once and replayed as one launch.

use super::context::failed;
use crate::device::DeviceError;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaStream};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Written by who captures, read by who has the driver or a library load something.
static CAPTURES: RwLock<()> = RwLock::new(());

/// Keeps all threads from capturing: what waits for the whole GPU, as the first launch of a kernel and the opening of a GPU
/// do, fails beside a capture.
pub fn apart_from_captures() -> RwLockReadGuard<'static, ()> {
    CAPTURES.read().unwrap_or_else(PoisonError::into_inner)
}

/// What `enqueue` puts on the stream, as a graph; nothing runs yet.
pub fn capture(
    stream: &Arc<CudaStream>,
    enqueue: impl FnOnce() -> Result<(), DeviceError>,
) -> Result<CudaGraph, DeviceError> {
    let _alone = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
    // Other threads may allocate and copy meanwhile.
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    stream.begin_capture(mode).map_err(|error| failed("starting to capture a step", &error))?;
    let queued = enqueue();
    let graph = stream.end_capture(CUgraphInstantiate_flags(0));
    queued?;
    let graph = graph.map_err(|error| failed("capturing a step", &error))?;
    graph.ok_or_else(|| DeviceError::Failed("capturing a step: the NVIDIA driver made no graph".to_string()))
}
