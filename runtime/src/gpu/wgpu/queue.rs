//! The steps of a plan through wgpu: lists of dispatches, submitted in portions.

use super::context::Context;
use super::dispatch::Dispatches;
use super::memory::Staging;
use super::timestamps::{MOST_PASSES, Timestamps};
use crate::device::{DeviceError, RunError};
use crate::gpu::api::{GpuMemory, GpuProgram};
use crate::gpu::kernel_list::HostLoop;
use crate::gpu::plan_memory::is_step_number;
use crate::gpu::queue::{Launches, Queue};
use crate::gpu::submission::{MOST_STEPS, Portion};
use engine_core::codegen::ASSERTION_WORDS;
use engine_core::plan::{ALIGNMENT, Plan};
use std::array;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wgpu::BindGroup;

/// The dispatches of a plan and their bind groups.
pub struct WgpuQueue {
    context: Arc<Context>,
    dispatches: Dispatches,
    /// By dispatch: whether it reads the step number.
    is_numbered: Vec<bool>,
    /// By dispatch: its bind groups, made on demand. A changed binding discards them. A dispatch that reads the step number has
    /// a bind group for each step of a submission.
    groups: Vec<Vec<BindGroup>>,
    error_flag: Staging,
    /// The flag that ends runs.
    cancel: Option<Arc<AtomicBool>>,
    submission_time: Duration,
    /// The mean time of the steps that were last waited for; `None` before the first wait.
    pub step_time: Option<Duration>,
}

impl Queue<Context> for WgpuQueue {
    fn new(
        context: &Arc<Context>,
        plan: &Plan,
        programs: &[GpuProgram<Context>],
    ) -> Result<WgpuQueue, DeviceError> {
        let dispatches = Dispatches::new(context, &programs.iter().collect::<Vec<_>>())?;
        let is_numbered =
            dispatches.list.all.iter().map(|kernel| {
                kernel.arguments.iter().any(|&place| is_step_number(plan, kernel.launch, place))
            });
        Ok(WgpuQueue {
            context: Arc::clone(context),
            is_numbered: is_numbered.collect(),
            dispatches,
            groups: vec![],
            error_flag: Staging::new(context, 4 * ASSERTION_WORDS)?,
            cancel: None,
            submission_time: Duration::ZERO,
            step_time: None,
        })
    }

    fn most_steps(&self) -> usize {
        MOST_STEPS as usize
    }

    fn bytes(&self) -> usize {
        self.dispatches.infos.bytes()
    }

    fn rebind(&mut self) {
        self.groups.clear();
    }

    fn cancel_by(&mut self, flag: Arc<AtomicBool>) {
        self.cancel = Some(flag);
    }

    fn run(&mut self, launches: &Launches<Context>, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.make_groups(launches)?;
        self.submission_time = Duration::ZERO;
        let (mut first, mut left) = (first_step, n_steps);
        if self.step_time.is_none() && n_steps > 1 {
            // The time of the first step determines how many steps share a submission.
            self.run_steps(launches, first, 1)?;
            (first, left) = (first.wrapping_add(1), left - 1);
        }
        self.run_steps(launches, first, left)
    }

    fn submission_time(&self) -> Duration {
        self.submission_time
    }

    fn profile(&mut self, launches: &Launches<Context>, step: u32) -> Result<Vec<f64>, RunError> {
        self.make_groups(launches)?;
        self.number_steps(launches, step, 1)?;
        let seconds = match self.context.has_timestamps {
            true => self.seconds_by_timestamps(launches)?,
            false => self.seconds_by_waiting(launches)?,
        };
        self.error_flag.copy(launches.memory.error_flag().buffer(), 0);
        self.finish(launches)?;
        Ok(seconds)
    }
}

impl WgpuQueue {
    fn make_groups(&mut self, launches: &Launches<Context>) -> Result<(), DeviceError> {
        if self.groups.len() == self.dispatches.list.all.len() {
            return Ok(());
        }
        let of_dispatch = |number: usize| {
            let n_steps = if self.is_numbered[number] { MOST_STEPS as usize } else { 1 };
            let launch = self.dispatches.list.all[number].launch;
            let group =
                |step| self.dispatches.bind(&self.context, number, &launches.memory.launch(launch, step));
            (0..n_steps).map(group).collect()
        };
        let not_bound = |message: String| DeviceError::Failed(format!("binding buffers: {message}"));
        let all = || (0..self.dispatches.list.all.len()).map(of_dispatch).collect();
        self.groups = self.context.make(0, not_bound, all)?;
        Ok(())
    }

    /// Writes the numbers of the steps of the next submission, if a dispatch reads them.
    fn number_steps(
        &self,
        launches: &Launches<Context>,
        first: u32,
        n_steps: u32,
    ) -> Result<(), DeviceError> {
        if !self.is_numbered.contains(&true) {
            return Ok(());
        }
        let mut bytes = [0; MOST_STEPS as usize * ALIGNMENT];
        for (i, place) in (0..n_steps).zip(bytes.chunks_exact_mut(ALIGNMENT)) {
            place[..4].copy_from_slice(&first.wrapping_add(i).to_le_bytes());
        }
        launches.memory.steps().write(0, &bytes)
    }

    /// Encodes a dispatch in step `step` of a submission.
    fn dispatch(&self, pass: &mut wgpu::ComputePass, number: usize, step: usize) {
        let groups = &self.groups[number];
        self.dispatches.encode(pass, number, &groups[step % groups.len()]);
    }

