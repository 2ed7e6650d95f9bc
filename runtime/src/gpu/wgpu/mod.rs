//! The wgpu device: generated kernels as WGSL on any GPU with Vulkan, Metal or DX12.
//!
//! CubeCL compiles kernels but does not execute them. Its client allocates memory at each launch, whereas a plan has one
//! arena, and a step is a list of dispatches with fixed bind groups. The modules, from the lowest layer to the highest:
//!
//! - `adapter` finds GPUs, `errors` catches errors of calls, `pipeline_cache` holds compiled kernels.
//! - `context` owns an open GPU, `memory` owns its buffers, `compile` turns texts of kernels into pipelines.
//! - `probe` tests behaviour that WGSL does not guarantee, and `open` opens a GPU with its model.
//! - `dispatch` binds the arguments of kernels.
//! - `timestamps` measures compute passes, and `clock` times programs with them.
//! - `queue` runs the steps of a plan.

mod adapter;
mod clock;
mod compile;
mod context;
mod dispatch;
mod errors;
mod memory;
mod open;
mod pipeline_cache;
mod probe;
mod queue;
mod timestamps;

#[cfg(test)]
mod tests;

use super::GpuDevice;
use super::api::{Gpu, GpuProgram, GpuState, Located, Matmul};
use super::prepared::Work;
use super::queue::PlanGpu;
use super::source::Source;
use super::wgsl;
pub use super::wgsl::{text, texts};
use crate::device::{DeviceError, DeviceKind};
pub use adapter::Adapter;
use context::Context;
use engine_core::codegen::KernelSpec;
use engine_core::plan::ALIGNMENT;
use engine_core::program::{Capability, MatmulCall, Multiplier, Place};
use memory::WgpuMemory;
use open::{Request, open};
use pipeline_cache::{Pipeline, PipelineFiles};
use queue::WgpuQueue;
use std::convert::Infallible;
use std::sync::Arc;

/// A GPU through wgpu.
pub type WgpuDevice = GpuDevice<Context>;

impl WgpuDevice {
    /// Opens a GPU.
    ///
    /// # Errors
    /// If there is no such GPU, or it does not start. The message names the cause and a fix.
    pub fn new(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(GpuDevice { gpu: open(adapter, Request::All)? })
    }

    /// Opens a GPU and relies only on behaviour that WGSL guarantees: threads exchange values through workgroup memory, and
    /// halves are converted bit by bit.
    ///
    /// # Errors
    /// As [`WgpuDevice::new`].
    pub fn plain(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(GpuDevice { gpu: open(adapter, Request::Guaranteed)? })
    }

    /// Opens a GPU without optional features and with the default limits of WebGPU.
    ///
    /// # Errors
    /// As [`WgpuDevice::new`].
    pub fn least(adapter: Adapter) -> Result<WgpuDevice, DeviceError> {
        Ok(GpuDevice { gpu: open(adapter, Request::Within(Box::default()))? })
    }

    /// The number of hardware GPUs.
    pub fn count() -> usize {
        adapter::count()
    }
}

impl Gpu for Context {
    const KIND: DeviceKind = DeviceKind::Wgpu;
    const STEP_STRIDE: usize = ALIGNMENT;

    type Memory = WgpuMemory;
    type Kernel = Pipeline;
    type Product = Infallible;

    fn state(&self) -> &GpuState<Pipeline> {
        &self.state
    }

    fn details(&self) -> Vec<(String, String)> {
        Context::details(self)
    }

    fn take_notes(&self) -> Vec<String> {
        self.pipeline_files.as_ref().map_or(vec![], PipelineFiles::take_notes)
    }

    fn most_memory_bytes(&self) -> u64 {
        self.limits.max_buffer_size
    }

    fn source(&self, owner: &str, kernel: &KernelSpec) -> Result<Source, DeviceError> {
        wgsl::source_within_limits(&self.state, owner, kernel)
    }

    fn compile(&self, owner: &str, source: &Source) -> Result<Pipeline, DeviceError> {
        compile::pipeline(self, owner, source)
    }

    fn matmul(self: &Arc<Self>, call: &MatmulCall) -> Result<Option<Matmul<Infallible>>, DeviceError> {
        let Multiplier::MatrixUnits(block) = call.multiplier else { return Ok(None) };
        Ok(wgsl::matmul(&block, call).map(|(source, grid)| Matmul::Kernel(source, grid)))
    }

    fn capability(self: &Arc<Self>, call: &MatmulCall) -> Result<Capability, DeviceError> {
        Ok(match call.multiplier {
            Multiplier::MatrixUnits(_) if self.state.model.has_matrix_units => Capability::Open,
            _ => Capability::None,
        })
    }

    fn refusal(work: &Work) -> Option<&'static str> {
        let arguments = match work {
            Work::Kernel { arguments, .. } => arguments,
            // The steps of a trip are checked one by one.
            Work::Loop { .. } => return None,
            _ => return Some("wgpu has kernels only"),
        };
        let is_odd =
            |place: &Place| matches!(place, Place::Operand { offset, .. } if offset % ALIGNMENT != 0);
        arguments.iter().any(is_odd).then_some("it binds tensors from aligned places only")
    }

    fn seconds(
        self: &Arc<Self>,
        program: &GpuProgram<Context>,
        memory: &dyn Located<WgpuMemory>,
        least: f64,
    ) -> Result<f64, DeviceError> {
        clock::seconds(self, program, memory, least)
    }
}

impl PlanGpu for Context {
    type Queue = WgpuQueue;
}
