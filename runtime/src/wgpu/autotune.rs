//! FailedAssertion the fastest way to compute a product by trying some, on tensors of the right sizes filled with noise: the speed of
//! a product depends on its data. What was found is kept on disk, and goes into checkpoints: another way adds up in another
//! order.

use super::context::Context;
use super::executable::{bind, infos, scratch_bytes};
use super::launch::{Bound, Dispatch, Draft, Variant, load};
use super::matrix;
use super::memory::{Memory, Staging};
use super::submission::fitting;
use crate::autotune::Choice;
use crate::device::DeviceError;
use engine_core::codegen::{KernelSpec, assertion_words};
use engine_core::fusion::{Kernel, KernelBody, MatmulBody};
use engine_core::ir::{DType, Type};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Times of each way, by turns; the least counts.
const N_ROUNDS: usize = 3;
/// A measurement is at least so long, in seconds: what the ends of one take is long beside a short kernel.
const LEAST_SECONDS: f64 = 300e-6;
/// Turns of a measurement, unless a submission may not be so long.
const TURNS: RangeInclusive<usize> = 4..=64;
/// An idle GPU runs at a fraction of its clock, and takes a while to get up to it.
const WAKING: Duration = Duration::from_millis(60);
/// Words of noise, which is the same over and over.
const NOISE_WORDS: usize = 1 << 20;

/// How a kernel's product is computed here; none if there is but one way, or nothing to multiply.
pub fn way(context: &Arc<Context>, kernel: &Kernel) -> Result<Option<Variant>, DeviceError> {
    let ways = ways(context, kernel);
    if ways.len() < 2 || !context.is_worth_trying {
        return Ok(ways.first().copied());
    }
    let details = format!("{:?}", kernel.body);
    let chosen = context.tuner.recall(
        &context.choices,
        (&subject(kernel), &details),
        |chosen: &Chosen| chosen.way(&ways).is_some(),
        || Ok(Chosen::of(fastest(context, kernel, &ways)?)),
    );
    settled(chosen, &ways)
}

/// What trying has come to: the most likely way where it did not have the memory, as the plan may have it without.
pub fn settled(
    chosen: Result<Chosen, DeviceError>,
    ways: &[Variant],
) -> Result<Option<Variant>, DeviceError> {
    match chosen {
        Err(DeviceError::OutOfMemory { .. }) => Ok(ways.first().copied()),
        chosen => Ok(chosen?.way(ways)),
    }
}

/// A way, in words.
pub struct Chosen(String);

impl Chosen {
    /// The words for a way.
    pub fn of(way: Variant) -> Chosen {
        Chosen(format!("{way:?}"))
    }

    /// The one of some ways that it names.
    pub fn way(&self, ways: &[Variant]) -> Option<Variant> {
        ways.iter().copied().find(|&way| Chosen::of(way).0 == self.0)
    }
}

impl Choice for Chosen {
    fn to_text(&self) -> String {
        self.0.clone()
    }

    fn from_text(text: &str) -> Option<Chosen> {
        Some(Chosen(text.to_string()))
    }
}

/// What is multiplied, for people.
fn subject(kernel: &Kernel) -> String {
    match &kernel.body {
        KernelBody::Matmul(body) => {
            let MatmulBody { batch, m, n, k, dtype, .. } = body;
            format!("product of {batch} x {m} x {n} x {k} {dtype}")
        }
        _ => kernel.name.to_string(),
    }
}

/// The ways that are worth trying, the most likely one first.
fn ways(context: &Context, kernel: &Kernel) -> Vec<Variant> {
    let blocks =
        if context.model.has_matrix_units { matrix::blocks(kernel, &context.limits) } else { vec![] };
    let matrices = blocks.into_iter().map(Variant::Matrices);
    matrices.chain(KernelSpec::splits(kernel, context.model).into_iter().map(Variant::Tiles)).collect()
}

/// The fastest of some ways; what the GPU refuses is none.
pub fn fastest(context: &Arc<Context>, kernel: &Kernel, ways: &[Variant]) -> Result<Variant, DeviceError> {
    let mut trials = vec![];
    for &way in ways {
        let buffers: Vec<usize> = (0..kernel.operands.len()).collect();
        let mut dispatches = vec![];
        let (launch, seed) = (0, 0);
        let draft = Draft { context, plan: None, kernel, buffers: &buffers, launch, seed, is_guarded: false };
        if draft.product(way, &mut dispatches).is_ok() {
            trials.push((way, dispatches));
        }
    }
    load_all(context, kernel, &mut trials)?;
    let operands = kernel.operands.iter().map(|operand| noisy(context, &operand.ty));
    let operands = operands.collect::<Result<_, _>>()?;
    let flag = Memory::new(context, 4 * assertion_words(kernel.assertions()))?;
    let memory = TrialMemory { operands, flag };
    if let Some((_, dispatches)) = trials.first() {
        wake(context, &memory, dispatches)?;
    }
    let mut least = vec![f64::INFINITY; trials.len()];
    for _ in 0..N_ROUNDS {
        for ((_, dispatches), least) in trials.iter().zip(&mut least) {
            let known = if least.is_finite() { *least } else { seconds(context, &memory, dispatches, 1)? };
            *least = least.min(seconds(context, &memory, dispatches, n_turns(known))?);
        }
    }
    let best = (0..trials.len()).min_by(|&a, &b| least[a].total_cmp(&least[b]));
    Ok(best.map_or(ways[0], |best| trials[best].0))
}

/// Turns of a measurement of what takes about so many seconds. One more goes before them.
fn n_turns(seconds: f64) -> usize {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let most = usize::try_from(fitting(time)).unwrap_or(usize::MAX).saturating_sub(1);
    let n_turns = (LEAST_SECONDS / seconds.max(1e-9)) as usize;
    n_turns.clamp(*TURNS.start(), *TURNS.end()).min(most.max(1))
}

fn load_all(
    context: &Context,
    kernel: &Kernel,
    trials: &mut [(Variant, Vec<Dispatch>)],
) -> Result<(), DeviceError> {
    let all = trials.iter_mut().flat_map(|(_, dispatches)| dispatches.iter_mut());
    load(context, all.map(|dispatch| (kernel.name.to_string(), dispatch)).collect())
}

/// What the dispatches of all ways work on.
struct TrialMemory {
    operands: Vec<Memory>,
    flag: Memory,
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
fn wake(context: &Arc<Context>, memory: &TrialMemory, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
    if context.is_awake.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let start = Instant::now();
    let mut n = 1;
    while start.elapsed() < WAKING {
        n = n_turns(seconds(context, memory, dispatches, n)?);
    }
    Ok(())
}

/// The time of some dispatches, one after the other, as the mean of some turns.
fn seconds(
    context: &Arc<Context>,
    memory: &TrialMemory,
    dispatches: &[Dispatch],
    n_turns: usize,
) -> Result<f64, DeviceError> {
    let infos = infos(context, dispatches)?;
    let scratch = Memory::new(context, scratch_bytes(dispatches))?;
    let TrialMemory { operands, flag } = memory;
    let place = |bound: Bound| match bound {
        Bound::Flag => (flag, 0, flag.bytes()),
        Bound::Scratch { start, bytes } => (&scratch, start, bytes),
        Bound::Buffer(operand) => (&operands[operand], 0, operands[operand].bytes()),
    };
    let groups: Vec<wgpu::BindGroup> =
        (0..dispatches.len()).map(|number| bind(context, dispatches, number, &infos, place)).collect();
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
