//! Autotuning through wgpu: programs timed on noise, by timestamp queries.

use super::bind_groups::{bind, infos};
use super::context::Context;
use super::memory::Memory;
use super::steps::{Bound, Dispatch, dispatches_of};
use super::submission::fitting;
use super::timestamps::Timestamps;
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu;
use crate::gpu::autotune::Bench;
use crate::gpu::noise::NoiseBits;
use engine_core::codegen::assertion_words;
use engine_core::fusion::Kernel;
use engine_core::ir::Type;
use engine_core::program::{Capability, MatmulCall, Multiplier, Program};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The least length of a measurement in seconds. The overhead at its ends is long compared with a short kernel.
const LEAST_SECONDS: f64 = 300e-6;
/// The repetitions of a measurement, unless they exceed the length of a submission.
const REPETITIONS: RangeInclusive<usize> = 4..=64;
/// The period of the noise in words. It is even, so that the halves of `f64` keep their places.
const NOISE_WORDS: usize = 1 << 20;

/// A GPU that times programs.
pub struct WgpuBench<'c>(pub &'c Arc<Context>);

/// The operands and the error flag of the programs of a kernel.
pub struct TrialMemory {
    operands: Vec<Memory>,
    error_flag: Memory,
}

/// A compiled program, with its scalars and its workspace.
pub struct Trial {
    dispatches: Vec<Dispatch>,
    infos: Memory,
    workspace: Memory,
}

impl Bench for WgpuBench<'_> {
    type Operands = TrialMemory;
    type Trial = Trial;

    fn tuner(&self) -> &Tuner {
        &self.0.tuner
    }

    fn disk(&self) -> &DiskCache {
        &self.0.choices
    }

    fn can_time(&self) -> bool {
        self.0.can_autotune
    }

    fn capability(&self, call: &MatmulCall) -> Result<Capability, DeviceError> {
        Ok(match call.multiplier {
            Multiplier::MatrixUnits(_) if self.0.model.has_matrix_units => Capability::Open,
            _ => Capability::None,
        })
    }

    fn operands(&self, kernel: &Kernel) -> Result<TrialMemory, DeviceError> {
        let operands = kernel.operands.iter().map(|operand| noisy(self.0, &operand.ty));
        let operands = operands.collect::<Result<_, _>>()?;
        let error_flag = Memory::new(self.0, 4 * assertion_words(kernel.assertions()))?;
        Ok(TrialMemory { operands, error_flag })
    }

    fn trial(&self, kernel: &Kernel, program: Program) -> Result<Trial, DeviceError> {
        let dispatches = dispatches_of(self.0, kernel, &program)?;
        let infos = infos(self.0, &dispatches)?;
        Ok(Trial { infos, workspace: Memory::new(self.0, program.workspace_bytes)?, dispatches })
    }

    fn seconds(&self, memory: &TrialMemory, trial: &Trial, least: f64) -> Result<f64, DeviceError> {
        warm_up(self.0, memory, trial)?;
        let known = if least.is_finite() { least } else { seconds(self.0, memory, trial, 1)? };
        seconds(self.0, memory, trial, n_repetitions(known))
    }
}

/// The repetitions in a measurement of work that takes about `seconds`. One more runs before them.
fn n_repetitions(seconds: f64) -> usize {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let most = usize::try_from(fitting(time)).unwrap_or(usize::MAX).saturating_sub(1);
    let n_repetitions = (LEAST_SECONDS / seconds.max(1e-9)) as usize;
    n_repetitions.clamp(*REPETITIONS.start(), *REPETITIONS.end()).min(most.max(1))
}

/// Memory of a tensor that holds noise; integers are all 0.
fn noisy(context: &Arc<Context>, ty: &Type) -> Result<Memory, DeviceError> {
    let memory = Memory::new(context, ty.bytes())?;
    let Some(bits) = NoiseBits::of(ty.dtype) else { return Ok(memory) };
    let words = (0..NOISE_WORDS.min(ty.bytes().div_ceil(4))).map(|i| bits.word(i, hashed(i as u32)));
    let noise: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    for start in (0..ty.bytes()).step_by(noise.len()) {
        memory.write(start, &noise[..noise.len().min(ty.bytes() - start)])?;
    }
    Ok(memory)
}

/// The hash "lowbias32" of C. Wellons, "Hash Prospector", 2018.
fn hashed(x: u32) -> u32 {
    let x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    let x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

/// Keeps the GPU busy until it reaches its full clock rate, once.
fn warm_up(context: &Arc<Context>, memory: &TrialMemory, trial: &Trial) -> Result<(), DeviceError> {
    gpu::autotune::warm_up(&context.is_warmed_up, |is_cold| {
        let mut n = 1;
        while is_cold() {
            n = n_repetitions(seconds(context, memory, trial, n)?);
        }
        Ok(())
    })
}

/// The mean time of the dispatches of a program over some repetitions.
fn seconds(
    context: &Arc<Context>,
    memory: &TrialMemory,
    trial: &Trial,
    n_repetitions: usize,
) -> Result<f64, DeviceError> {
    let Trial { dispatches, infos, workspace } = trial;
    let TrialMemory { operands, error_flag } = memory;
    let place = |bound: Bound| match bound {
        Bound::ErrorFlag => (error_flag, 0, error_flag.bytes()),
        Bound::Workspace { start, bytes } => (workspace, start, bytes),
        Bound::Buffer(operand) => (&operands[operand], 0, operands[operand].bytes()),
    };
    let groups: Vec<wgpu::BindGroup> =
        (0..dispatches.len()).map(|number| bind(context, dispatches, number, infos, place)).collect();
    let timestamps = Timestamps::new(context, 1);
    let mut encoder = context.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let encode = |mut pass: wgpu::ComputePass, n: usize| {
        for _ in 0..n {
            for (dispatch, group) in dispatches.iter().zip(&groups) {
                dispatch.encode(&mut pass, group);
            }
        }
    };
    encode(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()), 1);
    encode(timestamps.begin(&mut encoder, 0), n_repetitions);
    let seconds = timestamps.submit(context, encoder)?;
    Ok(seconds[0] / n_repetitions as f64)
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
