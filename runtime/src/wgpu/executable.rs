//! A plan on a GPU: kernels compiled, memory allocated, bindings made; a step is a list of dispatches.

use super::arena::Arena;
use super::autotune::WgpuBench;
use super::context::Context;
use super::memory::{Memory, Staging, VECTOR};
use super::steps::{Bound, Dispatch, dispatches};
use super::submission::{MOST_STEPS, Portion};
use crate::bindings::Bindings;
use crate::device::{DeviceBuffer, DeviceError, Executable, KernelTime, RunError};
use crate::gpu;
use engine_core::codegen::{ASSERTION_WORDS, assertion_words};
use engine_core::ir::InputKind;
use engine_core::plan::{ALIGNMENT, BufferId, Place, Plan};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding};

/// A plan, ready to run.
pub struct WgpuExecutable {
    context: Arc<Context>,
    plan: Arc<Plan>,
    arena: Arena,
    /// The numbers of the steps of a submission, each at a multiple of [`ALIGNMENT`].
    steps: Memory,
    flag: Memory,
    flag_on_host: Staging,
    /// What launches need while they run, one after the other.
    scratch: Memory,
    /// The scalars of all dispatches, each at a multiple of [`ALIGNMENT`].
    infos: Memory,
    bindings: Bindings<Memory>,
    dispatches: Vec<Dispatch>,
    /// By dispatch; none before they are needed, or when something was bound anew. One that reads the number of its step has
    /// bindings for each of a submission.
    groups: Vec<Vec<BindGroup>>,
    /// What handing in the last run took.
    submission_time: Duration,
    /// What a step took when steps were last waited for; none before any was.
    pub step_time: Option<Duration>,
}

impl WgpuExecutable {
    pub fn new(context: &Arc<Context>, plan: Arc<Plan>, seed: u64) -> Result<WgpuExecutable, DeviceError> {
        let programs = gpu::programs(&plan, &context.name, &context.model, WgpuBench(context))?;
        let (dispatches, workspace_bytes) = dispatches(context, &plan, &programs, seed)?;
        let steps = Memory::new(context, MOST_STEPS as usize * ALIGNMENT)?;
        let flag = Memory::new(context, 4 * assertion_words(plan.check_nodes()))?;
        let infos = infos(context, &dispatches)?;
        let scratch = Memory::new(context, workspace_bytes);
        let scratch = scratch.map_err(|error| error.of_buffer(&scratch_name(&plan, &dispatches)))?;
        Ok(WgpuExecutable {
            arena: Arena::new(context, &plan)?,
            flag_on_host: Staging::new(context, 4 * ASSERTION_WORDS)?,
            bindings: Bindings::new(&plan),
            context: Arc::clone(context),
            groups: vec![],
            submission_time: Duration::ZERO,
            step_time: None,
            plan,
            steps,
            flag,
            infos,
            scratch,
            dispatches,
        })
    }

    // ---- Bindings.

    /// Where a buffer of the plan lies.
    fn place(&self, id: BufferId) -> (&Memory, usize) {
        match self.plan.buffers[id].place {
            Place::Arena(_) => self.arena.at(id),
            Place::Input(InputKind::Step) => (&self.steps, 0),
            Place::Input(_) => (self.bindings.memory(id), 0),
        }
    }

    fn make_groups(&mut self) -> Result<(), DeviceError> {
        if self.groups.len() == self.dispatches.len() {
            return Ok(());
        }
        let of_dispatch = |number: usize| {
            let n_steps = if self.is_numbered(number) { MOST_STEPS as usize } else { 1 };
            (0..n_steps).map(|step| self.group(number, step)).collect()
        };
        let all = || (0..self.dispatches.len()).map(of_dispatch).collect();
        self.groups = self.context.make(0, not_bound, all)?;
        Ok(())
    }

