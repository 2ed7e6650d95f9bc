//! The clock of autotuning on CUDA: events around a captured graph of many repetitions.

use super::error::failed;
use super::event::Event;
use super::graph::{capture, exclude_captures};
use crate::device::DeviceError;
use cudarc::driver::CudaStream;
use std::sync::Arc;

/// The time of the work that `enqueue` puts on the stream.
pub fn seconds(
    stream: &Arc<CudaStream>,
    enqueue: impl Fn() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let driver_error = |error| failed("trying a kernel", &error);
    // The libraries load code at first use, which cannot be captured.
    {
        let _excluded = exclude_captures();
        enqueue()?;
    }
    let graph = capture(stream, || (0..N_REPETITIONS).try_for_each(|_| enqueue()))?;
    graph.launch().map_err(driver_error)?;
    let (begin, end) = (Event::new().map_err(driver_error)?, Event::new().map_err(driver_error)?);
    begin.record(stream.cu_stream()).map_err(driver_error)?;
    graph.launch().map_err(driver_error)?;
    end.record(stream.cu_stream()).map_err(driver_error)?;
    stream.synchronize().map_err(driver_error)?;
    Ok(begin.seconds_to(&end).map_err(driver_error)? / N_REPETITIONS as f64)
}

/// Repetitions of a measurement, in one graph.
const N_REPETITIONS: usize = 16;
