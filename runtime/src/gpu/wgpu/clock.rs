//! The clock of autotuning through wgpu: timestamp queries around many repetitions.

use super::context::Context;
use super::dispatch::Dispatches;
use super::memory::WgpuMemory;
use super::timestamps::Timestamps;
use crate::device::DeviceError;
use crate::gpu::api::{GpuProgram, Located};
use crate::gpu::submission::n_repetitions;
use std::sync::Arc;

/// The time of a program. `least` is its least time so far, infinite at first.
pub fn seconds(
    context: &Arc<Context>,
    program: &GpuProgram<Context>,
    memory: &dyn Located<WgpuMemory>,
    least: f64,
) -> Result<f64, DeviceError> {
    let dispatches = Dispatches::new(context, &[program])?;
    let known = if least.is_finite() { least } else { mean(context, &dispatches, memory, 1)? };
    mean(context, &dispatches, memory, n_repetitions(known))
}

/// The mean time of the dispatches of a program over some repetitions.
fn mean(
    context: &Arc<Context>,
    dispatches: &Dispatches,
    memory: &dyn Located<WgpuMemory>,
    n_repetitions: usize,
) -> Result<f64, DeviceError> {
    let numbers = 0..dispatches.list.all.len();
    let groups: Vec<wgpu::BindGroup> =
        numbers.map(|number| dispatches.bind(context, number, memory)).collect();
    let timestamps = Timestamps::new(context, 1);
    let mut encoder = context.encoder();
    let encode = |mut pass: wgpu::ComputePass, n: usize| {
        for _ in 0..n {
            for (number, group) in groups.iter().enumerate() {
                dispatches.encode(&mut pass, number, group);
            }
        }
    };
    encode(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()), 1);
    encode(timestamps.begin(&mut encoder, 0), n_repetitions);
    let seconds = timestamps.submit(context, encoder)?;
    Ok(seconds[0] / n_repetitions as f64)
}
