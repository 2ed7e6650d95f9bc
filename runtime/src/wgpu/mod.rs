//! The wgpu device: emitted kernels as WGSL on any GPU with Vulkan, Metal or DX12.
//!
//! CubeCL is the compiler here as well, not the executor: its client plans memory anew at each launch, while a plan here
//! has one arena, and a step is a list of dispatches whose bindings never change. From the inside out: `context` owns the
//! GPU, `memory` what is allocated on it, `probe` tries what it can do, `compile` turns kernels into pipelines, `kept` is
//! what is known of them from earlier runs, `steps` makes programs ready, `trial` finds the fastest way for a
//! product, `matrix` is that on matrix units, `arena` a plan's memory, `pace` says how much is handed in at once,
//! `executable` runs a plan.

mod arena;
mod autotune;
mod compile;
mod context;
mod executable;
mod matrix;
mod memory;
mod pipeline_cache;
mod probe;
mod steps;
mod submission;

#[cfg(test)]
mod tests;

use crate::autotune::Tuning;
use crate::device::{Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable};
use crate::gpu;
use crate::panics::caught;
use context::{Asked, Context};
use engine_core::codegen::{CodegenError, KernelSpec};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::Kernel;
use engine_core::plan::Plan;
use executable::WgpuExecutable;
use memory::Memory;
use pipeline_cache::Kept;
use std::sync::Arc;

/// Which GPU to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// The real GPU of this number; discrete ones come first.
    Gpu(usize),
    /// One that is emulated on the processor.
    Software,
}

/// The WGSL of a kernel's launches, for a GPU with the extensions that most have; needs no GPU.
///
/// # Errors
/// If it computes something that such a GPU, or WGSL, cannot.
pub fn texts(kernel: &Kernel) -> Result<Vec<String>, CodegenError> {
    KernelSpec::launches(kernel, DeviceModel::DESKTOP)?.iter().map(text).collect()
}

/// The WGSL of a launch, for the GPU that it was made for; needs no GPU.
///
/// # Errors
/// If it computes something that such a GPU, or WGSL, cannot.
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
    /// If there is no such GPU, or it does not start; the message says which and what to do.
    pub fn new(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(WgpuDevice { context: Context::new(adapter, Asked::All)? })
    }

    /// Opens a GPU and relies on nothing that WGSL leaves open: threads exchange values through memory, and halves are taken
    /// apart bit by bit.
    ///
    /// # Errors
    /// As [`WgpuDevice::new`].
    pub fn plain(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(WgpuDevice { context: Context::new(adapter, Asked::Promised)? })
    }

    /// Opens a GPU as the least that WebGPU promises: without any of its features, and within its default limits.
    ///
    /// # Errors
    /// As [`WgpuDevice::new`].
    pub fn least(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(WgpuDevice { context: Context::new(adapter, Asked::Within(Box::default()))? })
    }

    /// How many real GPUs there are.
    pub fn count() -> usize {
        context::count()
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
        let of_kernels = self.context.kept.as_ref().map_or(vec![], Kept::take_notes);
        [of_kernels, self.context.choices.take_notes()].concat()
    }

    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError> {
        Ok(Box::new(WgpuExecutable::new(&self.context, plan, seed)?))
    }
}
