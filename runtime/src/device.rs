//! The interface between sessions and devices: memory, and plans compiled to executables.
//!
//! A device owns no state of a training run. The session allocates buffers for parameters, state and data, binds them
//! to an [`Executable`] by the names of the plan's inputs, and runs steps. The executable owns the arena of intermediate
//! values.

mod error;

use crate::autotune::Tuning;
use crate::tensor::HostTensor;
use engine_core::device_model::DeviceModel;
use engine_core::plan::Plan;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use error::{DeviceError, RunError, largest_tensors};

/// A device that runs plans.
pub trait Device: Send + Sync {
    /// Name, kind and facts of the device.
    fn info(&self) -> DeviceInfo;

    /// The device as the compiler sees it.
    fn model(&self) -> DeviceModel {
        DeviceModel::CPU
    }

    /// Allocates zero-initialized memory, aligned to 64 bytes.
    ///
    /// # Errors
    /// If memory does not suffice.
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError>;

    /// A buffer that shares the tensor's memory, if the device reads host memory in place. Large data then exists once. The
    /// buffer must not be written.
    fn share(&self, _tensor: &HostTensor) -> Option<DeviceBuffer> {
        None
    }

    /// Staging memory from which the device copies while steps run: `n_slots` slots of `slot_bytes` bytes each. `None` if the
    /// device has no asynchronous copies.
    ///
    /// # Errors
    /// If memory does not suffice.
    fn staging(&self, _n_slots: usize, _slot_bytes: usize) -> Result<Option<Box<dyn Staging>>, DeviceError> {
        Ok(None)
    }

    /// Copies `bytes` to a buffer, from byte `offset` on. No running executable may use these bytes. Before the whole buffer
    /// was written once, no running executable may use any part of it: a device may clear memory at its first use.
    ///
    /// # Errors
    /// If the range exceeds the buffer, or the buffer belongs to another device.
    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies a buffer to `bytes`, from byte `offset` on. No running executable may use the buffer.
    ///
    /// # Errors
    /// If the range exceeds the buffer, or the buffer belongs to another device.
    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// The choices of autotuning; `None` if there are none.
    fn tuning(&self) -> Option<Tuning> {
        None
    }

    /// Adopts the choices of another run for plans that are prepared from now on. Returns whether that run used the same
    /// model of device; otherwise the choices are ignored.
    fn adopt(&self, _tuning: &Tuning) -> bool {
        false
    }

    /// Notes for the user since the last call, such as a damaged cache file that was replaced.
    fn take_notes(&self) -> Vec<String> {
        vec![]
    }

    /// Compiles a plan and allocates its arena. `seed` keys the plan's random nodes.
    ///
    /// # Errors
    /// If memory does not suffice, or the device does not support a kernel.
    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError>;
}

/// A plan compiled for a device.
pub trait Executable: Send {
    /// Bytes allocated for intermediate values: the plan's `arena_bytes`, unless the device needs another layout.
    fn arena_bytes(&self) -> usize;

    /// Bytes allocated for workspaces and the scalars of kernels.
    fn scratch_bytes(&self) -> usize;

    /// Binds a buffer to an input of the plan. Every input except the step number needs one. A new binding takes effect with
    /// the next run.
    ///
    /// # Errors
    /// If the plan has no such input, or the buffer is too small or belongs to another device.
    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError>;

    /// Makes later runs wait on the device for copies.
    ///
    /// # Errors
    /// If the device fails.
    fn wait_for(&mut self, _arrival: &Arrival) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Runs steps `first_step`, `first_step + 1`, …, and returns when the last one is done. Parameters and state
    /// are updated in the buffers that are bound to them.
    ///
    /// # Errors
    /// If an input is not bound, or an assertion fails: an index is out of range or an integer is divided by zero. After a
    /// failed assertion, no kernel writes parameters or state. The error reports the failure of the first failing step with
    /// the lowest node and, within it, the lowest position. If the plan writes no state, a device may continue and report the
    /// lowest failure of all steps.
    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError>;