    /// Whether a dispatch reads the number of its step.
    fn is_numbered(&self, number: usize) -> bool {
        let is_step = |bound: &Bound| matches!(*bound, Bound::Buffer(id) if self.is_step(id));
        self.dispatches[number].arguments.iter().any(is_step)
    }

    fn is_step(&self, id: BufferId) -> bool {
        self.plan.buffers[id].place == Place::Input(InputKind::Step)
    }

    /// The bindings of a dispatch in step `step` of a submission.
    fn group(&self, number: usize, step: usize) -> BindGroup {
        bind(&self.context, &self.dispatches, number, &self.infos, |bound| match bound {
            Bound::Flag => (&self.flag, 0, self.flag.bytes()),
            Bound::Scratch { start, bytes } => (&self.scratch, start, bytes),
            Bound::Buffer(id) if self.is_step(id) => (&self.steps, step * ALIGNMENT, 4),
            Bound::Buffer(id) => {
                let (memory, offset) = self.place(id);
                (memory, offset, self.plan.buffers[id].ty.bytes())
            }
        })
    }

    // ---- Steps.

    /// Numbers the steps that are handed in next, if anybody asks.
    fn number_steps(&self, first: u32, n_steps: u32) -> Result<(), DeviceError> {
        if !(0..self.dispatches.len()).any(|number| self.is_numbered(number)) {
            return Ok(());
        }
        let mut bytes = [0; MOST_STEPS as usize * ALIGNMENT];
        for (i, place) in (0..n_steps).zip(bytes.chunks_exact_mut(ALIGNMENT)) {
            place[..4].copy_from_slice(&first.wrapping_add(i).to_le_bytes());
        }
        self.steps.write(0, &bytes)
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.context.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Writes down a dispatch in step `step` of a submission.
    fn dispatch(&self, pass: &mut wgpu::ComputePass, number: usize, step: usize) {
        let groups = &self.groups[number];
        self.dispatches[number].encode(pass, &groups[step % groups.len()]);
    }

    /// Takes steps, and notes how long one of them took.
    fn take_steps(&mut self, first: u32, n_steps: u32) -> Result<(), RunError> {
        let start = Instant::now();
        let mut n_done = 0;
        for portion in Portion::all(self.step_time, n_steps) {
            self.number_steps(first.wrapping_add(n_done), portion.n_steps)?;
            n_done += portion.n_steps;
            self.hand_in(portion, n_done == n_steps)?;
        }
        self.submission_time += start.elapsed();
        self.finish()?;
        self.step_time = Some(start.elapsed() / n_steps);
        Ok(())
    }

    /// Hands in steps that are numbered; after them, where they are the last that are waited for, what the flag says then.
    fn hand_in(&self, portion: Portion, is_last: bool) -> Result<(), DeviceError> {
        let n_dispatches = self.dispatches.len();
        for part in portion.parts(n_dispatches) {
            let is_last = is_last && part.end == n_dispatches;
            self.submit(portion.n_steps, part, is_last)?;
        }
        Ok(())
    }

    /// One submission: some dispatches of steps.
    fn submit(&self, n_steps: u32, part: Range<usize>, is_last: bool) -> Result<(), DeviceError> {
        let mut encoder = self.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in 0..n_steps as usize {
                part.clone().for_each(|number| self.dispatch(&mut pass, number, step));
            }
        }
        if is_last && self.has_checks() {
            self.flag_on_host.take_by(&mut encoder, self.flag.buffer(), 0);
        }
        self.context.queue.submit([encoder.finish()]);
        self.context.check()
    }

    fn has_checks(&self) -> bool {
        !self.plan.assertions.is_empty()
    }

