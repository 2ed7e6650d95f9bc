//! A GPU as a device of the engine.

use super::api::GpuMemory;
use super::executable::GpuExecutable;
use super::plan_memory::own_memory;
use super::queue::PlanGpu;
use crate::autotune::Tuning;
use crate::bindings::check_range;
use crate::device::{Device, DeviceBuffer, DeviceError, DeviceInfo, Executable, Staging};
use crate::hoisted;
use engine_core::device_model::DeviceModel;
use engine_core::plan::Plan;
use std::sync::Arc;

/// A GPU that an API has opened.
pub struct GpuDevice<G> {
    pub(super) gpu: Arc<G>,
}

impl<G: PlanGpu> Device for GpuDevice<G> {
    fn info(&self) -> DeviceInfo {
        let state = self.gpu.state();
        DeviceInfo {
            name: state.name.clone(),
            kind: G::KIND,
            memory_bytes: state.memory_bytes,
            details: self.gpu.details(),
        }
    }

    fn model(&self) -> DeviceModel {
        self.gpu.state().model
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        Ok(DeviceBuffer::new(bytes, Arc::new(G::Memory::new(&self.gpu, bytes)?)))
    }

    fn staging(&self, n_slots: usize, slot_bytes: usize) -> Result<Option<Box<dyn Staging>>, DeviceError> {
        self.gpu.staging(n_slots, slot_bytes)
    }

    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let memory = own_memory::<G::Memory>(buffer, &self.gpu)?;
        check_range(offset, bytes.len(), memory.bytes())?;
        buffer.note_write();
        if bytes.is_empty() { Ok(()) } else { memory.write(offset, bytes) }
    }

    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let memory = own_memory::<G::Memory>(buffer, &self.gpu)?;
        check_range(offset, bytes.len(), memory.bytes())?;
        if bytes.is_empty() { Ok(()) } else { memory.read(offset, bytes) }
    }

    fn take_notes(&self) -> Vec<String> {
        [self.gpu.take_notes(), self.gpu.state().choices.take_notes()].concat()
    }

    fn tuning(&self) -> Option<Tuning> {
        self.gpu.state().tuner.tuning()
    }

    fn adopt(&self, tuning: &Tuning) -> bool {
        self.gpu.state().tuner.adopt(tuning)
    }

    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError> {
        hoisted::prepare(self, plan, &|plan| Ok(Box::new(GpuExecutable::new(&self.gpu, plan, seed)?)))
    }
}
