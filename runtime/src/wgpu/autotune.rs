//! The clock of autotuning through wgpu: programs on memory full of noise, by the timestamps of the GPU.

use super::context::Context;
use super::executable::{bind, infos};
use super::memory::{Memory, Staging};
use super::steps::{Bound, Dispatch, dispatches_of};
use super::submission::fitting;
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu::autotune::Bench;
use engine_core::codegen::assertion_words;
use engine_core::fusion::Kernel;
use engine_core::ir::{DType, Type};
use engine_core::program::{Capability, MatmulCall, Multiplier, Program};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A measurement is at least so long, in seconds: what the ends of one take is long beside a short kernel.
const LEAST_SECONDS: f64 = 300e-6;
/// Turns of a measurement, unless a submission may not be so long.
const TURNS: RangeInclusive<usize> = 4..=64;
/// An idle GPU runs at a fraction of its clock, and takes a while to get up to it.
const WAKING: Duration = Duration::from_millis(60);
/// Words of noise, which is the same over and over.
const NOISE_WORDS: usize = 1 << 20;

/// A GPU that times programs.
pub struct WgpuBench<'c>(pub &'c Arc<Context>);

/// Memory that the programs of a kernel work on.
pub struct TrialMemory {
    operands: Vec<Memory>,
    flag: Memory,
}

/// A program that is compiled, with its scalars and its workspace.
pub struct Trial {
    dispatches: Vec<Dispatch>,
    infos: Memory,
    scratch: Memory,
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
        self.0.is_worth_trying
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
        let flag = Memory::new(self.0, 4 * assertion_words(kernel.assertions()))?;
        Ok(TrialMemory { operands, flag })
    }

    fn trial(&self, kernel: &Kernel, program: Program) -> Result<Trial, DeviceError> {
        let dispatches = dispatches_of(self.0, kernel, &program)?;
        let infos = infos(self.0, &dispatches)?;
        Ok(Trial { infos, scratch: Memory::new(self.0, program.workspace_bytes)?, dispatches })
    }

    fn seconds(&self, memory: &TrialMemory, trial: &Trial, least: f64) -> Result<f64, DeviceError> {
        wake(self.0, memory, trial)?;
        let known = if least.is_finite() { least } else { seconds(self.0, memory, trial, 1)? };
        seconds(self.0, memory, trial, n_turns(known))
    }
}

/// Turns of a measurement of what takes about so many seconds. One more goes before them.
fn n_turns(seconds: f64) -> usize {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let most = usize::try_from(fitting(time)).unwrap_or(usize::MAX).saturating_sub(1);
    let n_turns = (LEAST_SECONDS / seconds.max(1e-9)) as usize;
    n_turns.clamp(*TURNS.start(), *TURNS.end()).min(most.max(1))
}

/// Memory of a tensor, full of numbers of both signs between a half and one; indices are all the first.
fn noisy(context: &Arc<Context>, ty: &Type) -> Result<Memory, DeviceError> {
    let memory = Memory::new(context, ty.bytes())?;
    let Some((kept, set)) = noise_of(ty.dtype) else { return Ok(memory) };
    let words = (0..NOISE_WORDS.min(ty.bytes().div_ceil(4)) as u32).map(|i| mixed(i) & kept | set);
    let noise: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    for start in (0..ty.bytes()).step_by(noise.len()) {
        memory.write(start, &noise[..noise.len().min(ty.bytes() - start)])?;
    }
    Ok(memory)
}

/// What each word keeps of the noise, and the exponents that it gets.
fn noise_of(dtype: DType) -> Option<(u32, u32)> {
    match dtype {
        DType::F16 => Some((0x83ff_83ff, 0x3800_3800)),
        DType::BF16 => Some((0x807f_807f, 0x3f00_3f00)),
        DType::F32 => Some((0x807f_ffff, 0x3f00_0000)),
        _ => None,
    }
}

/// Bits that look like nothing ("lowbias32" of C. Wellons, "Hash Prospector", 2018).
fn mixed(x: u32) -> u32 {
    let x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    let x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

/// Keeps the GPU busy until it runs at its speed, once.
fn wake(context: &Arc<Context>, memory: &TrialMemory, trial: &Trial) -> Result<(), DeviceError> {
    if context.is_awake.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let start = Instant::now();
    let mut n = 1;
    while start.elapsed() < WAKING {
        n = n_turns(seconds(context, memory, trial, n)?);
    }
    Ok(())
}

/// The time of some dispatches, one after the other, as the mean of some turns.
fn seconds(
    context: &Arc<Context>,
    memory: &TrialMemory,
    trial: &Trial,
    n_turns: usize,
) -> Result<f64, DeviceError> {
    let Trial { dispatches, infos, scratch } = trial;
    let TrialMemory { operands, flag } = memory;
    let place = |bound: Bound| match bound {
        Bound::Flag => (flag, 0, flag.bytes()),
        Bound::Scratch { start, bytes } => (scratch, start, bytes),
        Bound::Buffer(operand) => (&operands[operand], 0, operands[operand].bytes()),
    };
    let groups: Vec<wgpu::BindGroup> =
        (0..dispatches.len()).map(|number| bind(context, dispatches, number, infos, place)).collect();
    let set = context.device.create_query_set(&wgpu::QuerySetDescriptor {
        label: None,
        ty: wgpu::QueryType::Timestamp,
        count: 2,
    });
    let resolved = context.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 16,
        usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    });
    let mut encoder = context.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    for is_timed in [false, true] {
        let timestamp_writes = is_timed.then_some(wgpu::ComputePassTimestampWrites {
            query_set: &set,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        });
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        for _ in 0..if is_timed { n_turns } else { 1 } {
            for (dispatch, group) in dispatches.iter().zip(&groups) {
                dispatch.encode(&mut pass, group);
            }
        }
    }
    encoder.resolve_query_set(&set, 0..2, &resolved, 0);
    context.queue.submit([encoder.finish()]);
    let staging = Staging::new(context, 16)?;
    staging.take(&resolved, 0);
    let mut stamps = [0; 16];
    staging.read(&mut stamps)?;
    let [start, end] = [0, 8].map(|i| u64::from_le_bytes(stamps[i..i + 8].try_into().unwrap_or_default()));
    let period = f64::from(context.queue.get_timestamp_period()) * 1e-9;
    Ok(end.saturating_sub(start) as f64 * period / n_turns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_products_are_measured_by_few_turns() {
        let of = [0.0, 1e-6, 40e-6, 1e-3, 70e-3, 3.0, f64::INFINITY].map(n_turns);
        assert_eq!(of, [64, 64, 7, 4, 2, 1, 1]);
    }
}