    /// Lets a flag end later runs between two trips of a loop, with [`RunError::Cancelled`]. States may then hold a part of a
    /// step. On CUDA, a loop that is captured trip by trip runs to its end.
    fn cancel_by(&mut self, _flag: Arc<AtomicBool>) {}

    /// The submission time of the last run in seconds: host time until all work was enqueued. `None` on the CPU.
    fn host_seconds(&self) -> Option<f64> {
        None
    }

    /// Copies an output of the last step to `bytes`.
    ///
    /// # Errors
    /// If the plan has no such output, or `bytes` has another size.
    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Runs one step and measures each launch, in the order of the plan.
    ///
    /// # Errors
    /// As for [`Executable::run`].
    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError>;
}

/// Host memory from which a device copies while steps run.
pub trait Staging: Send {
    /// The memory of a slot, for writing. Waits for copies out of the slot.
    ///
    /// # Errors
    /// If the device fails.
    fn slot(&mut self, slot: usize) -> Result<&mut [u8], DeviceError>;

    /// Starts a copy of some bytes of a slot to a buffer, from byte `offset` on. No running executable may use these bytes
    /// of the buffer.
    ///
    /// # Errors
    /// If the range exceeds the buffer, or the buffer belongs to another device.
    fn send(
        &mut self,
        slot: usize,
        bytes: Range<usize>,
        buffer: &DeviceBuffer,
        offset: usize,
    ) -> Result<(), DeviceError>;

    /// The end of all copies from a slot, for [`Executable::wait_for`].
    ///
    /// # Errors
    /// If the device fails.
    fn arrival(&mut self, slot: usize) -> Result<Arrival, DeviceError>;
}

/// The end of copies to a device. The default stands for completed copies.
#[derive(Clone, Default)]
pub struct Arrival(Option<Arc<dyn Any + Send + Sync>>);

impl Arrival {
    /// Wraps an event of a device.
    pub fn new<E: Any + Send + Sync>(event: Arc<E>) -> Arrival {
        Arrival(Some(event))
    }

    /// The event, if there is one of type `E`.
    pub fn event<E: Any + Send + Sync>(&self) -> Option<Arc<E>> {
        Arc::clone(self.0.as_ref()?).downcast().ok()
    }
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU through CUDA.
    Cuda,
    /// A GPU through WebGPU.
    Wgpu,
}

/// Name, kind and facts of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Its name, for the user.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// The size of its memory; 0 if unknown.
    pub memory_bytes: u64,
    /// More facts, as (name, value).
    pub details: Vec<(String, String)>,
}

/// Device memory. Clones share it, and the last owner frees it.
#[derive(Clone)]
pub struct DeviceBuffer {
    bytes: usize,
    memory: Arc<dyn Any + Send + Sync>,
    version: Arc<AtomicU64>,
}

impl DeviceBuffer {
    /// Wraps the memory type of a device.
    pub fn new<M: Any + Send + Sync>(bytes: usize, memory: Arc<M>) -> DeviceBuffer {
        DeviceBuffer { bytes, memory, version: Arc::default() }
    }

    /// A number that changes whenever the host or a step writes to the buffer.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Notes that the buffer is written to. Devices call this for each write, and executables for each run that updates
    /// the buffer.
    pub fn note_write(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether both are one memory.
    pub fn is_same(&self, other: &DeviceBuffer) -> bool {
        Arc::ptr_eq(&self.version, &other.version)
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory as its device's own type.
    ///
    /// # Errors
    /// If another kind of device allocated it.
    pub fn memory<M: Any + Send + Sync>(&self) -> Result<Arc<M>, DeviceError> {
        Arc::clone(&self.memory).downcast().map_err(|_| DeviceError::ForeignBuffer)
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of device memory", self.bytes)
    }
}

/// The time of one launch.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// Position in the plan's launches.
    pub launch: usize,
    /// The kernel's name.
    pub kernel: String,
    /// Its time on the device.
    pub seconds: f64,
}

impl KernelTime {
    /// The time of a launch of a plan.
    pub fn new(plan: &Plan, launch: usize, seconds: f64) -> KernelTime {
        let kernel = plan.kernels[plan.launches[launch].kernel].name.clone();
        KernelTime { launch, kernel, seconds }
    }
}
