//! Autotuning on a GPU: programs timed on noise.

use super::api::{Gpu, GpuMemory, GpuProgram, GpuState, Located, MemoryPart};
use super::autotune::{Bench, Choices};
use super::noise;
use super::translate;
use crate::device::DeviceError;
use engine_core::codegen::assertion_words;
use engine_core::fusion::Kernel;
use engine_core::program::{Capability, MatmulCall, Place, Program};
use std::sync::Arc;

/// A GPU that times programs.
pub struct GpuBench<'g, G>(pub &'g Arc<G>);

/// The operands of a kernel, and its record of failed assertions.
pub struct Operands<M> {
    tensors: Vec<M>,
    error_flag: M,
}

/// A compiled program with its workspaces.
pub struct Trial<G: Gpu> {
    program: GpuProgram<G>,
    workspace: G::Memory,
    library: G::Memory,
}

impl<G: Gpu> Bench for GpuBench<'_, G> {
    type Operands = Operands<G::Memory>;
    type Trial = Trial<G>;

    fn choices(&self) -> Choices<'_> {
        let GpuState { tuner, choices, can_autotune, .. } = self.0.state();
        Choices { tuner, disk: choices, can_time: *can_autotune }
    }

    fn capability(&self, call: &MatmulCall) -> Result<Capability, DeviceError> {
        self.0.capability(call)
    }

    fn operands(&self, kernel: &Kernel) -> Result<Operands<G::Memory>, DeviceError> {
        noise::warm_up(self.0)?;
        let tensors = kernel.operands.iter().map(|operand| {
            let memory = G::Memory::new(self.0, operand.ty.bytes().next_multiple_of(VECTOR))?;
            noise::fill(&memory, operand.ty.dtype)?;
            Ok(memory)
        });
        let error_flag = G::Memory::new(self.0, 4 * assertion_words(kernel.assertions()))?;
        Ok(Operands { tensors: tensors.collect::<Result<_, _>>()?, error_flag })
    }

    fn trial(&self, kernel: &Kernel, program: Program) -> Result<Trial<G>, DeviceError> {
        let library = self.0.state().model.library.and_then(|library| program.library_bytes(library));
        Ok(Trial {
            program: translate::of_kernel(self.0, kernel, &program)?,
            workspace: G::Memory::new(self.0, program.workspace_bytes)?,
            library: G::Memory::new(self.0, library.unwrap_or(0))?,
        })
    }

    fn seconds(
        &self,
        operands: &Operands<G::Memory>,
        trial: &Trial<G>,
        least: f64,
    ) -> Result<f64, DeviceError> {
        // A program on panels reads workspace that no timed launch writes.
        trial.workspace.clear()?;
        self.0.seconds(&trial.program, &TrialMemory::<G> { operands, trial }, least)
    }
}

/// Kernels load whole vectors of so many bytes.
const VECTOR: usize = 16;

/// The memory of a trial.
struct TrialMemory<'t, G: Gpu> {
    operands: &'t Operands<G::Memory>,
    trial: &'t Trial<G>,
}

impl<G: Gpu> Located<G::Memory> for TrialMemory<'_, G> {
    fn part(&self, place: Place) -> MemoryPart<'_, G::Memory> {
        match place {
            Place::Operand { operand, offset } => {
                let memory = &self.operands.tensors[operand];
                MemoryPart { memory, offset, bytes: memory.bytes() - offset }
            }
            Place::Workspace { start, bytes } => {
                MemoryPart { memory: &self.trial.workspace, offset: start, bytes }
            }
            Place::Assertions => MemoryPart::whole(&self.operands.error_flag),
        }
    }

    fn library(&self) -> MemoryPart<'_, G::Memory> {
        MemoryPart::whole(&self.trial.library)
    }
}
