//! What a session asks of a machine: memory, and plans made ready to run.
//!
//! A device owns no state of a training run. The session allocates buffers for parameters, state and data, binds them
//! to an [`Executable`] by the names of the plan's inputs, and lets it take steps. The arena of intermediate values
//! belongs to the executable.

use crate::autotune::Tuning;
use crate::tensor::HostTensor;
use engine_core::codegen::{CodegenError, FailedAssertion};
use engine_core::device_model::DeviceModel;
use engine_core::diag::Span;
use engine_core::ir::{Requirement, written_path};
use engine_core::plan::{Buffer, Plan};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;

/// Something that runs plans.
pub trait Device: Send + Sync {
    /// What the device is.
    fn info(&self) -> DeviceInfo;

    /// The device as the compiler sees it: plans for it are compiled with that.
    fn model(&self) -> DeviceModel {
        DeviceModel::CPU
    }

    /// New memory, all zeros, at an address that is a multiple of 64.
    ///
    /// # Errors
    /// If there is not that much left.
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError>;

    /// A buffer that is the tensor's own memory, for devices that read host memory in place: large data is there once.
    /// Nobody may write it.
    fn share(&self, _tensor: &HostTensor) -> Option<DeviceBuffer> {
        None
    }

    /// Host memory from which the device fetches by itself while steps run: so many slots of so many bytes. None if it has
    /// no such memory.
    ///
    /// # Errors
    /// If there is not that much left.
    fn staging(&self, _n_slots: usize, _slot_bytes: usize) -> Result<Option<Box<dyn Staging>>, DeviceError> {
        Ok(None)
    }

    /// Copies `bytes` to a buffer, from byte `offset` on. No executable may be running on these bytes, nor
    /// on any of the buffer unless all of it was written before: what was not, a device may clear when it is first used.
    ///
    /// # Errors
    /// If the range is not inside the buffer, or the buffer is another device's.
    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies a buffer to `bytes`, from byte `offset` on. No executable may be running on the buffer.
    ///
    /// # Errors
    /// If the range is not inside the buffer, or the buffer is another device's.
    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// What it has found out by trying; none if it tries nothing.
    fn tuning(&self) -> Option<Tuning> {
        None
    }

    /// Lets what another run has found out stand for plans that are prepared from now on. Returns whether that run was on
    /// such a device; if not, nothing is taken over.
    fn adopt(&self, _tuning: &Tuning) -> bool {
        false
    }

    /// What has happened since the last call that a user may want to know, such as a damaged file that was replaced.
    fn take_notes(&self) -> Vec<String> {
        vec![]
    }

    /// Compiles a plan and allocates its arena. `seed` keys the plan's random nodes.
    ///
    /// # Errors
    /// If memory does not suffice, or the plan asks for what the device cannot do.
    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError>;
}

/// A plan that is ready to run on a device.
pub trait Executable: Send {
    /// Bytes allocated for intermediate values: the plan's `arena_bytes`, unless the device has to lay them out anew.
    fn arena_bytes(&self) -> usize;

    /// Bytes allocated beside the arena: what kernels need while they run.
    fn scratch_bytes(&self) -> usize;

    /// Says which buffer holds an input of the plan; all but the step number need one. Binding again replaces the
    /// buffer, from the next run on.
    ///
    /// # Errors
    /// If the plan has no such input, the buffer is too small for it, or is another device's.
    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError>;

    /// Lets all runs from now on wait for copies, on the device.
    ///
    /// # Errors
    /// If the device fails.
    fn wait_for(&mut self, _arrival: &Arrival) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Takes steps `first_step`, `first_step + 1`, …, and returns when the last one is done. Parameters and state
    /// are updated in the buffers that are bound to them.
    ///
    /// # Errors
    /// If an input is not bound, an index is out of range or an integer is divided by zero. No parameter or state is
    /// written after that was met, neither in its step nor in later ones. Of several such values in the first step that has
    /// any, the error tells of the lowest node's at the lowest position. Of a plan that writes no state, a device may go on
    /// after that step, and tell of the lowest of all steps.
    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError>;

    /// Seconds of the last run in which the host handed work in, before it waited; none if the host does the work itself.
    fn host_seconds(&self) -> Option<f64> {
        None
    }

