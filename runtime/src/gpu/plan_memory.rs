//! All memory of a plan on a GPU: arena, inputs, step numbers, workspaces and the record of failed assertions.

use super::api::{Gpu, GpuMemory, Located, MemoryPart};
use super::arena::Arena;
use crate::bindings::Bindings;
use crate::device::{DeviceBuffer, DeviceError, RunError};
use engine_core::codegen::{assertion_words, first_failure};
use engine_core::ir::InputKind;
use engine_core::plan::{BufferId, Place as Home, Plan};
use engine_core::program::{Place, Workspaces};
use std::ops::Range;
use std::sync::Arc;

/// The memory of a buffer.
///
/// # Errors
/// If the buffer belongs to another device.
pub fn own_memory<M: GpuMemory>(buffer: &DeviceBuffer, gpu: &Arc<M::Gpu>) -> Result<Arc<M>, DeviceError> {
    let memory = buffer.memory::<M>()?;
    if memory.is_of(gpu) { Ok(memory) } else { Err(DeviceError::ForeignBuffer) }
}

/// The memory of a plan.
pub struct PlanMemory<G: Gpu> {
    plan: Arc<Plan>,
    arena: Arena<G::Memory>,
    bindings: Bindings<G::Memory>,
    /// The numbers of several steps.
    steps: G::Memory,
    /// The workspaces of all launches.
    workspace: G::Memory,
    workspaces: Workspaces,
    error_flag: G::Memory,
}

impl<G: Gpu> PlanMemory<G> {
    /// Allocates everything but the inputs.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        gpu: &Arc<G>,
        plan: &Arc<Plan>,
        workspaces: Workspaces,
        n_steps: usize,
    ) -> Result<PlanMemory<G>, DeviceError> {
        let workspace = G::Memory::new(gpu, workspaces.bytes);
        Ok(PlanMemory {
            arena: Arena::new(gpu, plan)?,
            bindings: Bindings::new(plan),
            steps: G::Memory::new(gpu, n_steps * G::STEP_STRIDE)?,
            workspace: workspace.map_err(|error| error.of_buffer(&name_of_workspace(plan, &workspaces)))?,
            error_flag: G::Memory::new(gpu, 4 * assertion_words(plan.check_nodes()))?,
            plan: Arc::clone(plan),
            workspaces,
        })
    }

    /// Binds memory to an input. Returns whether the binding has changed.
    ///
    /// # Errors
    /// As [`crate::device::Executable::bind`].
    pub fn bind(&mut self, gpu: &Arc<G>, input: &str, buffer: &DeviceBuffer) -> Result<bool, DeviceError> {
        Ok(self.bindings.bind(input, buffer, |memory| memory.is_of(gpu))?.is_some())
    }

    /// Notes that a run updates states.
    pub fn note_writes(&self) {
        self.bindings.note_writes();
    }

    /// An error that names the first input without memory.
    pub fn check(&self) -> Result<(), RunError> {
        self.bindings.check()
    }

    /// Bytes of the arena.
    pub fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Bytes of all workspaces.
    pub fn workspace_bytes(&self) -> usize {
        self.workspace.bytes()
    }

    /// The numbers of several steps, each [`Gpu::STEP_STRIDE`] bytes after the one before.
    pub fn steps(&self) -> &G::Memory {
        &self.steps
    }

    /// The record of failed assertions.
    pub fn error_flag(&self) -> &G::Memory {
        &self.error_flag
    }

    /// Whether a kernel reads the step number.
    pub fn reads_steps(&self) -> bool {
        self.plan.buffers.iter().any(|buffer| buffer.place == Home::Input(InputKind::Step))
    }

    /// The memory of a launch in a step, counted from the first one whose number is in memory.
    pub fn launch(&self, number: usize, step: usize) -> LaunchMemory<'_, G> {
        LaunchMemory { memory: self, number, step }
    }

    /// The memory of an output. `None` if it is the step number.
    ///
    /// # Errors
    /// If there is no such output, or it has another size.
    pub fn output(
        &self,
        name: &str,
        n_bytes: usize,
    ) -> Result<Option<MemoryPart<'_, G::Memory>>, DeviceError> {
        let id = self.bindings.output(name, n_bytes)?;
        let is_step = self.plan.buffers[id].place == Home::Input(InputKind::Step);
        Ok((!is_step).then(|| self.buffer(id, 0)))
    }

    /// The error of a run that ends with these words of the error flag, which is cleared if an assertion failed.
    ///
    /// # Errors
    /// If an assertion failed.
    pub fn outcome(&self, words: &[u32]) -> Result<(), RunError> {
        let Some(failed) = first_failure(words) else { return Ok(()) };
        self.error_flag.clear()?;
        Err(RunError::assertion(&self.plan, failed))
    }

    fn buffer(&self, id: BufferId, step: usize) -> MemoryPart<'_, G::Memory> {
        let bytes = self.plan.buffers[id].ty.bytes();
        match self.plan.buffers[id].place {
            Home::Arena(_) => self.arena.part(id, bytes),
            Home::Input(InputKind::Step) => {
                MemoryPart { memory: &self.steps, offset: step * G::STEP_STRIDE, bytes }
            }
            Home::Input(_) => MemoryPart { memory: self.bindings.memory(id), offset: 0, bytes },
        }
    }
}

/// The memory of a launch in a step.
pub struct LaunchMemory<'p, G: Gpu> {
    memory: &'p PlanMemory<G>,
    number: usize,
    step: usize,
}

impl<G: Gpu> Located<G::Memory> for LaunchMemory<'_, G> {
    fn part(&self, place: Place) -> MemoryPart<'_, G::Memory> {
        let memory = self.memory;
        match place {
            Place::Operand { operand, offset } => {
                let whole = memory.buffer(memory.plan.launches[self.number].buffers[operand], self.step);
                MemoryPart { offset: whole.offset + offset, bytes: whole.bytes - offset, ..whole }
            }
            Place::Workspace { start, bytes } => {
                let offset = memory.workspaces.launches[self.number].start + start;
                MemoryPart { memory: &memory.workspace, offset, bytes }
            }
            Place::Assertions => MemoryPart::whole(&memory.error_flag),
        }
    }

    fn library(&self) -> MemoryPart<'_, G::Memory> {
        let Range { start, end } =
            self.memory.workspaces.library[self.memory.plan.launches[self.number].stream];
        MemoryPart { memory: &self.memory.workspace, offset: start, bytes: end - start }
    }
}

/// Whether a place of a launch holds the step number.
#[cfg(feature = "wgpu")]
pub fn is_step_number(plan: &Plan, launch: usize, place: Place) -> bool {
    let Place::Operand { operand, .. } = place else { return false };
    plan.buffers[plan.launches[launch].buffers[operand]].place == Home::Input(InputKind::Step)
}

/// The name of the largest workspace, for errors.
fn name_of_workspace(plan: &Plan, workspaces: &Workspaces) -> String {
    let launches = plan.launches.iter().zip(&workspaces.launches);
    let largest = launches.max_by_key(|(_, range)| range.len());
    format!("scratch of {}", largest.map_or("no kernel", |(launch, _)| &*plan.kernels[launch.kernel].name))
}