    /// Waits for everything, and looks at the error flag, which was taken at the end.
    fn finish(&mut self) -> Result<(), RunError> {
        if !self.has_checks() {
            return Ok(self.context.wait()?);
        }
        let mut bytes = [0; 4 * ASSERTION_WORDS];
        self.flag_on_host.read(&mut bytes)?;
        let mut words = [0; ASSERTION_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let Some(error) = gpu::failed_assertion(&self.plan, &words) else { return Ok(()) };
        self.flag.write(0, &vec![0; self.flag.bytes()])?;
        Err(error)
    }

    // ---- Times.

    /// The time of each launch by the GPU's own clock.
    fn seconds_by_timestamps(&mut self) -> Result<Vec<f64>, RunError> {
        let n_launches = self.plan.launches.len();
        // A set is a submission, too.
        let n_at_once = n_launches.div_ceil(Portion::new(self.step_time).n_parts);
        let n_at_once = n_at_once.clamp(1, LAUNCHES_PER_SET);
        let mut seconds = vec![];
        for first in (0..n_launches).step_by(n_at_once) {
            let end = (first + n_at_once).min(n_launches);
            let stamps = self.timestamps(first, end)?;
            let period = f64::from(self.context.queue.get_timestamp_period()) * 1e-9;
            seconds.extend(
                stamps.as_chunks().0.iter().map(|&[start, end]| end.saturating_sub(start) as f64 * period),
            );
        }
        Ok(seconds)
    }

    fn timestamps(&self, first: usize, end: usize) -> Result<Vec<u64>, DeviceError> {
        let count = 2 * (end - first) as u32;
        let bytes = 8 * count as usize;
        let set = self.context.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let resolved = self.context.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes as u64,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let mut encoder = self.encoder();
        for launch in first..end {
            let stamp = 2 * (launch - first) as u32;
            let timestamp_writes = Some(wgpu::ComputePassTimestampWrites {
                query_set: &set,
                beginning_of_pass_write_index: Some(stamp),
                end_of_pass_write_index: Some(stamp + 1),
            });
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            let mut pass = encoder.begin_compute_pass(&descriptor);
            self.of_launch(launch).for_each(|number| self.dispatch(&mut pass, number, 0));
        }
        encoder.resolve_query_set(&set, 0..count, &resolved, 0);
        self.context.queue.submit([encoder.finish()]);
        let staging = Staging::new(&self.context, bytes)?;
        staging.take(&resolved, 0);
        let mut stamps = vec![0; bytes];
        staging.read(&mut stamps)?;
        Ok(stamps.as_chunks().0.iter().map(|&stamp| u64::from_le_bytes(stamp)).collect())
    }

    /// The time of each launch by the host's clock, handing it in included.
    fn seconds_by_waiting(&mut self) -> Result<Vec<f64>, RunError> {
        let mut seconds = vec![];
        for launch in 0..self.plan.launches.len() {
            self.context.wait()?;
            let start = Instant::now();
            let mut encoder = self.encoder();
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.of_launch(launch).for_each(|number| self.dispatch(&mut pass, number, 0));
            }
            self.context.queue.submit([encoder.finish()]);
            self.context.wait()?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(seconds)
    }

    fn of_launch(&self, launch: usize) -> impl Iterator<Item = usize> {
        let numbered = self.dispatches.iter().enumerate();
        numbered.filter(move |(_, dispatch)| dispatch.launch == launch).map(|(number, _)| number)
    }
}

/// A set of queries holds at most 4096.
const LAUNCHES_PER_SET: usize = 2048;

impl Executable for WgpuExecutable {
    fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    fn scratch_bytes(&self) -> usize {
        self.infos.bytes() + self.scratch.bytes()
    }

    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        if self.bindings.bind_own(input, buffer, &self.context)?.is_some() {
            self.groups.clear();
        }
        Ok(())
    }

    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.bindings.check()?;
        if n_steps == 0 {
            return Ok(());
        }
        self.make_groups()?;
        self.submission_time = Duration::ZERO;
        let (mut first, mut left) = (first_step, n_steps);
        if self.step_time.is_none() && n_steps > 1 {
            // How many of the others go at once is known when this one was waited for.
            self.take_steps(first, 1)?;
            (first, left) = (first.wrapping_add(1), left - 1);
        }
        self.take_steps(first, left)
    }

    fn host_seconds(&self) -> Option<f64> {
        Some(self.submission_time.as_secs_f64())
    }

    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let id = self.bindings.output(name, bytes.len())?;
        let (memory, offset) = self.place(id);
        memory.read(offset, bytes)
    }

    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.bindings.check()?;
        self.make_groups()?;
        self.number_steps(step, 1)?;
        let seconds = if self.context.has_timestamps {
            self.seconds_by_timestamps()?
        } else {
            self.seconds_by_waiting()?
        };
        self.flag_on_host.take(self.flag.buffer(), 0);
        self.finish()?;
        let timed = seconds.into_iter().enumerate();
        Ok(timed.map(|(launch, seconds)| KernelTime::new(&self.plan, launch, seconds)).collect())
    }
}

