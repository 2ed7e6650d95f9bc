//! Staging of rows: slots of pinned memory, and a stream of asynchronous copies to the GPU.

use super::context::Context;
use super::error::failed;
use super::event::Event;
use super::memory::{CudaMemory, Pinned};
use crate::device::{Arrival, DeviceBuffer, DeviceError, Staging};
use crate::gpu::plan_memory::own_memory;
use cudarc::driver::CudaStream;
use std::ops::Range;
use std::sync::Arc;

/// Pinned slots with the stream of their copies.
pub struct CudaStaging {
    context: Arc<Context>,
    stream: Arc<CudaStream>,
    slots: Vec<Slot>,
}

struct Slot {
    memory: Pinned,
    /// Recorded after the last copy out of the slot.
    copied: Arc<Event>,
}

impl CudaStaging {
    pub fn new(
        context: &Arc<Context>,
        n_slots: usize,
        slot_bytes: usize,
    ) -> Result<CudaStaging, DeviceError> {
        context.enter()?;
        let slot = |_| {
            let copied = Event::new().map_err(|error| failed("making an event", &error))?;
            let memory = Pinned::new(context, slot_bytes.div_ceil(4).max(1))?;
            Ok(Slot { memory, copied: Arc::new(copied) })
        };
        let slots = (0..n_slots).map(slot).collect::<Result<_, DeviceError>>()?;
        Ok(CudaStaging { context: Arc::clone(context), stream: context.new_stream()?, slots })
    }
}

impl Staging for CudaStaging {
    fn slot(&mut self, slot: usize) -> Result<&mut [u8], DeviceError> {
        self.context.enter()?;
        let Slot { memory, copied } = &mut self.slots[slot];
        // Waiting for an event that was never recorded returns at once.
        copied.wait().map_err(|error| failed("waiting for a copy to the GPU", &error))?;
        Ok(memory.bytes_mut())
    }

    fn send(
        &mut self,
        slot: usize,
        bytes: Range<usize>,
        buffer: &DeviceBuffer,
        offset: usize,
    ) -> Result<(), DeviceError> {
        let memory = own_memory::<CudaMemory>(buffer, &self.context)?;
        buffer.note_write();
        memory.fetch(offset, &self.slots[slot].memory.bytes()[bytes], self.stream.cu_stream())
    }

    fn arrival(&mut self, slot: usize) -> Result<Arrival, DeviceError> {
        self.context.enter()?;
        let copied = &self.slots[slot].copied;
        copied.record(self.stream.cu_stream()).map_err(|error| failed("recording an event", &error))?;
        Ok(Arrival::new(Arc::clone(copied)))
    }
}

impl Drop for CudaStaging {
    fn drop(&mut self) {
        // Pinned memory must not be freed during a copy. A failure is reported by the run that waits for the copy.
        let _ = self.stream.synchronize();
    }
}
