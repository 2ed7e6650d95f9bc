//! A plan on the CPU: its kernels compiled, its arena and scratch allocated, its launches run in order.

use super::interp::{AssertionRecord, Buffer};
use super::launch::Prepared;
use super::launch::scratch::{LaunchSize, WorkerScratch};
use super::memory::Memory;
use super::pool::Pool;
use crate::bindings::Bindings;
use crate::device::{DeviceBuffer, DeviceError, Executable, KernelTime, RunError};
use engine_core::ir::InputKind;
use engine_core::plan::{BufferId, Place, Plan};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A plan, ready to run.
pub struct CpuExecutable {
    plan: Arc<Plan>,
    seed: u64,
    pool: Arc<Mutex<Pool>>,
    arena: Memory,
    step: Memory,
    bindings: Bindings<Memory>,
    launches: Vec<Prepared>,
    workers: Vec<WorkerScratch>,
    scratch_bytes: usize,
    assertions: AssertionRecord,
}

impl CpuExecutable {
    /// Compiles a plan for the workers of a pool.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(plan: Arc<Plan>, seed: u64, pool: Arc<Mutex<Pool>>) -> Result<CpuExecutable, DeviceError> {
        let arena = Memory::new(plan.arena_bytes)?;
        let before = Memory::taken_by_this_thread();
        let launches: Vec<Prepared> = plan
            .launches
            .iter()
            .map(|launch| Prepared::new(&plan, launch, arena.start()))
            .collect::<Result<_, _>>()?;
        let n_threads = pool.lock().unwrap_or_else(PoisonError::into_inner).n_threads();
        let size = launches.iter().map(Prepared::size).fold(LaunchSize::default(), LaunchSize::max);
        let others = LaunchSize { parts: 0, ..size };
        let sizes = (0..n_threads).map(|worker| if worker == 0 { size } else { others });
        let workers = sizes.map(WorkerScratch::new).collect::<Result<_, _>>()?;
        let products = n_threads * WorkerScratch::PANEL_BYTES;
        let mut executable = CpuExecutable {
            scratch_bytes: Memory::taken_by_this_thread() - before + products,
            seed,
            pool,
            arena,
            step: Memory::new(8)?,
            bindings: Bindings::new(&plan),
            launches,
            workers,
            assertions: AssertionRecord::default(),
            plan,
        };
        (0..executable.plan.buffers.len()).for_each(|buffer| executable.place(buffer));
        Ok(executable)
    }

    /// The first byte of a buffer; null for an input that is not bound.
    fn start(&self, id: BufferId) -> *mut u8 {
        match self.plan.buffers[id].place {
            Place::Arena(offset) => self.arena.start().wrapping_add(offset),
            Place::Input(InputKind::Step) => self.step.start(),
            Place::Input(_) => self.bindings.get(id).map_or(std::ptr::null_mut(), Memory::start),
        }
    }

    /// Sets the address of a buffer in all launches.
    fn place(&mut self, id: BufferId) {
        let ty = &self.plan.buffers[id].ty;
        let placed = Buffer { start: self.start(id), len: ty.numel(), size: ty.dtype.size() };
        for (launch, prepared) in self.plan.launches.iter().zip(&mut self.launches) {
            for (operand, _) in launch.buffers.iter().enumerate().filter(|(_, used)| **used == id) {
                prepared.buffers[operand] = placed;
            }
        }
    }

    fn take_step(&mut self, step: u32, mut after: impl FnMut(usize)) -> Result<(), RunError> {
        let pool = Arc::clone(&self.pool);
        let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no launch is running.
        unsafe { self.step.start().cast::<u32>().write(step) };
        for launch in 0..self.launches.len() {
            let prepared = &mut self.launches[launch];
            let has_failed = prepared.writes_state && self.assertions.has_failure();
            // SAFETY: all buffers are placed, with the sizes of the plan. The plan lets no live buffers overlap, and launches
            // run one after the other.
            unsafe {
                match has_failed {
                    // The check may fail at a lower node or position.
                    true => prepared.check(&mut pool, &mut self.workers, self.seed, &self.assertions),
                    false => prepared.run(&mut pool, &mut self.workers, self.seed, &self.assertions),
                }
            }
            if has_failed {
                break;
            }
            if self.assertions.is_cancelled() {
                return Err(RunError::Cancelled);
            }
            after(launch);
        }
        match self.assertions.take() {
            Some(failure) => Err(RunError::assertion(&self.plan, failure)),
            None => Ok(()),
        }
    }
}

impl Executable for CpuExecutable {
    fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        let changed = self.bindings.bind(input, buffer, |_| true)?;
        changed.into_iter().for_each(|id| self.place(id));
        Ok(())
    }

    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.bindings.check()?;
        self.bindings.note_writes();
        (0..n_steps).try_for_each(|i| self.take_step(first_step.wrapping_add(i), |_| {}))
    }

    fn cancel_by(&mut self, flag: Arc<AtomicBool>) {
        self.assertions.cancel = flag;
    }

    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let id = self.bindings.output(name, bytes.len())?;
        let start = self.start(id);
        // SAFETY: the buffer has memory of that many bytes, and no launch is running.
        bytes.copy_from_slice(unsafe { std::slice::from_raw_parts(start, bytes.len()) });
        Ok(())
    }

    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.bindings.check()?;
        self.bindings.note_writes();
        let plan = Arc::clone(&self.plan);
        let mut times = Vec::with_capacity(plan.launches.len());
        let mut last = Instant::now();
        self.take_step(step, |launch| {
            let now = Instant::now();
            times.push(KernelTime::new(&plan, launch, (now - last).as_secs_f64()));
            last = now;
        })?;
        Ok(times)
    }
}
