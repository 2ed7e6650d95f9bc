//! The errors of devices and runs.

use engine_core::codegen::{CodegenError, FailedAssertion};
use engine_core::diag::Span;
use engine_core::ir::{Requirement, written_path};
use engine_core::plan::{Buffer, Plan};
use std::path::PathBuf;
use thiserror::Error;

/// The error of a device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// Memory does not suffice.
    #[error("{device} has no {}memory left{}{}", amount(*.bytes), free_text(*.free), .largest)]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// The requested bytes; 0 for memory of a driver.
        bytes: usize,
        /// The free bytes of the device, if it reports them.
        free: Option<u64>,
        /// The purpose of the memory, and the largest tensors of the plan that needs it; may be empty.
        largest: String,
        /// The place of the largest tensor in the pipeline, if it is known.
        span: Option<Span>,
    },
    /// The buffer exceeds the largest buffer size of the device.
    #[error("{} takes {bytes} bytes, and {device} has buffers of at most {most} bytes", named(.buffer))]
    TooLarge {
        /// The device's name.
        device: String,
        /// The tensor in the buffer, if it is known.
        buffer: String,
        /// The requested bytes.
        bytes: u64,
        /// The largest size.
        most: u64,
        /// The place of the tensor in the pipeline, if it is known.
        span: Option<Span>,
    },
    /// A kernel does not compile.
    #[error(
        "the kernel of `{kernel}` does not compile; this is a bug of the engine or of a plugin's function\n{}",
        first_lines(.log)
    )]
    NotCompiled {
        /// The kernel, with its ops.
        kernel: String,
        /// The log of the compiler.
        log: String,
        /// The text with numbered lines, which messages omit.
        text: String,
        /// The place of the kernel in the pipeline, if it is known.
        span: Option<Span>,
    },
    /// The device has stopped working, and its contents are lost.
    #[error("{device} was lost: {why}")]
    Lost {
        /// The device's name.
        device: String,
        /// The driver's reason.
        why: String,
    },
    /// The plan has no input of that name.
    #[error("`{plan}` has no input `{input}`")]
    UnknownInput {
        /// The plan's name.
        plan: String,
        /// The requested name.
        input: String,
    },
    /// The plan has no output of that name.
    #[error("`{plan}` has no output `{output}`")]
    UnknownOutput {
        /// The plan's name.
        plan: String,
        /// The requested name.
        output: String,
    },
    /// A buffer has the wrong size.
    #[error("{what} takes {expected} bytes, not {found}")]
    WrongSize {
        /// The name of the buffer.
        what: String,
        /// The required bytes.
        expected: usize,
        /// The present bytes.
        found: usize,
    },
    /// A copy exceeds its buffer.
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
    /// The device does not support a kernel.
    #[error("{device} cannot run `{kernel}`: {reason}")]
    Unsupported {
        /// The device's name.
        device: String,
        /// The kernel.
        kernel: String,
        /// The reason.
        reason: String,
        /// The place of the kernel in the pipeline, if it is known.
        span: Option<Span>,
    },
    /// A driver or the operating system failed.
    #[error("{0}")]
    Failed(String),
}

impl DeviceError {
    /// Memory does not suffice for so many bytes, or for a driver if they are 0.
    pub fn out_of_memory(device: &str, bytes: usize, free: Option<u64>) -> DeviceError {
        DeviceError::OutOfMemory {
            device: device.to_string(),
            bytes,
            free,
            largest: String::new(),
            span: None,
        }
    }

    /// A text that does not compile, with the log of the compiler.
    pub fn not_compiled(kernel: &str, log: &str, text: &str) -> DeviceError {
        let lines = text.lines().enumerate().map(|(i, line)| format!("{:4} {line}", i + 1));
        let text = lines.collect::<Vec<_>>().join("\n");
        let (kernel, log) = (kernel.to_string(), log.trim_end().to_string());
        DeviceError::NotCompiled { kernel, log, text, span: None }
    }