    /// Copies an output of the last step to `bytes`.
    ///
    /// # Errors
    /// If the plan has no such output, or `bytes` is not of its size.
    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Takes one step and measures each launch, in the order of the plan.
    ///
    /// # Errors
    /// As for [`Executable::run`].
    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError>;
}

/// Host memory from which a device fetches while steps run.
pub trait Staging: Send {
    /// A slot, to be filled. Waits for copies out of it.
    ///
    /// # Errors
    /// If the device fails.
    fn slot(&mut self, slot: usize) -> Result<&mut [u8], DeviceError>;

    /// Starts to copy some bytes of a slot to a buffer, from byte `offset` on. No executable may be running on these bytes
    /// of the buffer.
    ///
    /// # Errors
    /// If the range is not inside the buffer, or the buffer is another device's.
    fn send(
        &mut self,
        slot: usize,
        bytes: Range<usize>,
        buffer: &DeviceBuffer,
        offset: usize,
    ) -> Result<(), DeviceError>;

    /// When all that was sent from a slot is there; for [`Executable::wait_for`].
    ///
    /// # Errors
    /// If the device fails.
    fn arrival(&mut self, slot: usize) -> Result<Arrival, DeviceError>;
}

/// The end of copies to a device, as the device knows it. The default is that of copies that were waited for.
#[derive(Clone, Default)]
pub struct Arrival(Option<Arc<dyn Any + Send + Sync>>);

impl Arrival {
    /// Wraps what a device can wait for.
    pub fn new<E: Any + Send + Sync>(event: Arc<E>) -> Arrival {
        Arrival(Some(event))
    }

    /// What to wait for, if there is anything, and it is of the device that asks.
    pub fn event<E: Any + Send + Sync>(&self) -> Option<Arc<E>> {
        Arc::clone(self.0.as_ref()?).downcast().ok()
    }
}

/// The kinds of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The processor itself.
    Cpu,
    /// An NVIDIA GPU through CUDA.
    Cuda,
    /// A GPU through WebGPU.
    Wgpu,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Its name, for people.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Bytes of memory it has; 0 if that is not known.
    pub memory_bytes: u64,
    /// More facts, as (name, value).
    pub details: Vec<(String, String)>,
}

/// A piece of device memory. Cloning shares it; it is freed with its last owner.
#[derive(Clone)]
pub struct DeviceBuffer {
    bytes: usize,
    memory: Arc<dyn Any + Send + Sync>,
}

impl DeviceBuffer {
    /// Wraps what a device calls its memory.
    pub fn new<M: Any + Send + Sync>(bytes: usize, memory: Arc<M>) -> DeviceBuffer {
        DeviceBuffer { bytes, memory }
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory as its device knows it.
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

/// How long one launch took.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// Position in the plan's launches.
    pub launch: usize,
    /// The kernel's name.
    pub kernel: String,
    /// Its time on the device.
    pub seconds: f64,
}

/// What a device could not do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// Not that much memory is left.
    #[error("{device} has no {}memory left{}{}", amount(*.bytes), free_text(*.free), .largest)]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// What was asked for; 0 if that is a driver's affair.
        bytes: usize,
        /// Bytes that nobody has taken, this program or another, if the device tells.
        free: Option<u64>,
        /// What it is for, and what takes the most of a plan where it is one that asks; else nothing.
        largest: String,
        /// Where what takes the most is written, if that is known.
        span: Option<Span>,
    },
    /// The device has no buffers of that size, however much memory is left.
    #[error("{} takes {bytes} bytes, and {device} has buffers of at most {most} bytes", named(.buffer))]
    TooLarge {
        /// The device's name.
        device: String,
        /// What the buffer is of, if that is known.
        buffer: String,
        /// What was asked for.
        bytes: u64,
        /// The largest there is.
        most: u64,
        /// Where that is written, if it is known.
        span: Option<Span>,
    },
    /// A compiler refuses a kernel.
    #[error(
        "the kernel of `{kernel}` does not compile; this is a bug of the engine or of a plugin's function\n{}",
        first_lines(.log)
    )]
    NotCompiled {
        /// The kernel, with its ops.
        kernel: String,
        /// What the compiler says.
        log: String,
        /// The text, its lines numbered; messages leave it out.
        text: String,
        /// Where what it computes is written, if that is known.
        span: Option<Span>,
    },
    /// The device has stopped working; nothing on it can be had any more.
    #[error("{device} was lost: {why}")]
    Lost {
        /// The device's name.
        device: String,
        /// What is known of it.
        why: String,
    },
    /// The plan has no input of that name.
    #[error("`{plan}` has no input `{input}`")]
    UnknownInput {
        /// The plan's name.
        plan: String,
        /// What was asked for.
        input: String,
    },
    /// The plan has no output of that name.
    #[error("`{plan}` has no output `{output}`")]
    UnknownOutput {
        /// The plan's name.
        plan: String,
        /// What was asked for.
        output: String,
    },
    /// Something has another size than it must.
    #[error("{what} takes {expected} bytes, not {found}")]
    WrongSize {
        /// What it is.
        what: String,
        /// The bytes it must have.
        expected: usize,
        /// The bytes it has.
        found: usize,
    },
    /// A copy would leave its buffer.
    #[error("bytes {offset}..{} lie outside a buffer of {bytes} bytes", .offset + .length)]
    OutOfRange {
        /// First byte of the copy.
        offset: usize,
        /// Its length.
        length: usize,
        /// The size of the buffer.
        bytes: usize,
    },
    /// The buffer was allocated by another kind of device.
    #[error("the buffer belongs to another device")]
    ForeignBuffer,
    /// The device cannot do what a plan asks for.
    #[error("{device} cannot run `{kernel}`: {reason}")]
    Unsupported {
        /// The device's name.
        device: String,
        /// The kernel.
        kernel: String,
        /// Why.
        reason: String,
        /// Where what it computes is written, if that is known.
        span: Option<Span>,
    },
    /// The machine failed.
    #[error("{0}")]
    Failed(String),
}

