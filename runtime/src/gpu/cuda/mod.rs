//! The CUDA device: generated kernels compiled by NVRTC, matmuls by cuBLASLt, steps replayed as CUDA graphs.
//!
//! Opening a device opens the three libraries (the driver, NVRTC, cuBLASLt), and cuDNN if it is installed. A process that opens no CUDA device runs
//! without them. The modules, from the lowest layer to the highest:
//!
//! - `error` words the driver's errors. `event` and `graph` wrap events and graph capture.
//! - `libraries` opens NVIDIA's libraries. `nvrtc`, `cublaslt` and `cudnn` are these libraries, `library_call` the
//!   interface of the last two.
//! - `compile` turns CUDA C++ into loaded kernels, `context` owns the CUDA context, `memory` owns allocations.
//! - `streams` are those of a plan, `clock` times work.
//! - `trial` times algorithms of libraries, and `product` chooses one for a call.
//! - `tensor_map` encodes tensor maps. `stop` cancels loops, `loops` enqueues them, `steps` enqueues programs.
//! - `queue` runs the steps of a plan, `staging` copies rows from pinned memory.

mod clock;
mod compile;
mod context;
mod cublaslt;
mod cudnn;
mod error;
mod event;
mod graph;
mod libraries;
mod library_call;
mod loops;
mod memory;
mod nvrtc;
mod product;
mod queue;
mod staging;
mod steps;
mod stop;
mod streams;
mod tensor_map;
mod trial;

#[cfg(test)]
mod tests;

use super::GpuDevice;
use super::api::{Gpu, GpuProgram, GpuState, Located, Matmul};
use super::queue::PlanGpu;
use super::source::Source;
use crate::device::{DeviceError, DeviceKind, Staging};
use compile::Function;
use context::Context;
use engine_core::codegen::KernelSpec;
use engine_core::program::{Capability, MatmulCall};
use memory::CudaMemory;
use nvrtc::{CompileError, Known};
use product::Product;
use queue::CudaQueue;
use staging::CudaStaging;
use std::path::Path;
use std::sync::Arc;
use steps::{StepEvents, enqueue};
use stop::Stop;
use streams::PlanStreams;

/// Compiles a text of CUDA C++ for an architecture such as `sm_90a` by the NVRTC of a toolkit, which has the folders `lib` and
/// `include`. No GPU is needed. Returns what NVRTC and its assembler say: warnings, registers, spills.
///
/// # Errors
/// If the toolkit has no NVRTC, or NVRTC refuses the text. The message has its log.
pub fn compiler_report(text: &str, architecture: &str, toolkit: &Path) -> Result<String, DeviceError> {
    if !libraries::open_compiler_in(&toolkit.join("lib")) {
        return Err(DeviceError::Failed(format!("{} has no lib/libnvrtc.so", toolkit.display())));
    }
    nvrtc::report(text, architecture, &toolkit.join("include")).map_err(|error| match error {
        CompileError::Refused(log) => DeviceError::Failed(log),
        CompileError::Missing(what) => DeviceError::Failed(what),
    })
}

/// An NVIDIA GPU.
pub type CudaDevice = GpuDevice<Context>;

impl CudaDevice {
    /// Opens the GPU of this number. With `ENGINE_CUDA_CAPABILITY=8.0`, kernels are those of a GPU of that compute capability,
    /// and the driver compiles their PTX.
    ///
    /// # Errors
    /// If the driver, the GPU, NVRTC or cuBLASLt is missing, or their versions do not fit. The message names the cause.
    pub fn new(ordinal: usize) -> Result<CudaDevice, DeviceError> {
        Ok(GpuDevice { gpu: Context::new(ordinal, Known::from_env()?)? })
    }

    /// Opens the GPU of this number as if it were newer than NVRTC. NVRTC then compiles to PTX for the newest older
    /// architecture, and the driver compiles the PTX for the GPU.
    ///
    /// # Errors
    /// As [`CudaDevice::new`].
    pub fn through_ptx(ordinal: usize) -> Result<CudaDevice, DeviceError> {
        Ok(GpuDevice { gpu: Context::new(ordinal, Known::Older)? })
    }

    /// The number of GPUs that the driver lists.
    ///
    /// # Errors
    /// If the driver is missing or does not start.
    pub fn count() -> Result<usize, DeviceError> {
        context::count()
    }
}

impl Gpu for Context {
    const KIND: DeviceKind = DeviceKind::Cuda;
    const STEP_STRIDE: usize = 4;

    type Memory = CudaMemory;
    type Kernel = Function;
    type Product = Product;

    fn state(&self) -> &GpuState<Function> {
        &self.state
    }

    fn details(&self) -> Vec<(String, String)> {
        Context::details(self)
    }

    fn take_notes(&self) -> Vec<String> {
        self.compiler.disk.take_notes()
    }

    fn most_memory_bytes(&self) -> u64 {
        u64::MAX
    }

    fn enter(&self) -> Result<(), DeviceError> {
        Context::enter(self)
    }

    fn source(&self, owner: &str, kernel: &KernelSpec) -> Result<Source, DeviceError> {
        let source = kernel.cuda_source();
        let source = source.map_err(|error| DeviceError::not_emitted(&self.state.name, owner, &error))?;
        Ok(Source {
            text: source.text,
            entry: source.entry,
            threads: source.block_dim,
            shared_bytes: source.shared_bytes,
            n_buffers: source.arguments.len(),
            maps: source.maps,
        })
    }

    fn compile(&self, owner: &str, source: &Source) -> Result<Function, DeviceError> {
        Context::enter(self)?;
        self.compiler.load(owner, source)
    }

    fn matmul(self: &Arc<Self>, call: &MatmulCall) -> Result<Option<Matmul<Product>>, DeviceError> {
        Ok(Product::new(self, call)?.map(Matmul::Library))
    }

    fn capability(self: &Arc<Self>, call: &MatmulCall) -> Result<Capability, DeviceError> {
        let product = Product::new(self, call)?;
        Ok(product.map_or(Capability::None, |product| Capability::Algorithm(product.algorithm_text())))
    }

    fn staging(
        self: &Arc<Self>,
        n_slots: usize,
        slot_bytes: usize,
    ) -> Result<Option<Box<dyn Staging>>, DeviceError> {
        Ok(Some(Box::new(CudaStaging::new(self, n_slots, slot_bytes)?)))
    }

    fn seconds(
        self: &Arc<Self>,
        program: &GpuProgram<Context>,
        memory: &dyn Located<CudaMemory>,
        _least: f64,
    ) -> Result<f64, DeviceError> {
        let stop = Arc::new(Stop::new(self)?);
        let (streams, events) = (PlanStreams::new(self, 1)?, StepEvents::new(self, &program.steps, &stop)?);
        clock::seconds(streams.main(), || {
            let stream = streams.stream(0);
            stream.main().enqueues(false);
            enqueue(program, &events, memory, stream)
        })
    }
}

impl PlanGpu for Context {
    type Queue = CudaQueue;
}
