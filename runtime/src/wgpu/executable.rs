//! A plan on a GPU: compiled kernels, allocated memory and bind groups. A step is a list of dispatches.

use super::arena::Arena;
use super::autotune::WgpuBench;
use super::bind_groups::{bind, infos};
use super::context::Context;
use super::memory::{Memory, Staging};
use super::steps::{Bound, Dispatch, dispatches};
use super::submission::{MOST_STEPS, Portion};
use super::timestamps::{MOST_PASSES, Timestamps};
use crate::bindings::Bindings;
use crate::device::{DeviceBuffer, DeviceError, Executable, KernelTime, RunError};
use crate::gpu;
use engine_core::codegen::{ASSERTION_WORDS, assertion_words};
use engine_core::ir::InputKind;
use engine_core::plan::{ALIGNMENT, BufferId, Place, Plan};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgpu::BindGroup;

/// A plan, ready to run.
pub struct WgpuExecutable {
    context: Arc<Context>,
    plan: Arc<Plan>,
    arena: Arena,
    /// The numbers of the steps of a submission, each at a multiple of [`ALIGNMENT`].
    steps: Memory,
    error_flag: Memory,
    error_flag_on_host: Staging,
    /// The workspaces of all launches.
    workspace: Memory,
    /// The scalars of all dispatches, each at a multiple of [`ALIGNMENT`].
    infos: Memory,
    bindings: Bindings<Memory>,
    dispatches: Vec<Dispatch>,
    /// By dispatch: its bind groups, made on demand. A changed binding discards them. A dispatch that reads the step number has
    /// a bind group for each step of a submission.
    groups: Vec<Vec<BindGroup>>,
    /// The time that the host took to submit the last run.
    submission_time: Duration,
    /// The mean time of the steps that were last waited for; `None` before the first wait.
    pub step_time: Option<Duration>,
}

impl WgpuExecutable {
    pub fn new(context: &Arc<Context>, plan: Arc<Plan>, seed: u64) -> Result<WgpuExecutable, DeviceError> {
        let programs = gpu::programs(&plan, &context.name, &context.model, WgpuBench(context))?;
        let (dispatches, workspace_bytes) = dispatches(context, &plan, &programs, seed)?;
        let steps = Memory::new(context, MOST_STEPS as usize * ALIGNMENT)?;
        let error_flag = Memory::new(context, 4 * assertion_words(plan.check_nodes()))?;
        let infos = infos(context, &dispatches)?;
        let workspace = Memory::new(context, workspace_bytes);
        let workspace = workspace.map_err(|error| error.of_buffer(&workspace_name(&plan, &dispatches)))?;
        Ok(WgpuExecutable {
            arena: Arena::new(context, &plan)?,
            error_flag_on_host: Staging::new(context, 4 * ASSERTION_WORDS)?,
            bindings: Bindings::new(&plan),
            context: Arc::clone(context),
            groups: vec![],
            submission_time: Duration::ZERO,
            step_time: None,
            plan,
            steps,
            error_flag,
            infos,
            workspace,
            dispatches,
        })
    }

    // ---- Bindings.

    /// The memory and the offset of a buffer of the plan.
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

    /// Whether a dispatch reads the step number.
    fn is_numbered(&self, number: usize) -> bool {
        let is_step = |bound: &Bound| matches!(*bound, Bound::Buffer(id) if self.is_step(id));
        self.dispatches[number].arguments.iter().any(is_step)
    }

    fn is_step(&self, id: BufferId) -> bool {
        self.plan.buffers[id].place == Place::Input(InputKind::Step)
    }

    /// The bind group of a dispatch in step `step` of a submission.
    fn group(&self, number: usize, step: usize) -> BindGroup {
        bind(&self.context, &self.dispatches, number, &self.infos, |bound| match bound {
            Bound::ErrorFlag => (&self.error_flag, 0, self.error_flag.bytes()),
            Bound::Workspace { start, bytes } => (&self.workspace, start, bytes),
            Bound::Buffer(id) if self.is_step(id) => (&self.steps, step * ALIGNMENT, 4),
            Bound::Buffer(id) => {
                let (memory, offset) = self.place(id);
                (memory, offset, self.plan.buffers[id].ty.bytes())
            }
        })
    }

    // ---- Steps.

    /// Writes the numbers of the steps of the next submission, if a dispatch reads them.
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

    /// Encodes a dispatch in step `step` of a submission.
    fn dispatch(&self, pass: &mut wgpu::ComputePass, number: usize, step: usize) {
        let groups = &self.groups[number];
        self.dispatches[number].encode(pass, &groups[step % groups.len()]);
    }