    /// A kernel that the device does not support.
    pub fn unsupported(device: &str, kernel: &str, reason: String) -> DeviceError {
        let (device, kernel) = (device.to_string(), kernel.to_string());
        DeviceError::Unsupported { device, kernel, reason, span: None }
    }

    /// A kernel without a text: the device lacks a feature, or the engine made an invalid kernel.
    pub fn not_emitted(device: &str, kernel: &str, error: &CodegenError) -> DeviceError {
        if !error.is_of_device() {
            return DeviceError::not_compiled(kernel, &error.to_string(), "");
        }
        DeviceError::unsupported(device, kernel, error.to_string())
    }

    /// Adds the name of a buffer that is too large or does not fit into memory.
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

    /// Adds the place of the failing kernel in a plan. If memory does not suffice, adds the plan's largest tensors.
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

    /// The place of the cause in a pipeline, with a label.
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

/// The first lines of a compiler's log.
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

/// The three largest tensors of a plan with their sizes, for messages about memory.
pub fn largest_tensors(plan: &Plan) -> String {
    let mib = |bytes: usize| bytes.div_ceil(1 << 20);
    let largest = by_size(plan).into_iter().take(3);
    let largest = largest.map(|buffer| format!("`{}` ({} MiB)", buffer.name, mib(buffer.ty.bytes())));
    largest.collect::<Vec<_>>().join(", ")
}

/// The tensors of a plan, largest first.
fn by_size(plan: &Plan) -> Vec<&Buffer> {
    let mut buffers: Vec<_> = plan.buffers.iter().collect();
    buffers.sort_by_key(|buffer| std::cmp::Reverse(buffer.ty.bytes()));
    buffers
}

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// A value violates a requirement: an index is out of range, say.
    #[error("`{}`: {}", written_path(.node), .requirement.fault(*.value, *.position))]
    Assertion {
        /// The node with the assertion.
        node: String,
        /// Its place in the pipeline.
        span: Option<Span>,
        /// The row-major position of the value in the node's tensor.
        position: u64,
        /// The value.
        value: i64,
        /// The requirement that it breaks.
        requirement: Requirement,
        /// The file that state of the run was read from.
        state_file: Option<PathBuf>,
    },
    /// An input has no buffer yet.
    #[error("input `{0}` is not bound")]
    Unbound(String),
    /// The flag that cancels runs was set.
    #[error("cancelled within a step")]
    Cancelled,
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

    /// The error of a failed assertion.
    pub fn assertion(plan: &Plan, FailedAssertion { site, position, value }: FailedAssertion) -> RunError {
        let Some(check) = plan.assertions.iter().find(|check| check.node == site) else {
            engine_core::bug!("node {site} of `{}` has no assertion", plan.name)
        };
        let (span, requirement) = (check.span, check.requirement);
        let node = check.name.to_string();
        RunError::Assertion { node, span, position, value, requirement, state_file: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Coded;
    use engine_core::diag::Code;
    use engine_core::ir::DType;

    /// A missing feature is an error of the device; a kernel without a text is a bug of the engine.
    #[test]
    fn a_kernel_without_a_text_names_the_device_or_the_engine() {
        let reported = |error: CodegenError| {
            let error = DeviceError::not_emitted("GPU 0", "y", &error);
            (error.code(), error.to_string())
        };
        let scalar = CodegenError::Scalar { op: "rem".into(), dtype: "bool".into() };
        let expected = "the kernel of `y` does not compile; this is a bug of the engine or of a plugin's function\n\
                    `rem` of bool has no cube form";
        assert_eq!(reported(scalar), (Some(Code::E0608), expected.to_string()));
        let expected = "GPU 0 cannot run `y`: the device has no f64";
        assert_eq!(
            reported(CodegenError::Type { dtype: DType::F64 }),
            (Some(Code::E0610), expected.to_string())
        );
    }

    #[test]
    fn the_name_of_a_kernel_leads_its_label() {
        assert_eq!((name_of("y.a: exp add"), name_of("y")), ("y.a", "y"));
    }
}
