//! A plan on a GPU.

use super::api::{Gpu, GpuMemory};
use super::autotune::Timed;
use super::bench::GpuBench;
use super::candidates::Candidates;
use super::plan_memory::PlanMemory;
use super::queue::{Launches, PlanGpu, Queue};
use super::translate;
use crate::device::{Arrival, DeviceBuffer, DeviceError, Executable, KernelTime, RunError};
use engine_core::plan::Plan;
use engine_core::program::{NoProgram, Programs, Refusal};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A plan, ready to run.
pub struct GpuExecutable<G: PlanGpu> {
    gpu: Arc<G>,
    /// Dropped before the memory that its work uses.
    pub queue: G::Queue,
    launches: Launches<G>,
    /// The number of the last step; 0 before the first run.
    last_step: u32,
}

impl<G: PlanGpu> GpuExecutable<G> {
    /// Chooses the programs of a plan, compiles their kernels and allocates memory.
    ///
    /// # Errors
    /// As [`crate::device::Device::prepare`].
    pub fn new(gpu: &Arc<G>, plan: Arc<Plan>, seed: u64) -> Result<GpuExecutable<G>, DeviceError> {
        gpu.enter()?;
        let programs = choose(gpu, &plan)?;
        let prepared = translate::of_plan(gpu, &plan, &programs, seed)?;
        let queue = G::Queue::new(gpu, &plan, &prepared)?;
        let memory = PlanMemory::new(gpu, &plan, programs.workspaces, queue.most_steps())?;
        let launches = Launches { plan, programs: prepared, memory };
        Ok(GpuExecutable { gpu: Arc::clone(gpu), queue, launches, last_step: 0 })
    }
}

/// The programs of a plan, with autotuned variants.
///
/// # Errors
/// If a launch has no program, or the device fails.
pub fn choose<G: Gpu>(gpu: &Arc<G>, plan: &Plan) -> Result<Programs, DeviceError> {
    let state = gpu.state();
    let error = |NoProgram { launch, refusal }| match refusal {
        Refusal::Tuner(error) => error,
        Refusal::Codegen(reason) => {
            let kernel = &plan.kernels[plan.launches[launch].kernel];
            DeviceError::not_emitted(&state.name, &kernel.name, &reason)
        }
    };
    let candidates = Candidates::new(gpu);
    let programs = plan.programs(&state.model, &candidates).map_err(error)?;
    if candidates.is_empty() {
        return Ok(programs);
    }
    candidates.compile();
    plan.programs(&state.model, &Timed(GpuBench(gpu))).map_err(error)
}

impl<G: PlanGpu> Executable for GpuExecutable<G> {
    fn arena_bytes(&self) -> usize {
        self.launches.memory.arena_bytes()
    }

    fn scratch_bytes(&self) -> usize {
        self.launches.memory.workspace_bytes() + self.queue.bytes()
    }

    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        if self.launches.memory.bind(&self.gpu, input, buffer)? {
            self.queue.rebind();
        }
        Ok(())
    }

    fn wait_for(&mut self, arrival: &Arrival) -> Result<(), DeviceError> {
        self.gpu.enter()?;
        self.queue.wait_for(arrival)
    }

    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.launches.memory.check()?;
        if n_steps == 0 {
            return Ok(());
        }
        self.launches.memory.note_writes();
        self.gpu.enter()?;
        self.last_step = first_step.wrapping_add(n_steps - 1);
        self.queue.run(&self.launches, first_step, n_steps)
    }

    fn cancel_by(&mut self, flag: Arc<AtomicBool>) {
        self.queue.cancel_by(flag);
    }

    fn host_seconds(&self) -> Option<f64> {
        Some(self.queue.submission_time().as_secs_f64())
    }

    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        match self.launches.memory.output(name, bytes.len())? {
            Some(_) if bytes.is_empty() => Ok(()),
            Some(part) => part.memory.read(part.offset, bytes),
            None => {
                bytes.copy_from_slice(&self.last_step.to_le_bytes());
                Ok(())
            }
        }
    }

    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.launches.memory.check()?;
        self.launches.memory.note_writes();
        self.gpu.enter()?;
        self.last_step = step;
        let seconds = self.queue.profile(&self.launches, step)?.into_iter().enumerate();
        let plan = &self.launches.plan;
        Ok(seconds.map(|(launch, seconds)| KernelTime::new(plan, launch, seconds)).collect())
    }
}
