//! The choice of a device by its name on the command line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use engine_core::diag::Code;
use engine_runtime::cpu::CpuDevice;
use engine_runtime::device::{Device, DeviceError};
use engine_runtime::diagnostic::Coded;
#[cfg(feature = "cuda")]
use engine_runtime::gpu::cuda::CudaDevice;
#[cfg(feature = "wgpu")]
use engine_runtime::gpu::wgpu::{Adapter, WgpuDevice};
use engine_runtime::panics::caught;
use thiserror::Error;

/// A value of `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// CUDA, else a real GPU through wgpu, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The NVIDIA GPU with this number.
    Cuda(usize),
    /// The GPU with this number through wgpu.
    Wgpu(usize),
    /// A GPU that wgpu emulates on the CPU. It is used only on request.
    Software,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Choice::Auto),
            "cpu" => Ok(Choice::Cpu),
            "cuda" => Ok(Choice::Cuda(0)),
            "wgpu" => Ok(Choice::Wgpu(0)),
            "wgpu:software" => Ok(Choice::Software),
            _ => {
                let number = |kind: &str| text.strip_prefix(kind).and_then(|number| number.parse().ok());
                let cuda = number("cuda:").map(Choice::Cuda);
                let found = cuda.or_else(|| number("wgpu:").map(Choice::Wgpu));
                found.ok_or_else(|| {
                    "expected auto, cpu, cuda, cuda:N, wgpu, wgpu:N or wgpu:software".to_string()
                })
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Auto => f.write_str("auto"),
            Choice::Cpu => f.write_str("cpu"),
            Choice::Cuda(number) => write!(f, "cuda:{number}"),
            Choice::Wgpu(number) => write!(f, "wgpu:{number}"),
            Choice::Software => f.write_str("wgpu:software"),
        }
    }
}

impl Choice {
    /// The name without the number of the device.
    fn driver(self) -> &'static str {
        match self {
            Choice::Auto => "auto",
            Choice::Cpu => "cpu",
            Choice::Cuda(_) => "cuda",
            Choice::Wgpu(_) | Choice::Software => "wgpu",
        }
    }
}

/// A device, and why it was chosen.
pub struct Opened {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Under `auto`: the chosen device and the reason.
    pub why: Option<String>,
    /// Under `auto`: the choices that remain if this device fails; see [`open_next`].
    pub next: Option<Next>,
}

/// The remaining choices of `auto`.
pub struct Next {
    choices: &'static [Choice],
    threads: Option<usize>,
}

#[cfg(test)]
impl Next {
    /// Only the CPU remains.
    pub(crate) fn cpu() -> Next {
        Next { choices: &[], threads: Some(1) }
    }
}

/// The choices of `auto` before the CPU.
const GPUS: &[Choice] = &[Choice::Cuda(0), Choice::Wgpu(0)];

/// Why a device cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// This build has no driver for the device.
    #[error("device `{0}` is not available: this build has no driver for it")]
    NoDriver(Choice),
    /// The device does not start.
    #[error("device `{choice}` does not start: {source}")]
    Failed {
        /// The choice.
        choice: Choice,
        /// The error.
        source: DeviceError,
    },
}

impl OpenError {
    /// The first clause of the reason. `engine devices` prints the whole of it.
    fn in_short(&self) -> String {
        let OpenError::Failed { source, .. } = self else { return "no driver in this build".to_string() };
        let reason = source.to_string();
        let ends = [": ", "; ", ", which"].into_iter().filter_map(|end| reason.find(end));
        let clause = &reason[..ends.min().unwrap_or(reason.len())];
        clause.strip_prefix("there is ").unwrap_or(clause).to_string()
    }
}

impl Coded for OpenError {
    fn code(&self) -> Option<Code> {
        Some(Code::E0603)
    }

    fn help(&self) -> Option<String> {
        Some("`engine devices` lists usable devices; `--device cpu` always works".to_string())
    }
}

/// Starts the device of a choice. `threads` applies to the CPU; `None` means one per core.
///
/// ```
/// use engine::devices::{self, Choice};
///
/// let opened = devices::open(Choice::Cpu, Some(2))?;
/// assert_eq!(opened.device.info().name, "cpu");
/// let best = devices::open(Choice::Auto, None)?;
/// println!("{}: {}", best.device.info().name, best.why.unwrap_or_default());
/// # Ok::<(), devices::OpenError>(())
/// ```
///
/// # Errors
/// If this build has no driver for it, or it does not start.
pub fn open(choice: Choice, threads: Option<usize>) -> Result<Opened, OpenError> {
    match choice {
        Choice::Cpu => Ok(Opened::asked_for(cpu(choice, threads)?)),
        Choice::Auto => open_next(&Next { choices: GPUS, threads }),
        Choice::Cuda(number) => Ok(Opened::asked_for(cuda(number)?)),
        Choice::Wgpu(_) | Choice::Software => Ok(Opened::asked_for(wgpu(choice)?)),
    }
}

impl Opened {
    fn asked_for(device: Arc<dyn Device>) -> Opened {
        Opened { device, why: None, next: None }
    }
}

