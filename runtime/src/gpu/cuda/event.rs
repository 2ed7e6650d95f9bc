//! CUDA events.

use cudarc::driver::result;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUevent_wait_flags, CUstream};

/// A CUDA event.
pub struct Event(pub CUevent);

// SAFETY: a handle of one owner, which the driver lets any thread of the context use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub fn new() -> Result<Event, result::DriverError> {
        Ok(Event(result::event::create(CUevent_flags::CU_EVENT_DEFAULT)?))
    }

    pub fn record(&self, stream: CUstream) -> Result<(), result::DriverError> {
        // SAFETY: the stream and the event live.
        unsafe { result::event::record(self.0, stream) }
    }

    /// Makes later work on a stream wait for the event.
    pub fn hold(&self, stream: CUstream) -> Result<(), result::DriverError> {
        // SAFETY: the stream and the event live, and the event was recorded before.
        unsafe { result::stream::wait_event(stream, self.0, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
    }

    /// Blocks the host until the event has occurred.
    pub fn wait(&self) -> Result<(), result::DriverError> {
        // SAFETY: the event lives.
        unsafe { result::event::synchronize(self.0) }
    }

    /// Seconds from this event to a later one. The host has waited for both.
    pub fn seconds_to(&self, later: &Event) -> Result<f64, result::DriverError> {
        // SAFETY: both events were recorded and have occurred.
        Ok(f64::from(unsafe { result::event::elapsed(self.0, later.0) }?) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}