    /// Runs steps, and records the mean time of a step.
    fn run_steps(&mut self, launches: &Launches<Context>, first: u32, n_steps: u32) -> Result<(), RunError> {
        let start = Instant::now();
        let mut n_done = 0;
        for portion in Portion::all(self.step_time, n_steps) {
            self.number_steps(launches, first.wrapping_add(n_done), portion.n_steps)?;
            n_done += portion.n_steps;
            self.submit_portion(launches, portion, n_done == n_steps)?;
        }
        self.submission_time += start.elapsed();
        if self.is_cancelled() {
            self.context.wait()?;
            return Err(RunError::Cancelled);
        }
        self.finish(launches)?;
        self.step_time = Some(start.elapsed() / n_steps);
        Ok(())
    }

    /// Submits steps whose numbers are written. The last submission of a run also copies the error flag to the host.
    fn submit_portion(
        &self,
        launches: &Launches<Context>,
        portion: Portion,
        is_last: bool,
    ) -> Result<(), DeviceError> {
        let n_dispatches = self.dispatches.list.order.len();
        if !self.dispatches.list.loops.is_empty() {
            return (0..portion.n_steps).try_for_each(|step| {
                let is_last = is_last && step + 1 == portion.n_steps;
                let whole = (0..n_dispatches, &self.dispatches.list.loops[..]);
                self.submit_with_loops(launches, step as usize, whole, is_last)
            });
        }
        for part in portion.parts(n_dispatches) {
            let is_last = is_last && part.end == n_dispatches;
            self.submit(launches, 0..portion.n_steps as usize, part, is_last)?;
            // What is submitted cannot be cancelled.
            if portion.n_parts > 1 && self.cancel.is_some() {
                self.context.wait()?;
            }
        }
        Ok(())
    }

    /// Submits a part of a step with loops that the host runs. It looks at the end of each trip that may be the last.
    fn submit_with_loops(
        &self,
        launches: &Launches<Context>,
        step: usize,
        (part, loops): (Range<usize>, &[HostLoop]),
        is_last: bool,
    ) -> Result<(), DeviceError> {
        let mut first = part.start;
        for HostLoop { trip, trips, until, inner } in loops {
            self.submit(launches, step..step + 1, first..trip.start, false)?;
            first = trip.end;
            for _ in 0..*trips {
                self.submit_with_loops(launches, step, (trip.clone(), inner), false)?;
                if self.is_cancelled() || until.map_or(Ok(false), |until| launches.has_ended(step, until))? {
                    break;
                }
            }
        }
        self.submit(launches, step..step + 1, first..part.end, is_last)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Submits some dispatches of steps, unless the run is cancelled.
    fn submit(
        &self,
        launches: &Launches<Context>,
        steps: Range<usize>,
        part: Range<usize>,
        is_last: bool,
    ) -> Result<(), DeviceError> {
        if part.is_empty() && !is_last || self.is_cancelled() {
            return Ok(());
        }
        let mut encoder = self.context.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in steps {
                let order = &self.dispatches.list.order[part.clone()];
                order.iter().for_each(|&number| self.dispatch(&mut pass, number as usize, step));
            }
        }
        if is_last && launches.has_checks() {
            self.error_flag.encode_copy(&mut encoder, launches.memory.error_flag().buffer(), 0);
        }
        self.context.queue.submit([encoder.finish()]);
        self.context.check()
    }

    /// Waits for all submissions, and reports a failed assertion from the copy of the error flag.
    fn finish(&mut self, launches: &Launches<Context>) -> Result<(), RunError> {
        if !launches.has_checks() {
            return Ok(self.context.wait()?);
        }
        let mut bytes = [0; 4 * ASSERTION_WORDS];
        self.error_flag.read(&mut bytes)?;
        let words = bytes.as_chunks().0;
        launches.memory.outcome(&array::from_fn::<u32, ASSERTION_WORDS, _>(|i| u32::from_le_bytes(words[i])))
    }

    /// The time of each launch by timestamp queries.
    fn seconds_by_timestamps(&self, launches: &Launches<Context>) -> Result<Vec<f64>, RunError> {
        let n_launches = launches.plan.launches.len();
        // The launches of a query set are one submission.
        let n_at_once = n_launches.div_ceil(Portion::new(self.step_time).n_parts);
        let n_at_once = n_at_once.clamp(1, MOST_PASSES);
        let mut seconds = vec![];
        for first in (0..n_launches).step_by(n_at_once) {
            let end = (first + n_at_once).min(n_launches);
            let timestamps = Timestamps::new(&self.context, end - first);
            let mut encoder = self.context.encoder();
            for launch in first..end {
                let mut pass = timestamps.begin(&mut encoder, launch - first);
                self.dispatches.list.of_launch(launch).for_each(|number| self.dispatch(&mut pass, number, 0));
            }
            seconds.extend(timestamps.submit(&self.context, encoder)?);
        }
        Ok(seconds)
    }

    /// The time of each launch by the host's clock, including its submission.
    fn seconds_by_waiting(&self, launches: &Launches<Context>) -> Result<Vec<f64>, RunError> {
        let mut seconds = vec![];
        for launch in 0..launches.plan.launches.len() {
            self.context.wait()?;
            let start = Instant::now();
            let mut encoder = self.context.encoder();
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.dispatches.list.of_launch(launch).for_each(|number| self.dispatch(&mut pass, number, 0));
            }
            self.context.queue.submit([encoder.finish()]);
            self.context.wait()?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(seconds)
    }
}
