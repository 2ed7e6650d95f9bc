//! The wgpu device: generated kernels as WGSL on any GPU with Vulkan, Metal or DX12.
//!
//! CubeCL compiles kernels but does not execute them. Its client allocates memory at each launch, whereas a plan has one
//! arena, and a step is a list of dispatches with fixed bind groups. The modules, from the lowest layer to the highest:
//!
//! - `adapter` finds GPUs, `errors` catches errors of calls, `pipeline` and `pipeline_cache` hold compiled kernels.
//! - `context` owns an open GPU, `memory` owns its buffers, `compile` turns kernels into pipelines.
//! - `probe` tests behaviour that WGSL does not guarantee, and `open` opens a GPU with its model.
//! - `matrix` writes matmuls on matrix units, `steps` prepares programs, `bind_groups` binds their arguments.
//! - `timestamps` measures compute passes, and `autotune` times programs with them.
//! - `arena` holds a plan's buffers, `submission` limits the length of queue submissions.
//! - `executable` runs a plan.

mod adapter;
mod arena;
mod autotune;
mod bind_groups;
mod compile;
mod context;
mod errors;
mod executable;
mod matrix;
mod memory;
mod open;
mod pipeline;
mod pipeline_cache;
mod probe;
mod steps;
mod submission;
mod timestamps;

#[cfg(test)]
mod tests;

use crate::autotune::Tuning;
use crate::device::{Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable};
use crate::gpu;
use crate::panics::caught;
pub use adapter::Adapter;
use context::Context;
use engine_core::codegen::{CodegenError, KernelSpec};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::Kernel;
use engine_core::plan::Plan;
use executable::WgpuExecutable;
use memory::Memory;
use open::{Request, open};
use pipeline_cache::PipelineFiles;
use std::sync::Arc;

/// The WGSL of a kernel's launches for a typical desktop GPU. Needs no GPU.
///
/// # Errors
/// If the kernel uses an operation that such a GPU or WGSL lacks.
pub fn texts(kernel: &Kernel) -> Result<Vec<String>, CodegenError> {
    KernelSpec::launches(kernel, DeviceModel::DESKTOP)?.iter().map(text).collect()
}

/// The WGSL of a launch for its target GPU. Needs no GPU.
///
/// # Errors
/// If the kernel uses an operation that the target or WGSL lacks.
pub fn text(fused: &KernelSpec) -> Result<String, CodegenError> {
    let made = caught(|| compile::text(fused)).map_err(CodegenError::Compiler)?;
    made.map(|source| source.text)
}

/// A GPU through wgpu.
pub struct WgpuDevice {
    context: Arc<Context>,
}

impl WgpuDevice {
    /// Opens a GPU.
    ///
    /// # Errors
    /// If there is no such GPU, or it does not start. The message names the cause and a fix.
    pub fn new(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(WgpuDevice { context: open(adapter, Request::All)? })
    }

    /// Opens a GPU and relies only on behaviour that WGSL guarantees: threads exchange values through workgroup memory, and
    /// halves are converted bit by bit.
    ///
    /// # Errors
    /// As [`WgpuDevice::new`].
    pub fn plain(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(WgpuDevice { context: open(adapter, Request::Guaranteed)? })
    }

    /// Opens a GPU without optional features and with the default limits of WebGPU.
    ///
    /// # Errors
    /// As [`WgpuDevice::new`].
    pub fn least(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(WgpuDevice { context: open(adapter, Request::Within(Box::default()))? })
    }

    /// The number of hardware GPUs.
    pub fn count() -> usize {
        adapter::count()
    }
}

impl Device for WgpuDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.context.name.clone(),
            kind: DeviceKind::Wgpu,
            memory_bytes: 0,
            details: self.context.details(),
        }
    }

    fn model(&self) -> DeviceModel {
        self.context.model
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        Ok(DeviceBuffer::new(bytes, Arc::new(Memory::new(&self.context, bytes)?)))
    }

    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        gpu::own_memory::<Memory>(buffer, &self.context)?.write(offset, bytes)
    }

    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        gpu::own_memory::<Memory>(buffer, &self.context)?.read(offset, bytes)
    }

    fn tuning(&self) -> Option<Tuning> {
        self.context.tuner.tuning()
    }

    fn adopt(&self, tuning: &Tuning) -> bool {
        self.context.tuner.adopt(tuning)
    }

    fn take_notes(&self) -> Vec<String> {
        let of_kernels = self.context.pipeline_files.as_ref().map_or(vec![], PipelineFiles::take_notes);
        [of_kernels, self.context.choices.take_notes()].concat()
    }

    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError> {
        Ok(Box::new(WgpuExecutable::new(&self.context, plan, seed)?))
    }
}
