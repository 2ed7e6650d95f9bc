//! The interface between programs and the APIs of GPUs.

use super::prepared::{Prepared, Work};
use super::source::{KernelCache, Source};
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::{DeviceError, DeviceKind, Staging};
use engine_core::codegen::KernelSpec;
use engine_core::device_model::DeviceModel;
use engine_core::program::{Capability, MatmulCall, Place};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A GPU as an API opens it: driver, compiler and queue.
pub trait Gpu: Any + Send + Sync + Sized {
    /// The API.
    const KIND: DeviceKind;
    /// Bytes from the number of one step to the number of the next one.
    const STEP_STRIDE: usize;

    /// Its memory.
    type Memory: GpuMemory<Gpu = Self>;
    /// A compiled kernel.
    type Kernel: Send + Sync;
    /// A matmul of a library.
    type Product: Send;

    /// The state that does not depend on the API.
    fn state(&self) -> &GpuState<Self::Kernel>;

    /// Facts for the user, as (name, value).
    fn details(&self) -> Vec<(String, String)>;

    /// Takes the compiler's notes for the user.
    fn take_notes(&self) -> Vec<String>;

    /// The size of the largest memory.
    fn most_memory_bytes(&self) -> u64;

    /// Prepares the calling thread for calls of the API.
    fn enter(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The text of a kernel.
    fn source(&self, owner: &str, kernel: &KernelSpec) -> Result<Source, DeviceError>;

    /// Compiles a kernel; `owner` names it in errors.
    fn compile(&self, owner: &str, source: &Source) -> Result<Self::Kernel, DeviceError>;

    /// The implementation of a matmul; `None` if there is none.
    fn matmul(self: &Arc<Self>, call: &MatmulCall) -> Result<Option<Matmul<Self::Product>>, DeviceError>;

    /// How the GPU computes a matmul, for the choice of a program.
    fn capability(self: &Arc<Self>, call: &MatmulCall) -> Result<Capability, DeviceError>;

    /// The reason why a step cannot run, if the API lacks it.
    fn refusal(_work: &Work) -> Option<&'static str> {
        None
    }

    /// As [`crate::device::Device::staging`].
    fn staging(
        self: &Arc<Self>,
        _n_slots: usize,
        _slot_bytes: usize,
    ) -> Result<Option<Box<dyn Staging>>, DeviceError> {
        Ok(None)
    }

    /// The time of a program in seconds. `least` is its least time so far, infinite at first.
    fn seconds(
        self: &Arc<Self>,
        program: &GpuProgram<Self>,
        memory: &dyn Located<Self::Memory>,
        least: f64,
    ) -> Result<f64, DeviceError>;
}

/// A program ready to run on a GPU.
pub type GpuProgram<G> = Prepared<<G as Gpu>::Kernel, <G as Gpu>::Product>;

/// The state of a GPU that does not depend on its API.
pub struct GpuState<K> {
    /// Its name, for the user.
    pub name: String,
    /// The GPU as the compiler sees it.
    pub model: DeviceModel,
    /// The size of its memory; 0 if unknown.
    pub memory_bytes: u64,
    /// The compiled kernels.
    pub kernels: KernelCache<K>,
    /// The choices of autotuning, for reports and checkpoints.
    pub tuner: Tuner,
    /// The choices of earlier runs.
    pub choices: DiskCache,
    /// Whether autotuning is useful: the GPU is hardware and has a clock.
    pub can_autotune: bool,
    /// Whether a warm-up has raised the clock rate.
    pub is_warmed_up: AtomicBool,
}

/// The implementation of a matmul that is not a kernel of code generation.
pub enum Matmul<P> {
    /// A call of a library.
    Library(P),
    /// A kernel on matrix units, with its grid. Its buffers are the factors and the result.
    Kernel(Source, [usize; 3]),
}

/// Zero-initialized memory of a GPU.
pub trait GpuMemory: Any + Send + Sync + Sized {
    /// The GPU.
    type Gpu;

    /// Allocates memory.
    fn new(gpu: &Arc<Self::Gpu>, bytes: usize) -> Result<Self, DeviceError>;

    /// Whether the memory belongs to a GPU.
    fn is_of(&self, gpu: &Arc<Self::Gpu>) -> bool;

    /// Its size.
    fn bytes(&self) -> usize;

    /// Copies from the host to an offset. The range lies within the memory.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from an offset to the host. The range lies within the memory.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Zeroes it.
    fn clear(&self) -> Result<(), DeviceError> {
        self.write(0, &vec![0; self.bytes()])
    }
}

/// Part of a memory.
pub struct MemoryPart<'m, M> {
    pub memory: &'m M,
    /// Its first byte.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
}

impl<'m, M: GpuMemory> MemoryPart<'m, M> {
    /// All of a memory.
    pub fn whole(memory: &'m M) -> MemoryPart<'m, M> {
        MemoryPart { memory, offset: 0, bytes: memory.bytes() }
    }
}

/// The memory of the steps of one program.
pub trait Located<M> {
    /// The memory of a place.
    fn part(&self, place: Place) -> MemoryPart<'_, M>;

    /// The workspace of the library.
    fn library(&self) -> MemoryPart<'_, M>;
}