impl DeviceError {
    /// No room for so many bytes; for what a driver needs, if they are 0.
    pub fn out_of_memory(device: &str, bytes: usize, free: Option<u64>) -> DeviceError {
        DeviceError::OutOfMemory {
            device: device.to_string(),
            bytes,
            free,
            largest: String::new(),
            span: None,
        }
    }

    /// A text that a compiler refuses, and why.
    pub fn not_compiled(kernel: &str, log: &str, text: &str) -> DeviceError {
        let lines = text.lines().enumerate().map(|(i, line)| format!("{:4} {line}", i + 1));
        let text = lines.collect::<Vec<_>>().join("\n");
        let (kernel, log) = (kernel.to_string(), log.trim_end().to_string());
        DeviceError::NotCompiled { kernel, log, text, span: None }
    }

    /// No text of a kernel: the device lacks something, or the kernel is one that the engine should not have made.
    pub fn not_emitted(device: &str, kernel: &str, error: &CodegenError) -> DeviceError {
        if !error.is_of_device() {
            return DeviceError::not_compiled(kernel, &error.to_string(), "");
        }
        let (device, kernel, reason) = (device.to_string(), kernel.to_string(), error.to_string());
        DeviceError::Unsupported { device, kernel, reason, span: None }
    }

    /// The same of a buffer with a name, where it is too large or memory does not suffice.
    pub fn of_buffer(mut self, name: &str) -> DeviceError {
        match &mut self {
            DeviceError::OutOfMemory { largest, .. } if largest.is_empty() => {
                *largest = format!("; they would hold `{name}`");
            }
            DeviceError::TooLarge { buffer, .. } => *buffer = name.to_string(),
            _ => {}
        }
        self
    }

    /// The same of a plan: with the place of what cannot run, or of what takes the most memory where that does not suffice.
    pub fn of_plan(mut self, plan: &Plan) -> DeviceError {
        match &mut self {
            DeviceError::OutOfMemory { largest, span, .. } => {
                *largest +=
                    &format!("; the largest tensors of `{}` are {}", plan.name, largest_tensors(plan));
                *span = by_size(plan).first().and_then(|buffer| plan.place_of(&buffer.name));
            }
            DeviceError::Unsupported { kernel: name, span, .. }
            | DeviceError::TooLarge { buffer: name, span, .. } => *span = plan.place_of(name),
            DeviceError::NotCompiled { kernel, span, .. } => *span = plan.place_of(name_of(kernel)),
            _ => {}
        }
        self
    }