/// Starts the first usable device, finally the CPU, and reports which one and why.
///
/// ```
/// use engine::devices::{self, Choice};
///
/// // If a kernel fails on the first device, another may run it.
/// if let Some(next) = devices::open(Choice::Auto, Some(1))?.next {
///     let other = devices::open_next(&next)?;
///     println!("{}", other.device.info().name);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If not even the CPU starts.
pub fn open_next(next: &Next) -> Result<Opened, OpenError> {
    let mut reasons: Vec<String> = vec![];
    for (number, &choice) in next.choices.iter().enumerate() {
        match open(choice, None) {
            Ok(Opened { device, .. }) => {
                let why = Some(format!("{choice}, {}{}", device.info().name, in_brackets(&reasons)));
                let next = Next { choices: &next.choices[number + 1..], threads: next.threads };
                return Ok(Opened { why, device, next: Some(next) });
            }
            Err(error) => reasons.push(format!("{}: {}", choice.driver(), error.in_short())),
        }
    }
    let device = cpu(Choice::Auto, next.threads)?;
    Ok(Opened { device, why: Some(format!("cpu{}", in_brackets(&reasons))), next: None })
}

fn in_brackets(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

fn cpu(choice: Choice, threads: Option<usize>) -> Result<Arc<dyn Device>, OpenError> {
    started(choice, || CpuDevice::new(threads))
}

/// Starts a device of a choice. A panic of its driver is a failure to start.
fn started<D: Device + 'static>(
    choice: Choice,
    start: impl FnOnce() -> Result<D, DeviceError>,
) -> Result<Arc<dyn Device>, OpenError> {
    let panicked = |said: String| Err(DeviceError::Failed(format!("its driver panicked: {said}")));
    match caught(start).unwrap_or_else(panicked) {
        Ok(device) => Ok(Arc::new(device)),
        Err(source) => Err(OpenError::Failed { choice, source }),
    }
}

#[cfg(feature = "cuda")]
fn cuda(number: usize) -> Result<Arc<dyn Device>, OpenError> {
    started(Choice::Cuda(number), || CudaDevice::new(number))
}

#[cfg(not(feature = "cuda"))]
fn cuda(number: usize) -> Result<Arc<dyn Device>, OpenError> {
    Err(OpenError::NoDriver(Choice::Cuda(number)))
}

#[cfg(feature = "wgpu")]
fn wgpu(choice: Choice) -> Result<Arc<dyn Device>, OpenError> {
    let adapter = match choice {
        Choice::Wgpu(number) => Adapter::Gpu(number),
        _ => Adapter::Software,
    };
    started(choice, || WgpuDevice::new(adapter))
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(choice: Choice) -> Result<Arc<dyn Device>, OpenError> {
    Err(OpenError::NoDriver(choice))
}

/// A choice with its device, or with the reason why it cannot be used.
pub type Found = (Choice, Result<Arc<dyn Device>, OpenError>);

/// All devices of the machine, including unusable ones.
///
/// ```
/// use engine::devices::{self, Choice};
///
/// assert!(devices::all().iter().any(|(choice, device)| *choice == Choice::Cpu && device.is_ok()));
/// ```
pub fn all() -> Vec<Found> {
    let mut choices = vec![Choice::Cpu];
    choices.extend((0..n_gpus().max(1)).map(Choice::Cuda));
    choices.extend((0..n_wgpu().max(1)).map(Choice::Wgpu));
    choices.push(Choice::Software);
    choices.into_iter().map(|choice| (choice, open(choice, None).map(|opened| opened.device))).collect()
}

/// The number of GPUs, 0 if the driver does not report it.
fn n_gpus() -> usize {
    #[cfg(feature = "cuda")]
    return CudaDevice::count().unwrap_or(0);
    #[cfg(not(feature = "cuda"))]
    0
}

fn n_wgpu() -> usize {
    #[cfg(feature = "wgpu")]
    return WgpuDevice::count();
    #[cfg(not(feature = "wgpu"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So `auto` continues with the next device, and the exit code is that of a machine fault.
    #[test]
    fn a_driver_that_panics_does_not_start() {
        let start = || -> Result<CpuDevice, DeviceError> { panic!("no such symbol") };
        let Err(error) = started(Choice::Wgpu(0), start) else { panic!("it starts") };
        let said = "device `wgpu:0` does not start: its driver panicked: no such symbol";
        assert_eq!((error.to_string().as_str(), error.code()), (said, Some(Code::E0603)));
    }

    #[test]
    fn the_reasons_of_auto_are_short() {
        let short = |reason: &str| {
            OpenError::Failed { choice: Choice::Cuda(0), source: DeviceError::Failed(reason.to_string()) }
                .in_short()
        };
        assert_eq!(short("there is no NVIDIA driver: libcuda.so is not found"), "no NVIDIA driver");
        let software =
            "there is only a software adapter, which is slower than `--device cpu`; `--device wgpu:software`";
        assert_eq!(short(software), "only a software adapter");
        assert_eq!(short("the NVIDIA driver sees no GPU"), "the NVIDIA driver sees no GPU");
        assert_eq!(OpenError::NoDriver(Choice::Cuda(0)).in_short(), "no driver in this build");
        let reasons = ["cuda: no NVIDIA driver", "wgpu: only a software adapter"].map(String::from);
        assert_eq!(in_brackets(&reasons), " (cuda: no NVIDIA driver; wgpu: only a software adapter)");
        assert_eq!(in_brackets(&[]), "");
    }

    #[test]
    fn choices_read_as_they_print() {
        for text in ["auto", "cpu", "cuda:0", "cuda:3", "wgpu:0", "wgpu:1", "wgpu:software"] {
            assert_eq!(text.parse::<Choice>().map(|choice| choice.to_string()), Ok(text.to_string()));
        }
        assert_eq!("cuda".parse(), Ok(Choice::Cuda(0)));
        assert_eq!("wgpu".parse(), Ok(Choice::Wgpu(0)));
        assert!("gpu".parse::<Choice>().is_err() && "cuda:x".parse::<Choice>().is_err());
    }
}
