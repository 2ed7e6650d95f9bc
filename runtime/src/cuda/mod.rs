//! The CUDA device: generated kernels compiled by NVRTC, matmuls by cuBLASLt, steps replayed as CUDA graphs.
//!
//! Opening a device opens the three libraries (the driver, NVRTC, cuBLASLt). A process that opens no CUDA device runs
//! without them. The modules, from the lowest layer to the highest:
//!
//! - `libraries` opens NVIDIA's libraries, `context` owns the CUDA context, `memory` owns allocations.
//! - `compile` turns CUDA C++ into loaded kernels, `cublaslt` holds the library's handle, `error` words the driver's errors.
//! - `event`, `streams` and `graph` wrap events, the streams of a plan and graph capture.
//! - `clock` times work, `descriptor` describes the library's matmuls, `algorithm` times their algorithms, `product` chooses.
//! - `steps` prepares programs, `autotune` times them, `staging` copies rows from pinned memory.
//! - `executable` runs a plan.

mod algorithm;
mod autotune;
mod clock;
mod compile;
mod context;
mod cublaslt;
mod descriptor;
mod error;
mod event;
mod executable;
mod graph;
mod libraries;
mod memory;
mod product;
mod staging;
mod steps;
mod streams;

#[cfg(test)]
mod tests;

use crate::autotune::Tuning;
use crate::device::{Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable, Staging};
use crate::gpu;
use compile::Known;
use context::Context;
use engine_core::device_model::DeviceModel;
use engine_core::plan::Plan;
use executable::CudaExecutable;
use memory::Memory;
use staging::CudaStaging;
use std::sync::Arc;

/// An NVIDIA GPU.
pub struct CudaDevice {
    context: Arc<Context>,
}

impl CudaDevice {
    /// Opens the GPU of this number.
    ///
    /// # Errors
    /// If the driver, the GPU, NVRTC or cuBLASLt is missing, or their versions do not fit. The message names the cause.
    pub fn new(ordinal: usize) -> Result<CudaDevice, DeviceError> {
        Ok(CudaDevice { context: Context::new(ordinal, Known::All)? })
    }

    /// Opens the GPU of this number as if it were newer than NVRTC. NVRTC then compiles to PTX for the newest older
    /// architecture, and the driver compiles the PTX for the GPU.
    ///
    /// # Errors
    /// As [`CudaDevice::new`].
    pub fn through_ptx(ordinal: usize) -> Result<CudaDevice, DeviceError> {
        Ok(CudaDevice { context: Context::new(ordinal, Known::Older)? })
    }

    /// The number of GPUs that the driver lists.
    ///
    /// # Errors
    /// If the driver is missing or does not start.
    pub fn count() -> Result<usize, DeviceError> {
        context::count()
    }
}

impl Device for CudaDevice {
    fn info(&self) -> DeviceInfo {
        let context = &self.context;
        DeviceInfo {
            name: context.name.clone(),
            kind: DeviceKind::Cuda,
            memory_bytes: context.memory_bytes,
            details: context.details(),
        }
    }

    fn model(&self) -> DeviceModel {
        self.context.model
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        Ok(DeviceBuffer::new(bytes, Arc::new(Memory::new(&self.context, bytes)?)))
    }

    fn staging(&self, n_slots: usize, slot_bytes: usize) -> Result<Option<Box<dyn Staging>>, DeviceError> {
        Ok(Some(Box::new(CudaStaging::new(&self.context, n_slots, slot_bytes)?)))
    }

    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        gpu::own_memory::<Memory>(buffer, &self.context)?.write(offset, bytes)
    }

    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        gpu::own_memory::<Memory>(buffer, &self.context)?.read(offset, bytes)
    }

    fn take_notes(&self) -> Vec<String> {
        self.context.kernels.disk.take_notes()
    }

    fn tuning(&self) -> Option<Tuning> {
        self.context.tuner.tuning()
    }

    fn adopt(&self, tuning: &Tuning) -> bool {
        self.context.tuner.adopt(tuning)
    }

    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError> {
        Ok(Box::new(CudaExecutable::new(&self.context, plan, seed)?))
    }
}