    /// Runs steps, and records the mean time of a step.
    fn run_steps(&mut self, first: u32, n_steps: u32) -> Result<(), RunError> {
        let start = Instant::now();
        let mut n_done = 0;
        for portion in Portion::all(self.step_time, n_steps) {
            self.number_steps(first.wrapping_add(n_done), portion.n_steps)?;
            n_done += portion.n_steps;
            self.submit_portion(portion, n_done == n_steps)?;
        }
        self.submission_time += start.elapsed();
        self.finish()?;
        self.step_time = Some(start.elapsed() / n_steps);
        Ok(())
    }

    /// Submits steps whose numbers are written. The last submission of a run also copies the error flag to the host.
    fn submit_portion(&self, portion: Portion, is_last: bool) -> Result<(), DeviceError> {
        let n_dispatches = self.dispatches.len();
        for part in portion.parts(n_dispatches) {
            let is_last = is_last && part.end == n_dispatches;
            self.submit(portion.n_steps, part, is_last)?;
        }
        Ok(())
    }

    /// Submits some dispatches of steps.
    fn submit(&self, n_steps: u32, part: Range<usize>, is_last: bool) -> Result<(), DeviceError> {
        let mut encoder = self.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in 0..n_steps as usize {
                part.clone().for_each(|number| self.dispatch(&mut pass, number, step));
            }
        }
        if is_last && self.has_checks() {
            self.error_flag_on_host.encode_copy(&mut encoder, self.error_flag.buffer(), 0);
        }
        self.context.queue.submit([encoder.finish()]);
        self.context.check()
    }

    fn has_checks(&self) -> bool {
        !self.plan.assertions.is_empty()
    }

    /// Waits for all submissions, and reports a failed assertion from the copy of the error flag.
    fn finish(&mut self) -> Result<(), RunError> {
        if !self.has_checks() {
            return Ok(self.context.wait()?);
        }
        let mut bytes = [0; 4 * ASSERTION_WORDS];
        self.error_flag_on_host.read(&mut bytes)?;
        let mut words = [0; ASSERTION_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let Some(error) = gpu::failed_assertion(&self.plan, &words) else { return Ok(()) };
        self.error_flag.write(0, &vec![0; self.error_flag.bytes()])?;
        Err(error)
    }

    // ---- Times.

    /// The time of each launch by timestamp queries.
    fn seconds_by_timestamps(&mut self) -> Result<Vec<f64>, RunError> {
        let n_launches = self.plan.launches.len();
        // The launches of a query set are one submission.
        let n_at_once = n_launches.div_ceil(Portion::new(self.step_time).n_parts);
        let n_at_once = n_at_once.clamp(1, MOST_PASSES);
        let mut seconds = vec![];
        for first in (0..n_launches).step_by(n_at_once) {
            let end = (first + n_at_once).min(n_launches);
            let timestamps = Timestamps::new(&self.context, end - first);
            let mut encoder = self.encoder();
            for launch in first..end {
                let mut pass = timestamps.begin(&mut encoder, launch - first);
                self.of_launch(launch).for_each(|number| self.dispatch(&mut pass, number, 0));
            }
            seconds.extend(timestamps.submit(&self.context, encoder)?);
        }
        Ok(seconds)
    }

    /// The time of each launch by the host's clock, including its submission.
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

impl Executable for WgpuExecutable {
    fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    fn scratch_bytes(&self) -> usize {
        self.infos.bytes() + self.workspace.bytes()
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
            // The time of the first step determines how many steps share a submission.
            self.run_steps(first, 1)?;
            (first, left) = (first.wrapping_add(1), left - 1);
        }
        self.run_steps(first, left)
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
        self.error_flag_on_host.copy(self.error_flag.buffer(), 0);
        self.finish()?;
        let timed = seconds.into_iter().enumerate();
        Ok(timed.map(|(launch, seconds)| KernelTime::new(&self.plan, launch, seconds)).collect())
    }
}

/// The name of the largest workspace, for errors.
fn workspace_name(plan: &Plan, dispatches: &[Dispatch]) -> String {
    let end = |bound: &Bound| match *bound {
        Bound::Workspace { start, bytes } => start + bytes,
        _ => 0,
    };
    let most = dispatches.iter().max_by_key(|dispatch| dispatch.arguments.iter().map(end).max());
    let kernel = most.map(|dispatch| &plan.kernels[plan.launches[dispatch.launch].kernel]);
    format!("scratch of {}", kernel.map_or("no kernel", |kernel| &*kernel.name))
}

fn not_bound(message: String) -> DeviceError {
    DeviceError::Failed(format!("binding buffers: {message}"))
}