    /// The place in a pipeline of what is at fault, and what that is.
    pub fn place(&self) -> Option<(Span, String)> {
        match self {
            DeviceError::OutOfMemory { span, .. } => {
                Some(((*span)?, "the largest tensor is part of this".into()))
            }
            DeviceError::Unsupported { kernel: name, span, .. }
            | DeviceError::TooLarge { buffer: name, span, .. } => {
                Some(((*span)?, format!("`{name}` is part of this")))
            }
            DeviceError::NotCompiled { kernel, span, .. } => {
                Some(((*span)?, format!("`{}` is part of this", name_of(kernel))))
            }
            _ => None,
        }
    }
}

/// The name in a kernel's label.
fn name_of(label: &str) -> &str {
    label.split_once(": ").map_or(label, |(name, _)| name)
}

/// The start of what a compiler says.
fn first_lines(log: &str) -> String {
    const LINES: usize = 4;
    let line = |line: &str| line.chars().take(200).collect::<String>();
    log.lines().filter(|text| !text.trim().is_empty()).take(LINES).map(line).collect::<Vec<_>>().join("\n")
}

fn named(buffer: &str) -> String {
    if buffer.is_empty() { "a buffer".to_string() } else { format!("`{buffer}`") }
}

fn amount(bytes: usize) -> String {
    if bytes == 0 { String::new() } else { format!("{bytes} bytes of ") }
}

fn free_text(free: Option<u64>) -> String {
    free.map_or(String::new(), |free| format!(", {} MiB are free", free >> 20))
}

/// The three largest tensors of a plan, for whoever has no memory for it.
pub fn largest_tensors(plan: &Plan) -> String {
    let mib = |bytes: usize| bytes.div_ceil(1 << 20);
    let largest = by_size(plan).into_iter().take(3);
    let largest = largest.map(|buffer| format!("`{}` ({} MiB)", buffer.name, mib(buffer.ty.bytes())));
    largest.collect::<Vec<_>>().join(", ")
}

/// The tensors of a plan, the largest first.
fn by_size(plan: &Plan) -> Vec<&Buffer> {
    let mut buffers: Vec<_> = plan.buffers.iter().collect();
    buffers.sort_by_key(|buffer| std::cmp::Reverse(buffer.ty.bytes()));
    buffers
}

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// An index is out of range, or an integer is divided by zero.
    #[error("`{}`: {}", written_path(.node), .requirement.fault(*.value, *.position))]
    Assertion {
        /// The node that checks.
        node: String,
        /// Where that is written.
        span: Option<Span>,
        /// The row-major number of the value in the node's tensor.
        position: u64,
        /// The value.
        value: i64,
        /// What it should be.
        requirement: Requirement,
    },
    /// An input has no buffer yet.
    #[error("input `{0}` is not bound")]
    Unbound(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl RunError {
    /// As [`DeviceError::of_plan`].
    pub fn of_plan(self, plan: &Plan) -> RunError {
        match self {
            RunError::Device(error) => RunError::Device(error.of_plan(plan)),
            other => other,
        }
    }

    /// What a device found.
    pub fn violation(plan: &Plan, FailedAssertion { site, position, value }: FailedAssertion) -> RunError {
        let Some(check) = plan.assertions.iter().find(|check| check.node == site) else {
            engine_core::bug!("node {site} of `{}` checks nothing", plan.name)
        };
        let (span, requirement) = (check.span, check.requirement);
        RunError::Assertion { node: check.name.to_string(), span, position, value, requirement }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Coded;
    use engine_core::diag::Code;
    use engine_core::ir::DType;

    /// What a device lacks is told of the device, what has no text of the engine.
    #[test]
    fn a_kernel_without_a_text_is_told_as_whose_fault_it_is() {
        let told = |error: CodegenError| {
            let error = DeviceError::not_emitted("GPU 0", "y", &error);
            (error.code(), error.to_string())
        };
        let scalar = CodegenError::Scalar { op: "rem".into(), dtype: "bool".into() };
        let said = "the kernel of `y` does not compile; this is a bug of the engine or of a plugin's function\n\
                    `rem` of bool has no cube form";
        assert_eq!(told(scalar), (Some(Code::E0608), said.to_string()));
        let said = "GPU 0 cannot run `y`: the device has no f64";
        assert_eq!(told(CodegenError::Type { dtype: DType::F64 }), (Some(Code::E0610), said.to_string()));
    }

    #[test]
    fn the_name_of_a_kernel_leads_its_label() {
        assert_eq!((name_of("y.a: exp add"), name_of("y")), ("y.a", "y"));
    }
}
