//! Code that both GPU devices share: autotuning, compilation in parallel, bindings, and the error flag.

pub mod autotune;
pub mod noise;
pub mod parallel;

use crate::bindings::Bindings;
use crate::device::{DeviceBuffer, DeviceError, RunError};
use autotune::{Bench, Timed};
use engine_core::codegen::first_failure;
use engine_core::device_model::DeviceModel;
use engine_core::plan::{BufferId, Plan};
use engine_core::program::{NoProgram, Programs, Refusal};
use std::any::Any;
use std::sync::Arc;

/// Memory of a GPU.
pub trait GpuMemory: Any + Send + Sync {
    /// The state of the GPU that owns the memory.
    type Context;

    /// Whether the memory belongs to a GPU.
    fn is_of(&self, context: &Arc<Self::Context>) -> bool;
}

/// The memory of a buffer.
///
/// # Errors
/// If the buffer belongs to another device.
pub fn own_memory<M: GpuMemory>(
    buffer: &DeviceBuffer,
    context: &Arc<M::Context>,
) -> Result<Arc<M>, DeviceError> {
    let memory = buffer.memory::<M>()?;
    if memory.is_of(context) { Ok(memory) } else { Err(DeviceError::ForeignBuffer) }
}

impl<M: GpuMemory> Bindings<M> {
    /// As [`Bindings::bind`], for memory of a GPU.
    pub fn bind_own(
        &mut self,
        input: &str,
        buffer: &DeviceBuffer,
        context: &Arc<M::Context>,
    ) -> Result<Option<BufferId>, DeviceError> {
        self.bind(input, buffer, |memory| memory.is_of(context))
    }
}

/// The programs of a plan on a device, with autotuned variants.
///
/// # Errors
/// If a launch has no program, or the device fails.
pub fn programs<B: Bench>(
    plan: &Plan,
    device: &str,
    model: &DeviceModel,
    bench: B,
) -> Result<Programs, DeviceError> {
    plan.programs(model, &Timed(bench)).map_err(|error| no_program(device, plan, error))
}

/// The error of a launch that has no program on a device.
fn no_program(device: &str, plan: &Plan, error: NoProgram<DeviceError>) -> DeviceError {
    match error.refusal {
        Refusal::Tuner(error) => error,
        Refusal::Codegen(reason) => {
            let kernel = &plan.kernels[plan.launches[error.launch].kernel];
            DeviceError::not_emitted(device, &kernel.name, &reason)
        }
    }
}

/// The error of a run that ends with these words in the error flag; `None` if no assertion failed.
pub fn failed_assertion(plan: &Plan, error_flag: &[u32]) -> Option<RunError> {
    first_failure(error_flag).map(|failed| RunError::assertion(plan, failed))
}

/// A grid in the integers of the APIs. A grid that exceeds them is refused by the API.
pub fn api_grid(grid: [usize; 3]) -> [u32; 3] {
    grid.map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}