/// The bindings of a dispatch among others: a memory, where it starts there and how long it is, for each argument.
pub fn bind<'m>(
    context: &Context,
    dispatches: &[Dispatch],
    number: usize,
    infos: &'m Memory,
    place: impl Fn(Bound) -> (&'m Memory, usize, usize),
) -> BindGroup {
    let dispatch = &dispatches[number];
    let mut entries: Vec<BindGroupEntry> = vec![];
    for (binding, &bound) in dispatch.arguments.iter().enumerate() {
        let (memory, offset, bytes) = place(bound);
        entries.push(part(binding, memory, offset, bytes));
    }
    let bytes = 8 * dispatch.info.len();
    entries.push(part(entries.len(), infos, info_offset(dispatches, number), bytes));
    let Some(pipeline) = &dispatch.pipeline else { engine_core::bug!("a kernel that was not compiled") };
    let descriptor = BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries };
    context.device.create_bind_group(&descriptor)
}

fn info_offset(dispatches: &[Dispatch], number: usize) -> usize {
    dispatches[..number].iter().map(|dispatch| (8 * dispatch.info.len()).next_multiple_of(ALIGNMENT)).sum()
}

/// The scalars of all dispatches, each at a multiple of [`ALIGNMENT`].
pub fn infos(context: &Arc<Context>, dispatches: &[Dispatch]) -> Result<Memory, DeviceError> {
    let mut bytes = vec![];
    for dispatch in dispatches {
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes.extend(dispatch.info.iter().flat_map(|word| word.to_le_bytes()));
    }
    let memory = Memory::new(context, bytes.len())?;
    memory.write(0, &bytes)?;
    Ok(memory)
}

/// What the kernel is called that needs the most scratch.
fn scratch_name(plan: &Plan, dispatches: &[Dispatch]) -> String {
    let end = |bound: &Bound| match *bound {
        Bound::Scratch { start, bytes } => start + bytes,
        _ => 0,
    };
    let most = dispatches.iter().max_by_key(|dispatch| dispatch.arguments.iter().map(end).max());
    let kernel = most.map(|dispatch| &plan.kernels[plan.launches[dispatch.launch].kernel]);
    format!("scratch of {}", kernel.map_or("no kernel", |kernel| &*kernel.name))
}

fn not_bound(said: String) -> DeviceError {
    DeviceError::Failed(format!("binding buffers: {said}"))
}

/// All of a memory.
pub fn whole(binding: usize, memory: &Memory) -> BindGroupEntry<'_> {
    BindGroupEntry { binding: binding as u32, resource: memory.buffer().as_entire_binding() }
}

/// Bytes of a memory from `offset` on, in whole vectors; at least one.
fn part(binding: usize, memory: &Memory, offset: usize, bytes: usize) -> BindGroupEntry<'_> {
    // What has no elements is not read, and may lie at the very end.
    let offset = if bytes == 0 { 0 } else { offset };
    let size = wgpu::BufferSize::new(bytes.next_multiple_of(VECTOR).max(VECTOR) as u64);
    let resource =
        BindingResource::Buffer(BufferBinding { buffer: memory.buffer(), offset: offset as u64, size });
    BindGroupEntry { binding: binding as u32, resource }
}
