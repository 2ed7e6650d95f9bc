//! Autotuning on CUDA: programs timed on noise.

use super::clock::{fill, seconds, warm_up};
use super::compile::Text;
use super::context::Context;
use super::memory::Memory;
use super::product::Product;
use super::steps::{Addresses, Prepared};
use super::streams::PlanStreams;
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu::autotune::Bench;
use cudarc::driver::sys::CUdeviceptr;
use engine_core::codegen::assertion_words;
use engine_core::fusion::Kernel;
use engine_core::program::{Capability, MatmulCall, Multiplier, Program};
use std::sync::Arc;

/// A GPU that times programs.
pub struct CudaBench<'c>(pub &'c Arc<Context>);

/// A compiled program with its own workspace.
pub struct ProgramTrial {
    prepared: Prepared,
    streams: PlanStreams,
    workspace: Memory,
    library: Memory,
    assertions: Memory,
}

impl Bench for CudaBench<'_> {
    type Operands = Vec<Memory>;
    type Trial = ProgramTrial;

    fn tuner(&self) -> &Tuner {
        &self.0.tuner
    }

    fn disk(&self) -> &DiskCache {
        &self.0.kernels.disk
    }

    fn can_time(&self) -> bool {
        true
    }

    fn capability(&self, call: &MatmulCall) -> Result<Capability, DeviceError> {
        if call.multiplier != Multiplier::Library {
            return Ok(Capability::None);
        }
        let product = Product::new(self.0, call)?;
        Ok(product.map_or(Capability::None, |product| Capability::Algorithm(product.algorithm_text())))
    }

    fn operands(&self, kernel: &Kernel) -> Result<Vec<Memory>, DeviceError> {
        warm_up(self.0)?;
        let operands = kernel.operands.iter().map(|operand| {
            let memory = Memory::new(self.0, operand.ty.bytes().next_multiple_of(16))?;
            if operand.ty.dtype.is_float() {
                fill(self.0, &memory, operand.ty.dtype)?;
            }
            Ok(memory)
        });
        operands.collect()
    }

    fn trial(&self, kernel: &Kernel, program: Program) -> Result<ProgramTrial, DeviceError> {
        let context = self.0;
        context.enter()?;
        let mut prepared = Prepared::new(context, &kernel.name, &program, 0)?;
        let texts: Vec<Text> = prepared.texts(&kernel.name).collect();
        let functions = context.kernels.load(&texts)?;
        prepared.take(&mut functions.into_iter());
        let library = context.model.library.filter(|_| program.calls_library());
        Ok(ProgramTrial {
            prepared,
            streams: PlanStreams::new(context, 1)?,
            workspace: Memory::new(context, program.workspace_bytes)?,
            library: Memory::new(context, library.map_or(0, |library| library.workspace_bytes))?,
            assertions: Memory::new(context, 4 * assertion_words(kernel.assertions()))?,
        })
    }

    fn seconds(&self, operands: &Vec<Memory>, trial: &ProgramTrial, _: f64) -> Result<f64, DeviceError> {
        let operands: Vec<CUdeviceptr> = operands.iter().map(Memory::start).collect();
        // A program on panels reads workspace that no timed launch writes.
        trial.workspace.clear()?;
        let addresses = Addresses {
            operands: &operands,
            workspace: trial.workspace.start(),
            library: trial.library.range(),
            assertions: trial.assertions.start(),
            stream: trial.streams.stream(0),
        };
        seconds(trial.streams.main(), || trial.prepared.enqueue(&addresses))
    }
}
