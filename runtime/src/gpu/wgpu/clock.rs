//! The clock of autotuning through wgpu: timestamp queries around many repetitions.

use super::context::Context;
use super::dispatch::Dispatches;
use super::memory::WgpuMemory;
use super::timestamps::Timestamps;
use crate::device::DeviceError;
use crate::gpu::api::{GpuProgram, Located};
use crate::gpu::submission::fitting;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The least length of a measurement in seconds. The overhead at its ends is long compared with a short kernel.
const LEAST_SECONDS: f64 = 300e-6;
/// The repetitions of a measurement, unless they exceed the length of a submission.
const REPETITIONS: RangeInclusive<usize> = 4..=64;

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
    let numbers = 0..dispatches.all.len();
    let groups: Vec<wgpu::BindGroup> =
        numbers.map(|number| dispatches.bind(context, number, memory)).collect();
    let timestamps = Timestamps::new(context, 1);
    let mut encoder = context.encoder();
    let encode = |mut pass: wgpu::ComputePass, n: usize| {
        for _ in 0..n {
            for (dispatch, group) in dispatches.all.iter().zip(&groups) {
                dispatch.encode(&mut pass, group);
            }
        }
    };
    encode(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()), 1);
    encode(timestamps.begin(&mut encoder, 0), n_repetitions);
    let seconds = timestamps.submit(context, encoder)?;
    Ok(seconds[0] / n_repetitions as f64)
}

/// The repetitions in a measurement of work that takes about `seconds`. One more runs before them.
fn n_repetitions(seconds: f64) -> usize {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let most = usize::try_from(fitting(time)).unwrap_or(usize::MAX).saturating_sub(1);
    let n_repetitions = (LEAST_SECONDS / seconds.max(1e-9)) as usize;
    n_repetitions.clamp(*REPETITIONS.start(), *REPETITIONS.end()).min(most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_kernels_are_measured_by_few_repetitions() {
        let of = [0.0, 1e-6, 40e-6, 1e-3, 70e-3, 3.0, f64::INFINITY].map(n_repetitions);
        assert_eq!(of, [64, 64, 7, 4, 2, 1, 1]);
    }
}
