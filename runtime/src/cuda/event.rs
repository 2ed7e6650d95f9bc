//! Points in time on the GPU.

use cudarc::driver::result;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUevent_wait_flags, CUstream};

/// A point in time on the GPU.
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
        // SAFETY: both live.
        unsafe { result::event::record(self.0, stream) }
    }

    /// Lets what comes next on a stream wait for it.
    pub fn hold(&self, stream: CUstream) -> Result<(), result::DriverError> {
        // SAFETY: both live, and the event was recorded before.
        unsafe { result::stream::wait_event(stream, self.0, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
    }

    /// Waits for it on the host.
    pub fn wait(&self) -> Result<(), result::DriverError> {
        // SAFETY: it lives.
        unsafe { result::event::synchronize(self.0) }
    }

    /// The time between the two, both of which have been waited for.
    pub fn seconds_to(&self, later: &Event) -> Result<f64, result::DriverError> {
        // SAFETY: both have been recorded and waited for.
        Ok(f64::from(unsafe { result::event::elapsed(self.0, later.0) }?) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}
